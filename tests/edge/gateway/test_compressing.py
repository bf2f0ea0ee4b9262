"""Prompts compressed in a process of their own, and judged by a worker's logprobs."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from benchmarks.support.sim_workers import sim_workers
from ds4watch.config.compression import CompressionSettings
from ds4watch.gateway.compressing import PromptCompressor
from ds4watch.gateway.logprob_scorer import LogprobScorer, mean_bits
from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.shaping.compress import Scorer, changed_fields, compress
from tests.edge.gateway.support import FakeWorker, answer, board_of, front_of, records

LICENSE = (Path(__file__).resolve().parents[3] / "LICENSE").read_text()
BODY: dict[str, Any] = {"model": "m", "temperature": 0, "prompt": LICENSE}


@asynccontextmanager
async def compressing(
    scorer: Scorer | None = None, **settings: Any
) -> AsyncIterator[PromptCompressor]:
    values = {"timeout_seconds": 10.0} | settings
    compressor = PromptCompressor(CompressionSettings(**values), scorer)
    try:
        yield compressor
    finally:
        await compressor.close()


async def test_a_long_prompt_comes_back_as_it_would_be_compressed_here() -> None:
    async with compressing() as compressor:
        fields = await compressor.fields(BODY, 0.5)
    assert fields == changed_fields(BODY, compress(BODY, ratio=0.5))
    assert fields is not None
    assert set(fields) == {"prompt"}
    assert compressor.counts.compressed == 1
    assert compressor.counts.tokens_after < 0.55 * compressor.counts.tokens_before


async def test_prompts_that_come_together_are_all_compressed() -> None:
    bodies = [{"prompt": f"{LICENSE}{at}"} for at in range(6)]
    async with compressing() as compressor:
        found = await asyncio.gather(*(compressor.fields(body, 0.5) for body in bodies))
    assert found == [changed_fields(body, compress(body, ratio=0.5)) for body in bodies]


@pytest.mark.parametrize("settings", [{"max_bytes": 4096}, {"max_waiting": 1}])
async def test_what_is_too_much_is_passed_on_whole(settings: dict[str, Any]) -> None:
    async with compressing(**settings) as compressor:
        found = await asyncio.gather(*(compressor.fields(BODY, 0.5) for _ in range(3)))
        assert found.count(None) >= 2
        assert compressor.counts.skipped == found.count(None)


async def test_a_process_that_does_not_answer_in_time_costs_only_the_compression(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with compressing(timeout_seconds=0.001) as compressor:
        assert await compressor.fields(BODY, 0.5) is None
        assert await compressor.fields(BODY, 0.5) is None
        assert compressor.counts.skipped == 2
    assert [it.message for it in caplog.records if "uncompressed" in it.message] == [
        "prompts are passed on uncompressed: TimeoutError"
    ]


async def test_a_process_that_was_killed_is_followed_by_another() -> None:
    async with compressing() as compressor:
        assert await compressor.fields(BODY, 0.5) is not None
        assert compressor._process is not None
        compressor._process.kill()
        await compressor._process.wait()
        assert await compressor.fields(BODY, 0.5) is not None


async def test_a_client_that_leaves_does_not_spoil_the_next_ones_answer() -> None:
    other = {"prompt": LICENSE[2000:]}
    async with compressing() as compressor:
        await compressor.fields(BODY, 0.5)
        leaving = asyncio.create_task(compressor.fields(BODY, 0.5))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await compressor.fields(other, 0.5) == changed_fields(
            other, compress(other, ratio=0.5)
        )


def level(**limits: Any) -> ServicePolicy:
    return ServicePolicy(version=1, level=1, limits=Limits(**limits))


CHAT: dict[str, Any] = {
    "model": "m",
    "seed": 7,
    "messages": [
        {"role": "system", "content": "Answer from the text."},
        {"role": "user", "content": LICENSE},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Who may sue?"},
    ],
}


async def test_a_level_compresses_long_prompts_and_tells_the_client(tmp_path: Path) -> None:
    tight = level(compress_ratio=0.5, compress_over_tokens=1000)
    async with (
        FakeWorker("w") as worker,
        front_of(
            tmp_path,
            board_of(worker.view(), policy=tight),
            compression=CompressionSettings(timeout_seconds=10.0),
        ) as front,
    ):
        async with front.post(CHAT) as response:
            assert response.headers["x-ds4-degraded"] == "level=1;compressed=0.5"
        assert worker.bodies[0] == compress(CHAT, ratio=0.5).body
        assert len(worker.raw[0]) < 0.6 * len(json.dumps(CHAT))
        short = CHAT | {"messages": CHAT["messages"][2:]}
        async with front.post(short) as response:
            assert "x-ds4-degraded" not in response.headers
        assert worker.bodies[1] == short
        (record, _) = await records(front, 2)
    assert record.degraded == ("level=1", "compressed=0.5")


async def test_turns_are_left_out_first_and_what_stays_is_compressed_if_still_long(
    tmp_path: Path,
) -> None:
    tight = level(compress_ratio=0.5, compress_over_tokens=1000, max_turns=2)
    settings = CompressionSettings(timeout_seconds=10.0)
    old = [{"role": "user", "content": LICENSE}, {"role": "assistant", "content": "I see."}]
    system, *rest = CHAT["messages"]
    long_still = CHAT | {"messages": [system, *old, *rest]}
    brief = [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "Yes."}]
    last = {"role": "user", "content": "Why?"}
    short_then = CHAT | {"messages": [system, *rest, *brief, last]}
    async with FakeWorker("w") as worker:
        board = board_of(worker.view(), policy=tight)
        async with front_of(tmp_path, board, compression=settings) as front:
            async with front.post(long_still) as response:
                told = response.headers["x-ds4-degraded"]
                assert told == "level=1;turns=2;compressed=0.5"
            async with front.post(short_then) as response:
                assert response.headers["x-ds4-degraded"] == "level=1;turns=2"
    assert worker.bodies[0] == compress(CHAT, ratio=0.5).body
    assert worker.bodies[1] == CHAT | {"messages": [system, *brief, last]}


async def test_a_prompt_that_could_not_be_compressed_is_passed_on_byte_for_byte(
    tmp_path: Path,
) -> None:
    tight = level(compress_ratio=0.5, compress_over_tokens=1000)
    raw = json.dumps(CHAT, indent=1).encode()
    async with (
        FakeWorker("w") as worker,
        front_of(
            tmp_path,
            board_of(worker.view(), policy=tight),
            compression=CompressionSettings(max_bytes=2048),
        ) as front,
        front.post(raw, headers={"Content-Type": "application/json"}) as response,
    ):
        assert response.status == 200
        assert "x-ds4-degraded" not in response.headers
    assert worker.raw == [raw]


async def test_the_settings_scorer_is_asked_and_does_without_if_it_is_not_there(
    tmp_path: Path,
) -> None:
    async def logprobs(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        body = worker.bodies[-1]
        if body.get("prompt_logprobs") is None:
            return await answer(worker, request)
        rows = [None, *({"1": {"logprob": -1.0, "decoded_token": it}} for it in body["prompt"][1:])]
        return web.json_response({"choices": [{"prompt_logprobs": rows}]})

    tight = level(compress_ratio=0.5, compress_over_tokens=1000)
    settings = CompressionSettings(timeout_seconds=10.0, scorer_model="small")
    async with (
        FakeWorker("w") as worker,
        FakeWorker("s", logprobs, models=("small",)) as small,
        front_of(
            tmp_path, board_of(worker.view(), small.view(), policy=tight), compression=settings
        ) as front,
    ):
        async with front.post(CHAT):
            pass
        assert [body["prompt_logprobs"] for body in small.bodies] == [0]
        front.serving.state.apply(board_of(worker.view(), policy=tight, version=2))
        async with front.post(CHAT):
            pass
        assert worker.bodies[1] == compress(CHAT, ratio=0.5).body
        assert len(worker.raw[0]) < 0.6 * len(json.dumps(CHAT))


class Scripted:
    """Finds only what holds a word surprising."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def surprise(self, texts: Sequence[str], _model: str) -> Sequence[float] | None:
        return [9.0 if self.word in text else 1.0 for text in texts] if self.word else None


async def test_a_scorer_decides_what_stays_and_without_its_word_the_text_itself_does() -> None:
    async with compressing(Scripted("trademark")) as compressor:
        fields = await compressor.fields(BODY, 0.3)
        assert fields is not None
        assert fields["prompt"].count("trademark") == LICENSE.count("trademark")
    async with compressing(Scripted("")) as compressor:
        assert await compressor.fields(BODY, 0.5) == changed_fields(BODY, compress(BODY, ratio=0.5))


async def test_a_simulated_workers_logprobs_are_read() -> None:
    """Wiring only: what a simulated model finds surprising says nothing."""
    asked: list[Mapping[str, Any]] = []
    async with sim_workers(1) as (worker,), aiohttp.ClientSession() as http:

        async def post(body: Mapping[str, Any]) -> bytes | None:
            asked.append(body)
            async with http.post(worker.url + "/v1/completions", json=body) as response:
                return await response.read() if response.status == 200 else None

        scorer = LogprobScorer("sim", post)
        texts = ["The first sentence.", "A second one, which is longer.", "End."]
        bits = await scorer.surprise(texts, "m")
        assert bits is not None
        assert len(bits) == 3
        assert all(0 < one < math.inf for one in bits)
        assert asked[0]["prompt_logprobs"] == 0
        assert await LogprobScorer("other", post).surprise(texts, "m") is None
        async with compressing(scorer) as compressor:
            fields = await compressor.fields({"prompt": LICENSE[:6000]}, 0.5)
            assert fields is not None
            assert len(fields["prompt"]) < 0.6 * 6000


async def test_an_answer_without_logprobs_is_no_judgement(caplog: pytest.LogCaptureFixture) -> None:
    async def post(_body: Mapping[str, Any]) -> bytes | None:
        return json.dumps({"choices": [{"text": "hm"}]}).encode()

    assert await LogprobScorer("s", post).surprise(["a"], "m") is None
    assert "gave no logprobs" in caplog.text


def test_each_text_gets_the_mean_bits_of_the_tokens_that_begin_in_it() -> None:
    half, quarter = math.log(0.5), math.log(0.25)
    tokens = [("ab", half), ("c\n", half), ("d", quarter), ("ef\n", quarter), ("gh", half)]
    assert mean_bits(["abc", "def", "gh"], tokens) == pytest.approx([1.0, 2.0, 1.0])
    assert mean_bits(["abc", "def"], []) == [math.inf, math.inf]
    assert mean_bits([], []) == []
