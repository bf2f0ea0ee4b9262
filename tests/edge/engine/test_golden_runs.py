"""Golden runs on a real database: asked in turn, kept, gone on with, bounded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ds4watch.config.profile import Profile
from ds4watch.cost.prices import PriceEntry
from ds4watch.engine.golden_asking import Asker
from ds4watch.engine.golden_book import chosen
from ds4watch.engine.golden_runs import GoldenRuns
from ds4watch.engine.parts import Known
from ds4watch.engine.quality_run import METRIC
from ds4watch.engine.quality_table import QualityTable
from ds4watch.engine.signals import QualityReading, quality_samples
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.worker_answers import Answer
from ds4watch.history.state import StateStore
from ds4watch.model.errors import ConfigError, EdgeReason, Located, RefusedError, WorkerError
from ds4watch.model.usage import Usage
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from ds4watch.quality.golden import Question, questions_of
from ds4watch.quality.paired import Allowed
from tests.edge.history.helpers import NOW, FixedClock
from tests.edge.history.helpers import query as rows_of

REFERENCES: dict[str, str | None] = {"four": "full", "full": None}
HOUR = 3600 * 10**9
PRICES = (PriceEntry("*", HOUR, 0.0),)  # a second costs 1e9


def question_lines(count: int) -> str:
    return "\n".join(
        json.dumps(
            {
                "id": f"q-{it}",
                "class": "mathematics" if it % 2 else "format",
                "prompt": f"What is {it}?",
                "judge": {"kind": "numeric", "answer": it},
            }
        )
        for it in range(count)
    )


def view(profile: str, number: int = 0, waiting: float = 0.0) -> WorkerView:
    url = f"http://{profile}-{number}"
    load = WorkerLoad(running=0.0, waiting=waiting)
    return WorkerView(
        f"{profile}-{number}", profile, (profile,), url, WorkerPhase.READY, 0.0, load=load
    )


@dataclass
class Scripted:
    """Workers that answer by a script: url and prompt to text, or an error."""

    says: Callable[[str, str], str | WorkerError]
    asked: list[tuple[str, str, bool, int | None]] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    busy: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    """Requests at the same time."""

    def __call__(self, url: str) -> WorkerClient:
        return cast("WorkerClient", _Client(self, url))


@dataclass
class _Client:
    script: Scripted
    url: str

    async def answer(
        self, model: str, prompt: str, *, max_tokens: int, priority: int | None, chat: bool
    ) -> Answer:
        assert model in self.url
        assert max_tokens == 256
        await self.script.hold.wait()
        self.script.asked.append((self.url, prompt, chat, priority))
        self.script.busy[self.url] += 1
        most = self.script.most
        most["all"] = max(most["all"], self.script.busy.total())
        most["one worker"] = max(most["one worker"], self.script.busy[self.url])
        await asyncio.sleep(0)
        self.script.busy[self.url] -= 1
        said = self.script.says(self.url, prompt)
        if isinstance(said, WorkerError):
            raise said
        return Answer(said, Usage(10, 0, 5), 0.25, 1.25)


def knowing(url: str, prompt: str) -> str:
    """The reference is always right; the other is wrong about every fourth."""
    number = int(prompt.removeprefix("What is ").removesuffix("?"))
    return str(number + 1 if "four" in url and number % 4 == 3 else number)


@dataclass
class Bench:
    store: StateStore
    known: Known
    script: Scripted
    runs: GoldenRuns
    path: Path

    async def ended(self, status: str = "done") -> dict[str, Any]:
        async with asyncio.timeout(60):
            while (run := (await self.runs.shown())[0])["status"] == "running":
                await asyncio.sleep(0.01)
        assert run["status"] == status, run
        return run

    async def told(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in (await self.runs.shown())[0]["told"]:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def bench(
    folder: Path,
    says: Callable[[str, str], str | WorkerError] = knowing,
    *,
    count: int = 12,
    workers: tuple[WorkerView, ...] = (view("full"), view("four"), view("four", 1)),
    profiles: Mapping[str, Profile] | None = None,
    questions: Callable[[], tuple[Question, ...]] | None = None,
    prices: tuple[PriceEntry, ...] = PRICES,
    at_once: int = 1,
) -> AsyncIterator[Bench]:
    store = StateStore.open(folder / "state.db", FixedClock(), answer_timeout_seconds=30.0)
    known = Known(fleet=FleetSnapshot(NOW, workers))
    script = Scripted(says)
    script.hold.set()
    asker = Asker(known, script, profiles=profiles or {}, prices=prices, clock=FixedClock())
    runs = GoldenRuns(
        known,
        store.quality,
        asker,
        profiles=lambda: REFERENCES,
        questions=questions or (lambda: questions_of(question_lines(count), file="g.jsonl")),
        clock=FixedClock(),
        wait_seconds=0.01,
        at_once=at_once,
    )
    try:
        async with runs:
            yield Bench(store, known, script, runs, folder / "state.db")
    finally:
        await store.close()


async def begin(it: Bench, profile: str = "four", **more: Any) -> int:
    asked: dict[str, Any] = {"reference": "full", "questions": 0, "budget": None}
    return await it.runs.begin(profile, **(asked | {"who": "ops", "why": "test"} | more))


async def test_both_are_asked_the_same_and_the_loss_is_booked(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await begin(it)
        run = await it.ended()
        assert run["right"] == {"four": 9, "full": 12}
        assert run["told"].startswith(
            "four answered 9 of 12 right, +25.00 points lost against full"
        )
        samples = quality_samples(it.known.quality, NOW, 1.0, 1.0)
        found = {(s.name, dict(s.labels).get("class")): s.value for s in samples}
        assert found["ds4_quality_accuracy_drop_points", None] == 25.0
        assert found["ds4_quality_class_loss_points", "mathematics"] == 50.0
        assert found["ds4_quality_class_loss_points", "format"] == 0.0
        assert 0.9 < found["ds4_quality_class_loss_least_points", "mathematics"] < 50
        urls = [url for url, *_ in it.script.asked]
        assert len(urls) == 24
        assert urls.count("http://four-0") == urls.count("http://four-1") == 6
    audit = rows_of(tmp_path / "state.db", "SELECT who, summary FROM audit ORDER BY id")
    assert audit[0] == ("ops", "golden questions to four against full: 12 to each (test)")
    assert audit[1][1].startswith("golden run: four answered 9 of 12 right")


async def test_a_run_goes_on_after_a_restart_and_asks_nothing_twice(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        asked = it.script.asked

        def until_five(url: str, prompt: str) -> str:
            if len(asked) == 5:
                it.script.hold.clear()
            return knowing(url, prompt)

        it.script.says = until_five
        await begin(it)
        async with asyncio.timeout(60):
            while len(asked) < 5 or (await it.runs.shown())[0]["answered"] < 5:
                await asyncio.sleep(0.01)
    async with bench(tmp_path) as again:
        run = await again.ended()
        assert (run["answered"], len(again.script.asked)) == (24, 19)
        assert not {it[:2] for it in asked} & {
            (url, prompt) for url, prompt, *_ in again.script.asked if "full" in url
        }


async def test_a_stopped_run_goes_on_where_it_was_when_asked_for_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.script.hold.clear()
        number = await begin(it)
        with pytest.raises(RefusedError, match="under way"):
            await begin(it)
        assert await it.runs.stop("ops") == number
        assert await it.runs.stop("ops") is None
        it.script.hold.set()
        assert await begin(it) == number
        run = await it.ended()
        assert (run["id"], run["answered"]) == (number, 24)
        assert await begin(it) == number + 1


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (2, 2), (3, 3), (8, 3)])
async def test_some_are_asked_at_once_each_of_a_worker_of_its_own(
    tmp_path: Path, at_once: int, most: int
) -> None:
    async with bench(tmp_path, at_once=at_once) as it:
        await begin(it)
        run = await it.ended()
        assert run["right"] == {"four": 9, "full": 12}
        assert run["spent_nanos"] == 24 * 1.25 * 10**9
        assert len({(url[:11], prompt) for url, prompt, *_ in it.script.asked}) == 24
        assert len(it.script.asked) == 24, "none was asked twice"
        assert it.script.most == {"all": most, "one worker": 1}


async def test_an_answer_is_kept_though_another_at_the_same_time_fails_the_run(
    tmp_path: Path,
) -> None:
    refused = WorkerError("prompt too long", reason=EdgeReason.STATUS)
    async with bench(tmp_path, at_once=3) as it:
        it.script.says = lambda url, prompt: refused if "full" in url else knowing(url, prompt)
        number = await begin(it)
        run = await it.ended("failed")
        assert "full: prompt too long" in run["told"]
        assert run["asked"] == {"four": 2}
        it.script.says = knowing
        assert await begin(it) == number
        assert (await it.ended())["answered"] == 24


async def test_what_it_may_cost_ends_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await begin(it, budget=5 * 10**9)
        run = await it.ended("stopped")
        assert (run["told"], run["answered"]) == ("what it may cost is spent", 4)
        assert run["spent_nanos"] == 4 * 1.25 * 10**9


@pytest.mark.parametrize("budget", [1.3, 3.0, 6.1, 9.9, 20.0])
@pytest.mark.parametrize("at_once", [1, 3])
async def test_answers_at_the_same_time_do_not_cost_more_than_it_may_either(
    tmp_path: Path, at_once: int, budget: float
) -> None:
    async with bench(tmp_path, at_once=at_once) as it:
        await begin(it, budget=round(budget * 10**9))
        run = await it.ended("stopped")
        assert run["answered"] == int(budget / 1.25)
        assert run["spent_nanos"] <= run["budget_nanos"]
        assert run["told"].startswith("what it may cost is spent")


async def test_an_answer_that_costs_more_than_is_left_is_broken_off_and_what_it_cost_is_booked(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it:
        it.script.hold.clear()
        await begin(it, budget=10**7)  # a hundredth of a second
        run = await it.ended("stopped")
        assert run["told"] == "what it may cost is spent: an answer was broken off for it"
        assert (run["answered"], run["spent_nanos"]) == (0, 10**7)
        it.script.hold.set()
        await begin(it, budget=10**12)
        assert (await it.ended())["answered"] == 24


@dataclass
class SetClock(FixedClock):
    """Says what it is set to."""

    at: float = NOW

    def now(self) -> float:
        return self.at


class _Broken:
    """A judge with a fault."""

    def is_right(self, answer: str) -> bool:
        raise LookupError(answer)


async def test_a_fault_in_one_run_ends_that_run_and_not_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound = questions_of(question_lines(1), file="g.jsonl")
    asked = [tuple(replace(it, judge=_Broken()) for it in sound)]
    async with bench(tmp_path, questions=lambda: asked[0]) as it:
        await begin(it)
        run = await it.ended("failed")
        assert "a fault of ds4watch" in run["told"]
        assert "a golden run met a fault of ours" in caplog.text
        asked[0] = sound
        assert await begin(it) == run["id"]
        await it.ended()


async def test_a_worker_costs_what_its_host_costs(tmp_path: Path) -> None:
    prices = (*PRICES, PriceEntry("*", 3 * HOUR, 0.0, "four-0"))
    async with bench(tmp_path, workers=(view("four"),), count=1, prices=prices) as it:
        await begin(it, reference="")
        assert (await it.ended())["spent_nanos"] == 3 * 1_250_000_000


async def test_users_go_first_and_a_worker_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    busy = (view("full"), view("four", waiting=2.0))
    async with bench(tmp_path, workers=busy) as it:
        await begin(it)
        await it.told("waits: users' requests wait for four")
        it.known.fleet = FleetSnapshot(NOW, (view("full"),))
        await it.told("waits: no worker of four is ready")
        it.known.fleet = FleetSnapshot(NOW, (view("full"), view("four")))
        assert (await it.ended())["answered"] == 24


async def test_requests_have_the_lowest_priority_where_the_engine_has_priorities(
    tmp_path: Path,
) -> None:
    first = Profile.model_validate(
        {
            "name": "four", "engine": "vllm", "served_names": ["four"], "model": "m",
            "engine_args": ["--scheduling-policy", "priority"],
        }
    )  # fmt: skip
    async with bench(tmp_path, count=1, profiles={"four": first}) as it:
        await begin(it)
        await it.ended()
        assert {(url[7:11], priority) for url, _, _, priority in it.script.asked} == {
            ("four", 1_000_000),
            ("full", None),
        }


async def test_a_model_without_a_chat_template_is_asked_without(tmp_path: Path) -> None:
    refusal = WorkerError("no chat template", reason=EdgeReason.STATUS)

    async with bench(tmp_path, count=3) as it:
        it.script.says = lambda url, prompt: (
            refusal if it.script.asked[-1][2] else knowing(url, prompt)
        )
        await begin(it)
        run = await it.ended()
        assert run["answered"] == 6
        assert [chat for *_, chat, _ in it.script.asked].count(True) == 2


async def test_a_failure_that_may_pass_is_tried_again_and_one_that_does_not_ends_it(
    tmp_path: Path,
) -> None:
    gone = WorkerError("connection lost", reason=EdgeReason.GONE, retryable=True)
    async with bench(tmp_path, count=2) as it:
        it.script.says = lambda url, prompt: (
            gone if len(it.script.asked) < 4 else knowing(url, prompt)
        )
        await begin(it)
        assert (await it.ended())["answered"] == 4
    refused = WorkerError("prompt too long", reason=EdgeReason.STATUS)
    async with bench(tmp_path, lambda *_: refused) as it:
        await begin(it, "full", reference="")
        assert "full: prompt too long" in (await it.ended("failed"))["told"]


async def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    def broken() -> tuple[Question, ...]:
        raise ConfigError(Located("no such set", "g.jsonl"))

    async with bench(tmp_path) as it:
        with pytest.raises(RefusedError, match="no profile other in the fleet; there are four"):
            await begin(it, "other")
        with pytest.raises(RefusedError, match="with itself"):
            await begin(it, "full")
    async with bench(tmp_path, questions=broken) as it:
        with pytest.raises(ConfigError, match="no such set"):
            await begin(it)


async def test_at_night_the_pair_that_was_compared_longest_ago_has_its_turn(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it:
        assert await it.runs.nightly(3) == "begun for four"
        assert (await it.ended())["answered"] == 6
        it.known.fleet = FleetSnapshot(NOW, (view("full"),))
        assert "is ready together" in await it.runs.nightly(3)


async def test_the_table_says_what_each_cost_and_what_is_advised(tmp_path: Path) -> None:
    async with bench(tmp_path, count=40) as it:
        await begin(it)
        await it.ended()
        it.known.quality += (
            QualityReading("four", "full", METRIC, 0.25, NOW),
            QualityReading("four", "other", METRIC, 0.75, NOW),
        )
        clock = SetClock()
        table = QualityTable(
            it.known,
            it.store.quality,
            references=lambda: REFERENCES,
            weights=lambda name: 7.0 if name == "four" else None,
            currency="EUR",
            clock=clock,
            max_age_seconds=3600.0,
        )
        found = await table.shown([], reference=None, allowed=Allowed())
        clock.at = NOW + 3599
        later = await table.shown([], reference=None, allowed=Allowed())
        clock.at = NOW + 3601
        too_late = await table.shown([], reference=None, allowed=Allowed())
    assert (found["reference"], found["currency"]) == ("full", "EUR")
    four, full = found["profiles"]
    assert (four["profile"], four["weights_bytes"], full["weights_bytes"]) == ("four", 7.0, None)
    assert four["accuracy"]["right"] == 30
    assert four["tokens_per_second"] == pytest.approx(4.0)
    assert four["first_token_seconds"] == 0.25
    assert four["cost_per_million_tokens"] == pytest.approx(1.25 / 15 * 1e6)
    told = ("divergence_nats", "divergence_age_seconds")
    assert [four[it] for it in told] == [0.25, 0.0]
    assert [later["profiles"][0][it] for it in told] == [0.25, 3599.0]
    assert [too_late["profiles"][0][it] for it in told] == [None, None], "stale is absent"
    assert [full[it] for it in told] == [None, None]
    assert four["slo_cost_per_thousand_tokens"] is None
    assert found["route_regret"] == {"judged": 0, "mean_seconds": None, "p95_seconds": None}
    by_class = {it["class"]: it for it in found["advice"]}
    assert by_class["mathematics"]["losses"]["four"]["verdict"] == "too_lossy"
    assert by_class["format"]["losses"]["four"]["more_questions"] > 0
    assert {it["profile"] for it in found["advice"]} == {"full"}


def test_fewer_questions_are_some_of_more_and_in_the_same_order() -> None:
    questions = questions_of(question_lines(50), file="g.jsonl")
    assert chosen(questions, 20) == chosen(questions[::-1], 0)[:20]
