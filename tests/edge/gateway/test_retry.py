from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.usage import RequestOutcome, RetryReason
from tests.edge.gateway.support import (
    CHAT,
    FakeWorker,
    begin,
    board_of,
    dead_worker,
    event,
    front_of,
    records,
    status,
)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refused_connection_is_tried_elsewhere(tmp_path: Path, stream: bool) -> None:
    dead = dead_worker("dead")
    async with (
        FakeWorker("w2") as alive,
        front_of(tmp_path, board_of(dead, alive.view())) as front,
    ):
        front.choose_first("dead")
        async with front.post(CHAT | {"stream": stream}) as response:
            assert response.status == 200
            assert b"Hel" in await response.read()
        assert response.headers["x-ds4-worker"] == "w2"
        assert response.headers["x-ds4-attempts"] == "2"
        (record,) = await records(front)
        assert record.retries == (("dead", RetryReason.CONNECT),)
        assert record.outcome is RequestOutcome.OK
        # It is left out for a while: the next request does not even try it.
        async with front.post(CHAT) as response:
            assert response.headers["x-ds4-attempts"] == "1"


@pytest.mark.parametrize(
    ("code", "reason"), [(500, RetryReason.STATUS_5XX), (503, RetryReason.BUSY)]
)
async def test_a_5xx_is_tried_elsewhere(tmp_path: Path, code: int, reason: RetryReason) -> None:
    async with (
        FakeWorker("w1", status(code)) as bad,
        FakeWorker("w2") as good,
        front_of(tmp_path, board_of(bad.view(), good.view())) as front,
    ):
        front.choose_first("w1")
        async with front.post(CHAT) as response:
            assert response.status == 200
        (record,) = await records(front)
    assert record.retries == (("w1", reason),)
    assert record.worker == "w2"


async def test_a_worker_that_breaks_before_the_first_token_is_tried_elsewhere(
    tmp_path: Path,
) -> None:
    async def breaks(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        assert request.transport is not None
        request.transport.close()
        return response

    async with (
        FakeWorker("w1", breaks) as bad,
        FakeWorker("w2") as good,
        front_of(tmp_path, board_of(bad.view(), good.view())) as front,
    ):
        front.choose_first("w1")
        async with front.post(CHAT | {"stream": True}) as response:
            assert (await response.read()).endswith(b"data: [DONE]\n\n")
        (record,) = await records(front)
    assert record.retries == (("w1", RetryReason.BROKEN),)
    assert record.outcome is RequestOutcome.OK


async def test_an_error_in_place_of_the_first_token_is_tried_elsewhere(tmp_path: Path) -> None:
    async def fails(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(event({"error": {"message": "boom"}}) + b"data: [DONE]\n\n")
        return response

    async with (
        FakeWorker("w1", fails) as bad,
        FakeWorker("w2") as good,
        front_of(tmp_path, board_of(bad.view(), good.view())) as front,
    ):
        front.choose_first("w1")
        async with front.post(CHAT | {"stream": True}) as response:
            assert b"boom" not in await response.read()
        (record,) = await records(front)
    assert record.retries == (("w1", RetryReason.STATUS_5XX),)


@pytest.mark.parametrize("stream", [False, True])
async def test_silence_before_the_first_byte_is_tried_elsewhere(
    tmp_path: Path, *, stream: bool
) -> None:
    async def hangs(worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
        await worker.release.wait()
        return web.Response()

    async with (
        FakeWorker("w1", hangs) as bad,
        FakeWorker("w2") as good,
        front_of(tmp_path, board_of(bad.view(), good.view()), request_timeout_seconds=1.0) as front,
    ):
        front.choose_first("w1")
        async with front.post(CHAT | {"stream": stream}) as response:
            assert response.status == 200
            assert response.headers["x-ds4-attempts"] == "2"
        async with asyncio.timeout(1):
            await bad.dropped.wait()
        (record,) = await records(front)
    assert record.retries == (("w1", RetryReason.TIMEOUT),)
    assert (record.worker, record.outcome, len(good.bodies)) == ("w2", RequestOutcome.OK, 1)


@pytest.mark.parametrize(("code", "told"), [(500, 500), (502, 502), (503, 503)])
async def test_when_all_fail_the_client_is_told_in_openais_shape(
    tmp_path: Path, code: int, told: int
) -> None:
    async with (
        FakeWorker("w1", status(code)) as one,
        FakeWorker("w2", status(code)) as two,
        front_of(tmp_path, board_of(one.view(), two.view())) as front,
    ):
        async with front.post(CHAT) as response:
            error = (await response.json())["error"]
        assert response.status == told
        assert set(error) == {"message", "type", "param", "code"}
        assert ("Retry-After" in response.headers) == (told == 503)
        assert response.headers["x-ds4-attempts"] == "2"
        (record,) = await records(front)
    assert len(one.bodies) == len(two.bodies) == 1
    assert record.outcome is RequestOutcome.UPSTREAM_ERROR
    assert (record.status, len(record.retries)) == (told, 1)


async def test_no_more_attempts_are_made_than_allowed(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", status(500)) as one,
        FakeWorker("w2", status(500)) as two,
        front_of(tmp_path, board_of(one.view(), two.view()), max_attempts=1) as front,
        front.post(CHAT) as response,
    ):
        assert response.headers["x-ds4-attempts"] == "1"
    assert len(one.bodies) + len(two.bodies) == 1


class StillClock:
    """Time that does not pass: all requests lie in one window of the budget."""

    def now(self) -> float:
        return 1000.0

    def monotonic(self) -> float:
        return 1000.0


class RacingClock(StillClock):
    """Time of which each look takes a minute."""

    def __init__(self) -> None:
        self._at = 1000.0

    def monotonic(self) -> float:
        self._at += 60
        return self._at


async def test_a_request_that_is_too_old_is_not_tried_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        FakeWorker("w1", status(500)) as one,
        FakeWorker("w2", status(500)) as two,
        front_of(tmp_path, board_of(one.view(), two.view()), clock=RacingClock()) as front,
        front.post(CHAT) as response,
    ):
        assert (response.status, response.headers["x-ds4-attempts"]) == (500, "1")
    assert len(one.bodies) + len(two.bodies) == 1
    assert "requests are given up (deadline)" in caplog.text


async def test_a_spent_budget_ends_retries_but_not_service_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        FakeWorker("w1", status(500)) as one,
        FakeWorker("w2", status(500)) as two,
        front_of(tmp_path, board_of(one.view(), two.view()), clock=StillClock()) as front,
    ):
        for _ in range(15):
            async with front.post(CHAT) as response:
                assert response.status == 500
        booked = await records(front, 15)
    assert sum(len(record.retries) for record in booked) == 10
    assert caplog.text.count("requests are given up (budget)") == 1
    assert caplog.text.count("worker w1: ") == 1


async def test_a_lone_dead_worker_gives_503_and_serves_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with FakeWorker("w1") as worker:
        port = worker.port
    async with front_of(tmp_path, board_of(worker.view())) as front:
        for _ in range(2):
            async with front.post(CHAT) as response:
                assert response.status == 503
                assert response.headers["Retry-After"] == "1"
                assert (await response.json())["error"]["code"] == "upstream_connect"
        async with FakeWorker("w1", port=port), front.post(CHAT) as response:
            assert response.status == 200  # though it was left out: there is nobody else


async def test_an_excluded_worker_is_never_asked(tmp_path: Path) -> None:
    policy = ServicePolicy(excluded_workers=("w1",))
    async with FakeWorker("w1") as worker:
        board = board_of(worker.view(), policy=policy)
        async with front_of(tmp_path, board) as front, front.post(CHAT) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
    assert worker.bodies == []
