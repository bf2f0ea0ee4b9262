from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest
from aiohttp import web

from ds4watch.fleet.board import BoardPublisher
from ds4watch.gateway.answer_scores import AnswerScores
from ds4watch.gateway.clock import SystemClock
from ds4watch.gateway.output_rules import OutputRules
from ds4watch.model.errors import ConfigError
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.usage import RequestOutcome
from ds4watch.model.worker import FleetSnapshot
from tests.edge.gateway.support import (
    CHAT,
    DONE,
    SHELL,
    USAGE,
    FakeWorker,
    begin,
    board_of,
    delta,
    event,
    front_of,
    records,
)


class HandClock:
    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


RULES = """
rules:
  - name: hush
    words: [hello]
  - name: more
    words_file: words.txt
    action: stop
"""


def write_rules(folder: Path, text: str = RULES, words: str = "# odd ones\nenough\n") -> str:
    (folder / "words.txt").write_text(words)
    (folder / "filter.yml").write_text(text)
    return str(folder / "filter.yml")


async def test_answers_are_masked_told_and_booked_in_full(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), output_filter=write_rules(tmp_path)) as front,
    ):
        async with front.post(CHAT) as response:
            told = await response.json()
            assert told["choices"][0]["message"]["content"] == "***"
            assert told["usage"] == USAGE
            assert response.headers["x-ds4-filter"] == "mask=1;rules=hush"
        async with front.post(CHAT | {"stream": True}) as response:
            text = await response.text()
        assert '"content":"***!"' in text
        assert "Hel" not in text
        assert text.endswith(": x-ds4-filter mask=1;rules=hush\n\ndata: [DONE]\n\n")
        one, two = await records(front, 2)
    assert one.usage is not None
    assert one.usage == two.usage
    assert (one.usage.prompt, one.usage.completion) == (7, 3)


async def test_a_rule_ends_an_answer_and_the_client_is_told_so(tmp_path: Path) -> None:
    async def script(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        for at, text in enumerate(("Well, ", "eno", "ugh of ", "that"), start=1):
            await response.write(delta(text, at))
        end = {"index": 0, "delta": {}, "finish_reason": "length"}
        await response.write(event({**SHELL, "choices": [end]}) + DONE)
        return response

    async with (
        FakeWorker("w1", script) as worker,
        front_of(tmp_path, board_of(worker.view()), output_filter=write_rules(tmp_path)) as front,
        front.post(CHAT | {"stream": True}) as response,
    ):
        text = await response.text()
        (record,) = await records(front)
    assert text.count('"finish_reason":"content_filter"') == 1
    assert "ugh" not in text
    assert "length" not in text
    assert text.endswith("data: [DONE]\n\n")
    assert record.usage is not None
    assert (record.usage.completion, record.estimated) == (3, False)


async def test_a_path_that_cannot_be_filtered_is_no_way_round(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), output_filter=write_rules(tmp_path)) as front,
        front.post({"model": "m", "input": "hi"}, "/v1/responses") as response,
    ):
        assert response.status == 403
        assert (await response.json())["error"]["code"] == "path_not_filtered"
    assert worker.bodies == []


async def test_rules_are_read_anew_while_running_and_kept_if_they_cannot_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = OutputRules(Path(write_rules(tmp_path)))
    before = rules._book
    await rules.look()
    assert rules._book is before
    write_rules(tmp_path, words="plenty and more\n")
    await rules.look()
    after = rules._book
    assert after is not before
    write_rules(tmp_path, "rules: [{name: broken, regex: '(a'}]")
    await rules.look()
    await rules.look()
    assert rules._book is after
    assert caplog.text.count("stays as it was") == 1
    (tmp_path / "filter.yml").unlink()
    await rules.look()
    assert rules._book is after
    write_rules(tmp_path, "rules: []")
    await rules.look()
    assert rules._book.rules == ()


def test_a_gateway_does_not_start_without_the_rules_it_was_told_of(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"filter\.yml"):
        OutputRules(tmp_path / "filter.yml")


async def test_the_daemon_hears_what_was_found_and_how_answers_scored(tmp_path: Path) -> None:
    path = write_rules(tmp_path)
    async with (
        FakeWorker("w1") as worker,
        BoardPublisher(tmp_path, SystemClock(), policy=ServicePolicy()) as board,
        front_of(tmp_path, None, output_filter=path, score_every=1) as front,
    ):
        assert await board.connected(1, timeout_seconds=5)
        board.publish_fleet(FleetSnapshot(1.0, (worker.view(),)))
        assert await board.publish_policy(ServicePolicy(version=1), timeout_seconds=5)
        async with front.post(CHAT | {"stream": True}) as response:
            await response.read()
        async with asyncio.timeout(5):
            while not board.gateways()[0].scores:
                board.ask_stats()
                await asyncio.sleep(0.01)
        (view,) = board.gateways()
    assert view.filtered == {("hush", "mask"): 1}
    assert view.scores == {"w1": (1, 1.0)}


def test_one_of_so_many_answers_is_scored_and_never_many_at_once() -> None:
    clock = HandClock()
    scores = AnswerScores(clock, every=3)
    assert [scores.tap() is not None for _ in range(9)] == [False, False, True] + [False] * 6
    clock.at += 1.0
    assert scores.tap() is not None  # it is long due
    assert AnswerScores(clock, every=0).tap() is None
    body = b'{"choices": [{"message": {"content": "Yes."}}]}'
    scores.note("w1", body, stream=False)
    scores.note("w1", b"not an answer", stream=False)
    scores.note("w1", body.replace(b"Yes", b" " * 70_000), stream=False)
    assert scores.sums == {"w1": (1, 1.0)}


@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_answer_that_cannot_be_read_is_refused_rather_than_passed_unfiltered(
    tmp_path: Path, is_stream: bool
) -> None:
    async def packed(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        del request
        kind = "text/event-stream" if worker.bodies[-1].get("stream") else "application/json"
        body = gzip.compress(b'{"choices": []}')
        headers = {"Content-Type": kind, "Content-Encoding": "gzip"}
        return web.Response(body=body, headers=headers)

    async with FakeWorker("w1", packed) as worker:
        board = board_of(worker.view())
        rules = write_rules(tmp_path)
        async with front_of(tmp_path, board, output_filter=rules) as front:
            async with front.post(CHAT | {"stream": is_stream}) as response:
                assert response.status == 502
                told = (await response.json())["error"]
            assert told["code"] == "answer_not_filtered"
            assert "worker w1 sent it packed (gzip)" in told["message"]
            (record,) = await records(front)
            assert record.outcome is RequestOutcome.UPSTREAM_ERROR
            assert len(worker.bodies) == 1
