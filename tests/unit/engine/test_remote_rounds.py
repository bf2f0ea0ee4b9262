"""Rounds of questions beside the ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ds4watch.alerting.remote import Answer, Answers
from ds4watch.engine.remote_rounds import Rounds, RoundSettings
from ds4watch.model.alert import AlertState
from ds4watch.model.errors import EdgeReason, SourceError
from tests.unit.engine.server import Server
from tests.unit.promql.memory import named

AWAY = SourceError("connection refused", reason=EdgeReason.CONNECT, retryable=True)


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Asking:
    def questions(self, alerts: Sequence[AlertState], now: float) -> tuple[str, ...]:
        del alerts, now
        return ("queue", "queue > 5", "sum(queue)")


class Case:
    def __init__(self, server: Server | None = None) -> None:
        self.server = server or Server()
        self.clock = Clock()
        self.wake = asyncio.Event()
        settings = RoundSettings(interval_seconds=15.0, max_age_seconds=60.0)
        self.rounds = Rounds(self.server, Asking(), settings, wake=self.wake, clock=self.clock)
        self.samples()

    def samples(self) -> None:
        self.server.storage.add(named("queue"), [(self.clock.at, 7.0)])
        self.server.storage.add(named("up"), [(self.clock.at, 1.0)])

    async def round(self) -> Answers:
        assert self.rounds.take((), self.clock.at) is None
        await asyncio.wait_for(self.wake.wait(), 5)
        self.wake.clear()
        found = self.rounds.take((), self.clock.at)
        assert found is not None
        return found

    async def next_round(self) -> Answers:
        self.clock.at += 15
        self.samples()
        return await self.round()

    def told(self) -> dict[str, float]:
        return {
            f"{it.name}{''.join(value for _, value in it.labels)}": it.value
            for it in self.rounds.samples()
        }


async def test_a_tick_takes_answers_once_and_waits_for_none() -> None:
    case = Case()
    assert case.told() == {}
    found = await case.round()
    assert found.at == 1000.0
    assert found.by_text["sum(queue)"].vector.values.tolist() == [7.0]
    assert case.rounds.take((), case.clock.at) is None
    assert case.told() == {
        "ds4_source_up": 1.0,
        "ds4_source_data_age_seconds": 0.0,
        "ds4_source_questions_totalok": 4.0,
        "ds4_source_questions_totalpartial": 0.0,
        "ds4_source_questions_totalfailed": 0.0,
    }


async def test_the_next_round_begins_when_the_interval_is_over() -> None:
    case = Case()
    await case.round()
    asked = len(case.server.asked)
    case.clock.at += 14
    assert case.rounds.take((), case.clock.at) is None
    await asyncio.sleep(0)
    assert len(case.server.asked) == asked
    case.clock.at += 1
    assert (await case.round()).at == 1015.0


async def test_a_server_that_is_away_is_asked_once_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = Case()
    case.server.fails = lambda _: AWAY
    for _ in range(2):
        found = await case.next_round()
        assert {it.error for it in found.by_text.values()} == {"connection refused"}
    assert len(case.server.asked) == 2
    assert case.told()["ds4_source_up"] == 0.0
    case.server.fails = lambda _: None
    assert (await case.next_round()).error is None
    assert [it.levelname for it in caplog.records] == ["ERROR", "WARNING"]
    assert "connection refused" in caplog.text
    assert "fresh again" in caplog.text


async def test_a_server_that_goes_away_in_a_round_keeps_what_it_said_before() -> None:
    case = Case()
    case.server.fails = lambda text: AWAY if text == "queue > 5" else None
    found = await case.round()
    assert found.by_text["queue"].error is None
    assert found.by_text["sum(queue)"].error == found.error == "connection refused"


async def test_one_question_that_fails_leaves_the_others() -> None:
    case = Case()
    refused = SourceError("unknown function", reason=EdgeReason.REFUSED)
    case.server.fails = lambda text: refused if text == "queue > 5" else None
    found = await case.round()
    assert found.error is None
    assert found.by_text["queue > 5"] == Answer(error="unknown function")
    assert case.told()["ds4_source_questions_totalfailed"] == 1.0


@pytest.mark.parametrize("age", [61, 400])
async def test_a_server_whose_newest_sample_is_old_is_stale(
    age: float, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case()
    case.clock.at += age
    found = await case.round()
    assert found.stale
    assert case.told()["ds4_source_up"] == 0.0
    assert "more than source.max_age_seconds" in caplog.text
    assert not (await case.next_round()).stale


async def test_a_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.server.partial = True
    await case.round()
    await case.next_round()
    assert caplog.text.count("partial") == 1
    assert case.told()["ds4_source_questions_totalpartial"] == 8.0


async def test_a_round_under_way_ends_with_the_daemon() -> None:
    case = Case()
    hangs = asyncio.Event()

    class Hanging(Server):
        async def ask(self, text: str, at: float, until: float) -> Answer:
            await hangs.wait()
            return await super().ask(text, at, until)

    case = Case(Hanging())
    case.rounds.take((), case.clock.at)
    await asyncio.sleep(0)
    await case.rounds.close()
    assert case.server.asked == []
