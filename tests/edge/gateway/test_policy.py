from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ds4watch.access.keys import digest
from ds4watch.model.limits import Substitution
from ds4watch.model.service_policy import ApiKey, Limits, ServicePolicy
from ds4watch.model.usage import RequestOutcome
from ds4watch.model.worker import WorkerPhase
from tests.edge.gateway.support import CHAT, FakeWorker, answer, board_of, front_of, records


def policy(**limits: Any) -> ServicePolicy:
    return ServicePolicy(version=1, level=1, level_name="tight", limits=Limits(**limits))


async def test_a_cap_reaches_the_worker_and_is_told_to_the_client(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), policy=policy(max_tokens_cap=16))) as front,
    ):
        async with front.post(CHAT | {"max_tokens": 500, "seed": 7}) as response:
            assert response.headers["x-ds4-degraded"] == "level=1;max_tokens=16"
        assert worker.bodies[0] == CHAT | {"max_tokens": 16, "seed": 7}
        async with front.post(CHAT | {"max_tokens": 5}) as response:
            assert "x-ds4-degraded" not in response.headers
        one, two = await records(front, 2)
    assert (one.level, one.degraded) == (1, ("level=1", "max_tokens=16"))
    assert (two.level, two.degraded) == (1, ())


async def test_a_cheaper_sibling_answers_in_its_own_name(tmp_path: Path) -> None:
    substitute = policy(substitutions=(Substitution("m", "m-small"),))
    async with (
        FakeWorker("big") as big,
        FakeWorker("small", models=("m-small",)) as small,
        front_of(tmp_path, board_of(big.view(), small.view(), policy=substitute)) as front,
    ):
        async with front.post(CHAT) as response:
            assert (await response.json())["model"] == "m-small"
            assert response.headers["x-ds4-degraded"] == "level=1;model=m-small"
            assert response.headers["x-ds4-worker"] == "small"
        (record,) = await records(front)
    assert (record.model_asked, record.model_served) == ("m", "m-small")
    assert big.bodies == []


async def test_the_model_asked_for_answers_while_its_sibling_is_not_ready(tmp_path: Path) -> None:
    substitute = policy(substitutions=(Substitution("m", "m-small"),))
    small = FakeWorker("small", models=("m-small",), phase=WorkerPhase.LOADING)
    async with (
        FakeWorker("big") as big,
        front_of(tmp_path, board_of(big.view(), small.view(), policy=substitute)) as front,
        front.post(CHAT) as response,
    ):
        assert response.headers["x-ds4-worker"] == "big"
        assert "x-ds4-degraded" not in response.headers


async def test_requests_over_the_limit_are_shed_and_the_count_comes_down_again(
    tmp_path: Path,
) -> None:
    async def waits(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        await worker.release.wait()
        return await answer(worker, request)

    async with (
        FakeWorker("w1", waits) as worker,
        front_of(tmp_path, board_of(worker.view(), policy=policy(max_inflight=1))) as front,
    ):
        first = asyncio.create_task(front.http.post(front.url + "/v1/chat/completions", json=CHAT))
        await worker.arrived.wait()
        async with front.post(CHAT) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
            assert (await response.json())["error"]["code"] == "overloaded"
        worker.release.set()
        (await first).close()
        async with front.post(CHAT) as response:
            assert response.status == 200
        outcomes = [record.outcome for record in await records(front, 3)]
    assert outcomes == [RequestOutcome.SHED, RequestOutcome.OK, RequestOutcome.OK]


async def test_low_priority_is_shed_first(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), policy=policy(shed_below_priority=5))) as front,
    ):
        for priority, code in ((None, 200), ("4", 503), ("5", 200), ("junk", 200)):
            headers = {} if priority is None else {"x-ds4-priority": priority}
            async with front.post(CHAT, headers=headers) as response:
                assert response.status == code
    assert all("x-ds4-priority" not in headers for headers in worker.headers)


async def test_with_keys_on_the_board_a_key_is_needed(tmp_path: Path) -> None:
    keys = (ApiKey("team-a", digest("ds4-secret")),)
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), keys=keys)) as front,
    ):
        for header in (None, "Bearer wrong", "ds4-secret", "Basic ds4-secret"):
            headers = {} if header is None else {"Authorization": header}
            async with front.post(CHAT, headers=headers) as response:
                assert response.status == 401
                error = (await response.json())["error"]
            assert error["code"] == "invalid_api_key"
            told = "is not known" if header == "Bearer wrong" else "is needed"
            assert f"API key {told}" in error["message"]
            async with front.http.get(front.url + "/v1/models", headers=headers) as response:
                assert response.status == 401
        good = {"Authorization": "Bearer ds4-secret"}
        async with front.post(CHAT, headers=good) as response:
            assert response.status == 200
        assert "authorization" not in worker.headers[0]
        async with front.http.get(front.url + "/health") as response:
            assert response.status == 200
        booked = await records(front, 5)
    assert [record.key for record in booked] == ["", "", "", "", "team-a"]


async def test_off_loopback_nothing_is_served_without_keys(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), host="0.0.0.0") as front,
        front.post(CHAT) as response,
    ):
        assert response.status == 401
        assert "No API key is set up" in (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b"[]", 400, None),
        (b"null", 400, None),
        (b"\xff\xfe", 400, None),
        (b'{"model": NaN}', 400, None),
        (b'{"a": 1' + b"0" * 10_000 + b"}", 400, None),
        (b"[" * 100_000, 400, None),
        (b"{}", 400, "model"),
        (b'{"model": "m"}', 400, "messages"),
        (json.dumps(CHAT | {"max_tokens": "9"}).encode(), 400, "max_tokens"),
        (json.dumps(CHAT | {"stream": "yes"}).encode(), 400, "stream"),
        (json.dumps(CHAT | {"model": "nope"}).encode(), 404, "model"),
        (json.dumps(CHAT | {"pad": "x" * 4096}).encode(), 413, None),
    ],
)
async def test_a_bad_request_is_turned_away_in_openais_shape(
    tmp_path: Path, body: bytes, code: int, param: str | None
) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), max_body_bytes=200_000) as front,
    ):
        if code == 413:
            body = body + b" " * 200_000
        async with front.post(body) as response:
            error = (await response.json())["error"]
        assert response.status == code
        assert (set(error), error["param"]) == ({"message", "type", "param", "code"}, param)
        assert response.headers["x-request-id"]
        assert worker.bodies == []
        (record,) = await records(front)
    assert (record.status, record.outcome) == (code, RequestOutcome.CLIENT_ERROR)


async def test_a_body_without_a_length_is_cut_off_at_the_limit(tmp_path: Path) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 1000

    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), max_body_bytes=2000) as front,
    ):
        with contextlib.suppress(ConnectionError):
            async with front.http.post(front.url + "/v1/completions", data=endless()) as response:
                assert response.status == 413
        (record,) = await records(front)
    assert record.status == 413


async def test_other_paths_and_methods_are_refused_in_openais_shape(tmp_path: Path) -> None:
    async with front_of(tmp_path, board_of()) as front:
        for method, path, code in (
            ("GET", "/v1/nothing", 404),
            ("POST", "/v1/load_lora_adapter", 404),
            ("POST", "/sleep", 404),
            ("POST", "/collective_rpc", 404),
            ("GET", "/v1/responses/resp_1", 404),
            ("POST", "/metrics", 404),
            ("GET", "/", 404),
            ("GET", "/v1/chat/completions", 405),
            ("DELETE", "/v1/models", 405),
        ):
            async with front.http.request(method, front.url + path) as response:
                assert response.status == code
                assert (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("//v1/completions", "/v1/completions"),
        ("/models", "/v1/models"),
        ("/models/m", "/v1/models/m"),
        ("/v1/nothing", None),
        ("/sleep", None),
        ("/", None),
    ],
)
async def test_a_base_address_that_is_a_little_wrong_is_told_the_path_that_is_meant(
    tmp_path: Path, path: str, meant: str | None
) -> None:
    async with front_of(tmp_path, board_of()) as front, front.post(CHAT, path) as response:
        message = (await response.json())["error"]["message"]
    hint = "" if meant is None else f"; did you mean {meant}?"
    assert (response.status, message) == (404, f"There is nothing at {path}{hint}")


async def test_without_a_board_it_serves_503_rather_than_failing(tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text("{half")
    async with front_of(tmp_path, None) as front:
        async with front.post(CHAT) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
        async with front.http.get(front.url + "/v1/models") as response:
            assert await response.json() == {"object": "list", "data": []}


async def test_models_are_those_of_ready_workers(tmp_path: Path) -> None:
    one = FakeWorker("a", models=("m", "shared"))
    two = FakeWorker("b", models=("n", "shared"))
    gone = FakeWorker("c", models=("gone",), phase=WorkerPhase.FAILED)
    async with (
        front_of(tmp_path, board_of(one.view(), two.view(), gone.view())) as front,
        front.http.get(front.url + "/v1/models") as response,
    ):
        told = await response.json()
    assert [model["id"] for model in told["data"]] == ["m", "n", "shared"]
    assert told["data"][0] == {
        "id": "m",
        "object": "model",
        "created": 1000,
        "owned_by": "ds4watch",
    }


async def test_a_level_has_the_workers_without_speculation_answer_for_an_alias(
    tmp_path: Path,
) -> None:
    plain = policy(substitutions=(Substitution("m", "m-plain"),))
    async with (
        FakeWorker("w1", models=("m-speculating", "m")) as speculating,
        FakeWorker("w2", models=("m-plain", "m")) as other,
        front_of(tmp_path, board_of(speculating.view(), other.view(), policy=plain)) as front,
    ):
        for _ in range(8):
            async with front.post(CHAT) as response:
                assert response.headers["x-ds4-worker"] == "w2"
                assert response.headers["x-ds4-degraded"] == "level=1;model=m-plain"
        async with front.post(CHAT | {"model": "m-speculating"}) as response:
            assert response.headers["x-ds4-worker"] == "w1"  # who insists is not moved
            assert "x-ds4-degraded" not in response.headers
