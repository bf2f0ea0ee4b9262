"""What ds4watch reads from a real vLLM is, to the token, what vLLM told the clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from tests.integration.workers import Gauge, Reading, RealWorker
from tests.unit.vocabulary.reference import derived

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

BLOCK_TOKENS = 128
MAX_NUM_SEQS = 8
SETTLE_SECONDS = 15.0
COUNTERS = {
    "ds4_prompt_tokens_total": "prompt",
    "ds4_prefill_tokens_total": "prefill",
    "ds4_cached_tokens_total": "cached",
    "ds4_generated_tokens_total": "generated",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What a response told its client."""

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    finished: str = ""
    text: str = ""

    @property
    def prefill(self) -> int:
        return self.prompt - self.cached


class Client:
    """Asks a worker, plainly or as a stream, and keeps what it was told."""

    def __init__(self, session: aiohttp.ClientSession, worker: RealWorker) -> None:
        self._session = session
        self._worker = worker
        self.told: list[Told] = []

    async def complete(self, prompt: str, max_tokens: int, **options: Any) -> Told:
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **options}
        return await self._ask("/v1/completions", body)

    async def chat(self, content: str, max_tokens: int, **options: Any) -> Told:
        messages = [{"role": "user", "content": content}]
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, **options}
        return await self._ask("/v1/chat/completions", body)

    async def _ask(self, path: str, body: Mapping[str, Any]) -> Told:
        whole = {"model": self._worker.name, **body}
        if body.get("stream"):
            whole["stream_options"] = {"include_usage": True}
        async with self._session.post(self._worker.url + path, json=whole) as response:
            assert response.status == 200, await response.text()
            content = await response.text()
        told = _told([json.loads(part) for part in _parts(content, streamed="stream" in body)])
        self.told.append(told)
        return told

    def total(self, what: str) -> int:
        return sum(getattr(told, what) for told in self.told)


def _parts(content: str, *, streamed: bool) -> list[str]:
    if not streamed:
        return [content]
    lines = [line.removeprefix("data: ") for line in content.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return lines[:-1]


def _told(parts: list[dict[str, Any]]) -> Told:
    usage = parts[-1]["usage"]
    choices = [choice for part in parts for choice in part["choices"]]
    return Told(
        prompt=usage["prompt_tokens"],
        cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        generated=usage["completion_tokens"],
        finished=next(c["finish_reason"] for c in choices if c["finish_reason"]),
        text="".join(choice.get("text") or "" for choice in choices),
    )


def growth(before: Reading, after: Reading) -> dict[str, float]:
    return {name: after[name] - before[name] for name in COUNTERS}


def expected(client: Client) -> dict[str, float]:
    return {name: float(client.total(what)) for name, what in COUNTERS.items()}


async def settled(gauge: Gauge, before: Reading, client: Client) -> Reading:
    """Scrape until the counters have caught up with the answers, or time is up.

    The engine's front end answers a client a moment before it counts the answer.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    while True:
        after = await gauge.read(at=60.0)
        if growth(before, after) == expected(client) or loop.time() > deadline:
            return after
        await asyncio.sleep(0.05)


@pytest.fixture
def worker(real_workers: Mapping[str, RealWorker]) -> RealWorker:
    return real_workers["tiny-full"]


@pytest.fixture
def client(session: aiohttp.ClientSession, worker: RealWorker) -> Client:
    return Client(session, worker)


@pytest.fixture
def gauge(session: aiohttp.ClientSession, worker: RealWorker) -> Gauge:
    return Gauge(session, worker)


async def test_tokens_of_every_kind_of_request_are_those_that_the_answers_named(
    client: Client, gauge: Gauge
) -> None:
    before = await gauge.read(at=0.0)
    prefix = "Every lighthouse on this coast is numbered from the north. " * 5
    await client.complete("short", 3)
    first = await client.complete(prefix + "one", 5)
    again = await client.complete(prefix + "two", 5)
    await client.complete(prefix + "three", 7, stream=True)
    await client.chat(prefix * 2, 4)
    await client.chat(prefix * 2, 9, stream=True)
    await client.complete("a prompt much longer than one block " * 40, 1, stream=True)
    await asyncio.gather(
        *(client.complete(f"{number} {prefix}", 6, stream=True) for number in range(6)),
        *(client.chat(f"{prefix} {number}", 6) for number in range(6)),
    )
    after = await settled(gauge, before, client)

    assert (first.cached, again.cached) == (0, len(prefix) // BLOCK_TOKENS * BLOCK_TOKENS)
    assert growth(before, after) == expected(client)
    prompt, cached = client.total("prompt"), client.total("cached")
    generated = client.total("generated")
    miss, prefill, _, _, speed = derived([before.point, after.point])
    assert miss == pytest.approx(1 - cached / prompt)
    assert prefill == pytest.approx((prompt - cached) / (prompt - cached + generated))
    assert speed == pytest.approx(generated / 60)


async def test_an_engine_step_is_counted_for_each_token_of_a_lone_request(
    client: Client, gauge: Gauge
) -> None:
    before = await gauge.read()
    told = await client.complete("alone", 40)
    after = await settled(gauge, before, client)
    steps = after["ds4_engine_steps_total"] - before["ds4_engine_steps_total"]
    assert told.generated == 40
    assert steps == 40
    assert after["ds4_prefill_seconds_total"] > before["ds4_prefill_seconds_total"]
    assert after["ds4_decode_seconds_total"] > before["ds4_decode_seconds_total"]


async def test_requests_are_counted_by_the_reason_for_which_they_ended(
    client: Client, gauge: Gauge
) -> None:
    before = await gauge.read()
    whole = await client.complete("to be cut short", 12)
    cut = await client.complete("to be cut short", 12, stop=[whole.text[4:6]])
    after = await settled(gauge, before, client)
    ended = {
        reason: after.signals[signal, reason] - before.signals[signal, reason]
        for signal, reason in after.signals
        if signal == "ds4_finished_requests_total"
    }
    assert (whole.finished, cut.finished) == ("length", "stop")
    assert {reason: count for reason, count in ended.items() if count} == {"length": 1, "stop": 1}


async def test_more_requests_than_the_batch_holds_are_seen_as_a_queue_that_empties(
    client: Client, gauge: Gauge
) -> None:
    before = await gauge.read()
    seen: list[Reading] = []

    async def ask_until_a_queue_is_seen(number: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_SECONDS * 4
        while not _has_queued(seen) and loop.time() < deadline:
            await client.complete(f"burst {number}", 300, ignore_eos=True)

    burst = asyncio.gather(*(ask_until_a_queue_is_seen(number) for number in range(24)))
    while not burst.done():
        seen.append(await gauge.read())
    await burst
    after = await settled(gauge, before, client)
    assert _has_queued(seen)
    assert max(reading.load.running or 0 for reading in seen) == MAX_NUM_SEQS
    assert max(reading["ds4_kv_usage_ratio"] for reading in seen) > 0
    assert growth(before, after) == expected(client)
    assert (after.load.waiting, after.load.running) == (0, 0)
    assert after["ds4_kv_usage_ratio"] == 0


def _has_queued(seen: Sequence[Reading]) -> bool:
    """Whether a scrape has shown a full batch and a queue; its gauges lag, under load by much."""
    return any(it.load.waiting and it.load.running == MAX_NUM_SEQS for it in seen)
