from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from ds4watch.model.usage import RequestOutcome, Usage
from tests.edge.gateway.support import (
    CHAT,
    DONE,
    USAGE,
    FakeWorker,
    begin,
    board_of,
    delta,
    event,
    front_of,
    records,
    status,
)


async def test_a_plain_answer_passes_through_and_is_booked(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        body = json.dumps(CHAT | {"extra": {"unknown": [1]}}, indent=1).encode()
        async with front.post(body, headers={"x-request-id": "abc-1"}) as response:
            told = await response.json()
        assert response.status == 200
        assert told["choices"][0]["message"]["content"] == "Hello"
        assert response.headers["x-request-id"] == "abc-1"
        assert response.headers["x-ds4-worker"] == "w1"
        assert response.headers["x-ds4-attempts"] == "1"
        assert "x-ds4-degraded" not in response.headers
        assert worker.raw == [body]
        (record,) = await records(front)
    assert record.id == "abc-1"
    assert (record.seq, record.gateway, record.worker, record.status) == (1, "g0", "w1", 200)
    assert record.outcome is RequestOutcome.OK
    assert record.usage == Usage(prompt=7, cached=4, completion=3)
    assert not record.estimated
    assert (record.model_asked, record.model_served, record.stream) == ("m", "m", False)
    assert record.first_byte_seconds is not None
    assert 0 < record.first_byte_seconds <= record.duration_seconds


async def test_a_stream_passes_through_without_the_usage_nobody_asked_for(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with front.post(CHAT | {"stream": True}) as response:
            text = await response.read()
        assert response.content_type == "text/event-stream"
        assert response.headers["x-ds4-worker"] == "w1"
        assert b"usage" not in text
        assert text.count(b"data: ") == 4
        assert text.endswith(b"data: [DONE]\n\n")
        asked = worker.bodies[0]["stream_options"]
        assert asked == {"include_usage": True, "continuous_usage_stats": True}
        (record,) = await records(front)
    assert record.usage == Usage(prompt=7, cached=4, completion=3)
    assert (record.stream, record.estimated, record.outcome) == (True, False, RequestOutcome.OK)


@pytest.mark.parametrize("model", ["m"])
async def test_the_openai_client_works_through_it(tmp_path: Path, model: str) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        openai.AsyncOpenAI(base_url=front.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        assert [it.id async for it in client.models.list()] == ["m"]
        messages: Any = CHAT["messages"]
        whole = await client.chat.completions.create(model=model, messages=messages)
        assert whole.choices[0].message.content == "Hello"
        assert whole.usage is not None
        assert whole.usage.total_tokens == 10
        stream = await client.chat.completions.create(
            model=model, messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello!"
        assert [c.usage.total_tokens for c in chunks if c.usage] == [10]
        text = await client.completions.create(model=model, prompt="hi")
        assert text.choices[0].text == "Hello"
        with pytest.raises(openai.NotFoundError, match="Models here: m"):
            await client.chat.completions.create(model="other", messages=messages)


async def test_credentials_and_hop_by_hop_headers_stay_here(tmp_path: Path) -> None:
    sent = {
        "Authorization": "Bearer secret",
        "Cookie": "a=b",
        "X-Api-Key": "secret",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "1",
        "TE": "trailers",
        "Accept-Encoding": "gzip",
        "X-Session-ID": "s1",
        "traceparent": "00-1",
    }
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        async with front.post(CHAT, headers=sent) as response:
            assert response.status == 200
        seen = worker.headers[0]
    assert not {"authorization", "cookie", "x-api-key", "x-hop", "te"} & set(seen)
    assert "secret" not in json.dumps(seen)
    assert (seen["x-session-id"], seen["traceparent"]) == ("s1", "00-1")
    assert seen["accept-encoding"] == "identity"
    assert seen["x-request-id"] == response.headers["x-request-id"]


async def test_an_odd_request_id_is_replaced(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        for odd in ("", "a b", "x" * 200, "<script>"):
            async with front.post(CHAT, headers={"x-request-id": odd}) as response:
                assert len(response.headers["x-request-id"]) == 32


async def test_a_workers_refusal_is_passed_on_as_it_is(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", status(422)) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        async with front.post(CHAT) as response:
            assert response.status == 422
            assert (await response.json())["error"]["message"] == "no"
        (record,) = await records(front)
    assert record.outcome is RequestOutcome.CLIENT_ERROR
    assert record.usage is None


async def test_a_client_that_leaves_frees_the_worker_within_a_second(tmp_path: Path) -> None:
    async def endless(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(delta("a", 1) + delta("b", 2))
        await worker.release.wait()
        return response

    async with (
        FakeWorker("w1", endless) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        response = await front.post(CHAT | {"stream": True})
        await response.content.readuntil(b"\n\n")
        response.close()
        async with asyncio.timeout(1):
            await worker.dropped.wait()
        (record,) = await records(front)
        assert front.serving.state.inflight.total == 0
        assert front.serving.state.inflight.by_worker == {}
    assert record.outcome is RequestOutcome.CLIENT_GONE
    assert record.status == 499
    assert record.usage == Usage(prompt=7, completion=2)
    assert record.estimated


async def test_a_client_that_leaves_before_the_answer_frees_the_worker_too(tmp_path: Path) -> None:
    async def never(worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
        await worker.release.wait()
        return web.Response()

    async with (
        FakeWorker("w1", never) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        asking = asyncio.create_task(
            front.http.post(front.url + "/v1/completions", json={"model": "m", "prompt": "x"})
        )
        await worker.arrived.wait()
        asking.cancel()
        async with asyncio.timeout(1):
            await worker.dropped.wait()
        (record,) = await records(front)
    assert record.outcome is RequestOutcome.CLIENT_GONE
    assert record.usage is None


async def test_a_slow_reader_holds_the_worker_back_instead_of_filling_memory(
    tmp_path: Path,
) -> None:
    written = 0
    piece = delta("x" * 60_000, 1)

    async def torrent(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = await begin(request)
        for _ in range(1000):
            await response.write(piece)
            written += 1
        await response.write(DONE)
        return response

    async with (
        FakeWorker("w1", torrent) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        response = await front.post(CHAT | {"stream": True})
        before = -1
        async with asyncio.timeout(10):
            while before != written:  # until it is stuck
                before = written
                await asyncio.sleep(0.3)
        assert written < 800
        text = await response.read()
        assert text.endswith(b"data: [DONE]\n\n")
        assert text.count(b"data: ") == 1001


async def test_a_stream_that_breaks_ends_with_an_error_event(tmp_path: Path) -> None:
    async def breaks(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(delta("a", 1) + b'data: {"half')
        assert request.transport is not None
        request.transport.close()
        return response

    async with (
        FakeWorker("w1", breaks) as one,
        FakeWorker("w2") as two,
        front_of(tmp_path, board_of(one.view(), two.view())) as front,
    ):
        front.choose_first("w1")
        async with front.post(CHAT | {"stream": True}) as response:
            text = await response.read()
        first, last, done = text.decode().strip().split("\n\n")
        (record,) = await records(front)
    assert '"content":"a"' in first
    error = json.loads(last[6:])["error"]
    assert error["code"] == "upstream_broken"
    assert error["message"].startswith("The answer is cut short, its worker failed (broken)")
    assert done == "data: [DONE]"
    assert two.bodies == []
    assert record.outcome is RequestOutcome.UPSTREAM_ERROR
    assert record.usage == Usage(prompt=7, completion=1)
    assert record.estimated
    assert record.retries == ()


async def test_an_error_that_a_worker_reports_in_mid_stream_is_booked(tmp_path: Path) -> None:
    async def fails(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(delta("a", 1))
        await worker.release.wait()
        await response.write(event({"error": {"message": "boom", "code": 500}}))
        await response.write(b"data: [DONE]\n\n")
        return response

    async with (
        FakeWorker("w1", fails) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        async with front.post(CHAT | {"stream": True}) as response:
            await response.content.readuntil(b"\n\n")
            worker.release.set()
            assert b"boom" in await response.read()
        (record,) = await records(front)
    assert record.outcome is RequestOutcome.UPSTREAM_ERROR


async def test_a_packed_body_is_unpacked_and_a_broken_one_refused(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, front_of(tmp_path, board_of(worker.view())) as front:
        packed = gzip.compress(json.dumps(CHAT).encode())
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        async with front.post(packed, headers=headers) as response:
            assert response.status == 200
        assert "content-encoding" not in worker.headers[0]
        async with front.post(b"not gzip at all", headers=headers) as response:
            assert response.status == 400


async def test_an_answer_with_odd_usage_still_reaches_the_client(tmp_path: Path) -> None:
    async def odd(_worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
        return web.Response(text='{"usage": "lots"', content_type="application/json")

    async with (
        FakeWorker("w1", odd) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        async with front.post(CHAT) as response:
            assert await response.text() == '{"usage": "lots"'
        (record,) = await records(front)
    assert record.usage is None
    assert record.outcome is RequestOutcome.OK
    assert USAGE["prompt_tokens"] == 7
