"""Requests that are wrong by the thousand: refused in words, never with a fault of our own."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

from tests.conftest import ROOT
from tests.edge.gateway.processes import CHAT, Gateway, gateway_of, running, sims
from tests.edge.gateway.raw import chunked, post
from tests.edge.gateway.support import board_of

pytestmark = pytest.mark.slow

EXAMPLES = 12
MUTANTS = 2000
AT_ONCE = 150
FAST = (
    *("--prefill-tokens-per-second", "1000000", "--decode-tokens-per-second", "100000"),
    *("--max-model-len", "512", "--max-num-seqs", "64"),
)
TIMES = {"head_seconds": 0.3, "body_seconds": 0.3, "idle_seconds": 0.5}
SCHEMA = schemathesis.openapi.from_dict(
    yaml.safe_load((ROOT / "tests/data/gateway_openapi.yml").read_text(encoding="utf-8"))
)
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def as_told(status: int, told: Any) -> bool:
    """Return whether an answer is good, or refuses in OpenAI's shape."""
    if status < 400:
        return True
    return status < 500 and set(told["error"]) >= {"message", "type", "code"}


def asked_in_all_ways(url: str, mode: GenerationMode, seen: Counter[int]) -> None:
    """Make requests of the schema, or such as do not fit it."""
    for found in SCHEMA.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        if mode is GenerationMode.NEGATIVE and operation.method.lower() == "get":
            continue  # nothing in them can be wrong

        @seed(1)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            response = case.call(base_url=url, timeout=10)
            seen[response.status_code] += 1
            told = response.json() if response.status_code >= 400 and response.content else None
            if case.method != "HEAD" and told is not None:
                assert as_told(response.status_code, told), response.text

        ask()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
async def test_requests_by_the_schema_and_beside_it_are_no_fault_of_ours(
    tmp_path: Path, mode: GenerationMode
) -> None:
    seen: Counter[int] = Counter()
    async with (
        running(sims(1, *FAST)) as workers,
        gateway_of(tmp_path, board_of(workers[0].view)) as gateway,
    ):
        await asyncio.to_thread(asked_in_all_ways, gateway.url, mode, seen)
        assert sum(seen.values()) > EXAMPLES
        await expect_service(gateway)


async def expect_service(gateway: Gateway) -> None:
    async with aiohttp.ClientSession() as http:
        async with http.post(gateway.url + "/v1/chat/completions", json=CHAT) as response:
            assert response.status == 200, await response.text()
        assert (await gateway.health(http))["inflight"] == 0


def as_json(**more: Any) -> bytes:
    return json.dumps(CHAT | more).encode()


def at(path: bytes, body: bytes) -> bytes:
    return post(body).replace(b"/v1/chat/completions", path)


VALID = (
    post(as_json()),
    post(as_json(stream=True, stream_options={"include_usage": True})),
    post(as_json(n=2, temperature=0.5, stop=["a"], logprobs=True, top_logprobs=2, user="ü")),
    post(chunked(as_json()[:9], as_json()[9:]), b"Transfer-Encoding: chunked", sized=False),
    post(gzip.compress(as_json()), b"Content-Encoding: gzip"),
    post(as_json(), b"Expect: 100-continue", b"Connection: close", b"X-Session-ID: s"),
    at(b"/v1/completions", b'{"model": "sim", "prompt": ["a", "b"], "max_tokens": 3}'),
    at(b"/v1/embeddings", b'{"model": "sim", "input": "a"}'),
    at(b"/v1/responses?a=b", b'{"model": "sim", "input": "a"}'),
    b"GET /v1/models/sim HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
    b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n",
)
TOKENS = (
    *(b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\xff\xfe", b"%00", b"../"),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
        b"HTTP/9.9",
        b"Upgrade: h2c\r\n",
    ),
    *(b"[" * 2000, b'{"a":' * 500, b"1e999", b"-1", b"NaN", b"null", b"\\ud800", b"9" * 400),
    *(b'"model":', b'"stream":true,', b"Host: y\r\n", b"Expect: x\r\n", b"X: " + b"y" * 40_000),
)


def flip(raw: bytearray, chance: random.Random) -> None:
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def put_in(raw: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(raw))
    raw[place:place] = chance.choice(TOKENS)


def put_over(raw: bytearray, chance: random.Random) -> None:
    place, token = chance.randrange(len(raw)), chance.choice(TOKENS)
    raw[place : place + len(token)] = token


def cut_out(raw: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(raw))
    del raw[place : place + chance.randrange(1, 20)]


def double(raw: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(raw))
    raw[place:place] = raw[place : place + chance.randrange(1, 60)]


def cut_off(raw: bytearray, chance: random.Random) -> None:
    del raw[chance.randrange(len(raw)) :]


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(flip, put_in, put_over, cut_out, double, cut_off),
)


def mutant(chance: random.Random) -> bytes:
    """Return a valid request that has been tampered with; half the time only in its body."""
    raw = bytearray(chance.choice(VALID))
    head = raw.index(b"\r\n\r\n") + 4
    kept = bytearray()
    if chance.random() < 0.5 and head < len(raw):
        kept, raw = raw[:head], raw[head:]
    for _ in range(chance.randint(1, 2)):
        if raw:
            chance.choice(CHANGES)(raw, chance)
    if kept and b"Content-Length" in kept:
        kept = bytearray(re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(raw), kept))
    return bytes(kept + raw)


async def exchange(gateway: Gateway, request: bytes) -> list[int]:
    """Return the statuses of all answers that come before the connection ends."""
    client = await gateway.open()
    try:
        async with asyncio.timeout(10):
            client.send(request)
            raw = await client.reader.read()
    except ConnectionError:
        return []
    finally:
        client.writer.close()
    return [int(status) for status in STATUS.findall(raw)]


async def test_tampered_requests_are_no_fault_of_ours(tmp_path: Path) -> None:
    chance = random.Random(6)
    requests = [mutant(chance) for _ in range(MUTANTS)]
    seen: Counter[int] = Counter()
    bad: list[tuple[list[int], bytes]] = []
    async with (
        running(sims(1, *FAST)) as workers,
        gateway_of(tmp_path, board_of(workers[0].view), clients=TIMES) as gateway,
    ):
        waiting = iter(requests)

        async def send() -> None:
            for request in waiting:
                statuses = await exchange(gateway, request)
                seen.update(statuses)
                if any(status >= 500 and status != 505 for status in statuses):
                    bad.append((statuses, request))

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
        await expect_service(gateway)
    assert not bad
    assert seen[200] > MUTANTS // 60
    assert seen[400] > MUTANTS // 4
