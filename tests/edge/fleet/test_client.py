"""The worker client against a server on loopback that answers as vLLM does, or misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ds4watch.fleet.client import CanaryResult, WorkerClient
from ds4watch.model.errors import EdgeReason, WorkerError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
COMPLETION = {
    "choices": [
        {
            "text": " yes",
            "prompt_logprobs": [
                None,
                {"71": {"logprob": -0.5, "rank": 1, "decoded_token": "h"}},
                {"72": {"logprob": -2, "rank": 3, "decoded_token": "i"}},
            ],
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}


@contextlib.asynccontextmanager
async def worker(handler: Handler, **options: Any) -> AsyncIterator[WorkerClient]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        yield WorkerClient(session, str(server.make_url("/")), **options)


def answering(value: Any, *, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(
            text=value if isinstance(value, str) else json.dumps(value), status=status
        )

    return handler


def recording(seen: list[tuple[str, str, Any]], value: Any) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read() or b"null")
        seen.append((request.method, request.path_qs, body))
        return web.json_response(value)

    return handler


async def failure(client: WorkerClient, call: str = "canary") -> WorkerError:
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "canary": lambda: client.canary("m"),
        "logprobs": lambda: client.prompt_logprobs("m", "hi"),
        "tokenize": lambda: client.tokenize("m", "hi"),
        "models": client.models,
    }
    with pytest.raises(WorkerError) as caught:
        await calls[call]()
    return caught.value


async def test_a_canary_asks_for_four_greedy_tokens_and_reports_what_came() -> None:
    seen: list[tuple[str, str, Any]] = []
    async with worker(recording(seen, COMPLETION)) as client:
        result = await client.canary("tiny")
    assert isinstance(result, CanaryResult)
    assert (result.text, result.completion_tokens) == (" yes", 4)
    [(method, path, body)] = seen
    assert (method, path) == ("POST", "/v1/completions")
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("tiny", 4, 0)


@pytest.mark.parametrize(
    "answer",
    [
        {**COMPLETION, "choices": []},
        {**COMPLETION, "usage": {"completion_tokens": 0}},
        {**COMPLETION, "usage": None},
        {**COMPLETION, "usage": {"completion_tokens": "4"}},
        {"choices": "none"},
        [],
        "null",
        "not json",
        "",
    ],
)
async def test_a_canary_answer_without_tokens_is_a_failed_canary(answer: Any) -> None:
    async with worker(answering(answer)) as client:
        assert (await failure(client)).reason is EdgeReason.PARSE


@pytest.mark.parametrize(
    ("status", "retryable"), [(500, True), (503, True), (429, True), (404, False)]
)
async def test_a_bad_status_is_told_with_the_beginning_of_the_body(
    status: int, *, retryable: bool
) -> None:
    async with worker(answering("engine is dead " + "x" * 10_000, status=status)) as client:
        error = await failure(client)
    assert error.reason is EdgeReason.STATUS
    assert error.retryable is retryable
    assert f"status {status} engine is dead" in str(error)
    assert len(str(error)) < 400


async def test_log_probabilities_are_those_of_the_prompts_own_tokens_after_the_first() -> None:
    seen: list[tuple[str, str, Any]] = []
    async with worker(recording(seen, COMPLETION)) as client:
        assert await client.prompt_logprobs("tiny", "xhi") == [-0.5, -2.0]
    assert (seen[0][2]["prompt_logprobs"], seen[0][2]["max_tokens"]) == (0, 1)


@pytest.mark.parametrize("position", [{}, None, {"1": {}}, {"1": {"logprob": "x"}}, {"1": 3}])
async def test_a_prompt_token_without_a_log_probability_is_refused(position: Any) -> None:
    answer = {"choices": [{"prompt_logprobs": [None, position]}]}
    async with worker(answering(answer)) as client:
        assert (await failure(client, "logprobs")).reason is EdgeReason.PARSE


async def test_a_log_probability_that_is_not_finite_is_refused() -> None:
    answer = '{"choices": [{"prompt_logprobs": [null, {"1": {"logprob": -Infinity}}]}]}'
    async with worker(answering(answer)) as client:
        assert (await failure(client, "logprobs")).reason is EdgeReason.PARSE


async def test_models_version_and_token_count_are_read() -> None:
    async with worker(answering({"data": [{"id": "a"}, {"id": "b"}]})) as client:
        assert await client.models() == ("a", "b")
    async with worker(answering({"version": "0.32.0"})) as client:
        assert await client.version() == "0.32.0"
    async with worker(answering({"count": 7, "tokens": [1]})) as client:
        assert await client.tokenize("m", "hello") == 7


async def test_sleep_waits_for_running_requests_unless_told_otherwise() -> None:
    seen: list[tuple[str, str, Any]] = []
    async with worker(recording(seen, {"is_sleeping": True})) as client:
        await client.sleep(1)
        await client.wake()
        assert await client.is_sleeping() is True
    assert [(method, path) for method, path, _ in seen] == [
        ("POST", "/sleep?level=1&mode=wait"),
        ("POST", "/wake_up"),
        ("GET", "/is_sleeping"),
    ]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (302, False)])
async def test_health_is_status_200_and_nothing_else(status: int, *, healthy: bool) -> None:
    async with worker(answering("", status=status)) as client:
        assert await client.health() is healthy


async def test_a_worker_that_is_not_there_is_a_connect_error_and_not_healthy(
    unused_tcp_port: int,
) -> None:
    async with aiohttp.ClientSession() as session:
        client = WorkerClient(session, f"http://127.0.0.1:{unused_tcp_port}")
        error = await failure(client)
        assert (error.reason, error.retryable) == (EdgeReason.CONNECT, True)
        assert await client.health() is False


async def test_a_worker_that_says_nothing_is_a_timeout() -> None:
    release = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    async with worker(silent, timeout_seconds=0.1, generation_timeout_seconds=0.1) as client:
        assert (await failure(client)).reason is EdgeReason.TIMEOUT
        assert (await failure(client, "tokenize")).reason is EdgeReason.TIMEOUT
        release.set()


async def test_an_answer_over_the_limit_is_given_up() -> None:
    async with worker(answering("x" * 5000), max_body_bytes=4096) as client:
        assert (await failure(client)).reason is EdgeReason.TOO_LARGE


async def test_an_answer_that_breaks_off_is_our_error() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices"')
        assert request.transport is not None
        request.transport.abort()
        return response

    async with worker(broken) as client:
        assert (await failure(client)).reason in (EdgeReason.BODY, EdgeReason.GONE)


async def test_a_connection_closed_without_an_answer_is_our_error() -> None:
    async def rude(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with worker(rude) as client:
        error = await failure(client)
    assert (error.reason, error.retryable) == (EdgeReason.GONE, True)


async def test_an_address_that_is_none_is_our_error() -> None:
    async with aiohttp.ClientSession() as session:
        for address in ("http://", "nonsense", "http://[::1"):
            await failure(WorkerClient(session, address))
