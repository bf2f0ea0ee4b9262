"""Quotas, waiting, opting out, oddities: as the clients of a gateway meet them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ds4watch.access.keys import digest
from ds4watch.config.admission import AdmissionSettings
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.limits import Limits, Substitution
from ds4watch.model.service_policy import ApiKey, Board, ServicePolicy
from ds4watch.model.usage import RequestOutcome
from ds4watch.model.worker import WorkerView
from tests.edge.gateway.support import (
    CHAT,
    FakeWorker,
    Front,
    answer,
    begin,
    board_of,
    delta,
    front_of,
    records,
    status,
)

KEY = {"Authorization": "Bearer ds4-secret"}


def policy(**limits: Any) -> ServicePolicy:
    return ServicePolicy(version=1, level=2, level_name="tight", limits=Limits(**limits))


def key(**limits: Any) -> tuple[ApiKey, ...]:
    return (ApiKey("team-a", digest("ds4-secret"), KeyLimits(**limits)),)


def waiting(seconds: float = 10.0, length: int = 9, **more: Any) -> dict[str, Any]:
    settings = {"queue_wait_seconds": seconds, "queue_length": length} | more
    return {"admission": AdmissionSettings(**settings)}


async def waits(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    await worker.release.wait()
    return await answer(worker, request)


def posted(front: Front, priority: int | None = None, **body: Any) -> asyncio.Task[Any]:
    async def post() -> tuple[int, dict[str, str]]:
        headers = {} if priority is None else {"x-ds4-priority": str(priority)}
        async with front.post(CHAT | body, headers=headers) as response:
            await response.read()
            return response.status, {name.lower(): it for name, it in response.headers.items()}

    return asyncio.create_task(post())


async def until_waiting(front: Front, count: int) -> None:
    async with asyncio.timeout(5):
        while front.serving.state.room.size != count:
            await asyncio.sleep(0.005)


async def test_a_key_over_its_rate_gets_429_with_openais_headers(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), keys=key(requests_per_minute=2))) as front,
    ):
        for left in ("1", "0"):
            async with front.post(CHAT, headers=KEY) as response:
                assert response.status == 200
                assert response.headers["x-ratelimit-limit-requests"] == "2"
                assert response.headers["x-ratelimit-remaining-requests"] == left
        async with front.post(CHAT, headers=KEY) as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (429, "rate_limit_exceeded")
            assert 28 <= int(response.headers["Retry-After"]) <= 30
            assert response.headers["x-ratelimit-remaining-requests"] == "0"
        assert len(worker.bodies) == 2
        (*_, last) = await records(front, 3)
    assert (last.status, last.outcome, last.key) == (429, RequestOutcome.SHED, "team-a")


async def test_gateways_that_are_alive_share_the_limits(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, None) as front,
    ):
        board = board_of(worker.view(), keys=key(requests_per_minute=4))
        front.serving.state.apply(replace(board, gateways=2))
        found = []
        for _ in range(3):
            async with front.post(CHAT, headers=KEY) as response:
                found.append(response.status)
        assert found == [200, 200, 429]


async def test_tokens_are_settled_by_what_the_worker_says_was_used(tmp_path: Path) -> None:
    keys = key(tokens_per_minute=600)
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), keys=keys)) as front,
    ):
        for _ in range(5):  # each is charged over 500, and uses 10
            async with front.post(CHAT | {"max_tokens": 500}, headers=KEY) as response:
                assert response.status == 200
        worker.script = status(400)
        async with front.post(CHAT | {"max_tokens": 500}, headers=KEY) as response:
            assert response.status == 400
        worker.script = answer
        async with front.post(CHAT | {"max_tokens": 500}, headers=KEY) as response:
            assert response.status == 200


async def test_a_keys_concurrency_is_given_back_when_a_client_leaves(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(tmp_path, board_of(worker.view(), keys=key(concurrency=1))) as front,
    ):
        first = asyncio.create_task(front.post(CHAT, headers=KEY)._coro)
        await worker.arrived.wait()
        async with front.post(CHAT, headers=KEY) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
        first.cancel()
        await worker.dropped.wait()
        worker.script = answer
        await records(front, 2)
        async with front.post(CHAT, headers=KEY) as response:
            assert response.status == 200


async def test_who_leaves_before_the_usage_is_told_is_charged_as_estimated(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(tmp_path, board_of(worker.view(), keys=key(tokens_per_minute=600))) as front,
    ):
        body = CHAT | {"max_tokens": 500}
        first = asyncio.create_task(front.post(body, headers=KEY)._coro)
        await worker.arrived.wait()
        first.cancel()
        await records(front, 1)
        async with front.post(body, headers=KEY) as response:
            assert response.status == 429
            assert 30 <= int(response.headers["Retry-After"]) <= 50


@pytest.mark.parametrize(
    "quotas",
    [
        {"models": {"m": {"requests_per_minute": 1}}},
        {"classes": {"batch": {"requests_per_minute": 1}}},
    ],
)
async def test_a_model_or_a_class_at_its_limit_is_an_overload(
    tmp_path: Path, quotas: dict[str, Any]
) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), **waiting(**quotas)) as front,
    ):
        found = []
        for _ in range(2):
            async with front.post(CHAT, headers={"x-ds4-class": "batch"}) as response:
                found.append((response.status, "Retry-After" in response.headers))
        assert found == [(200, False), (503, True)]
        assert "x-ds4-class" not in worker.headers[0]


async def test_what_is_shed_by_a_level_says_so(tmp_path: Path) -> None:
    tight = policy(shed_below_priority=5)
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), policy=tight)) as front,
    ):
        told, headers = await posted(front, 4)
    assert (told, headers["x-ds4-degraded"]) == (503, "level=2;shed=priority")


async def test_a_key_cannot_claim_more_urgency_than_it_has(tmp_path: Path) -> None:
    board = board_of(policy=policy(shed_below_priority=5), keys=key(priority=3))
    async with (
        front_of(tmp_path, board) as front,
        front.post(CHAT, headers=KEY | {"x-ds4-priority": "9"}) as response,
    ):
        assert response.headers["x-ds4-degraded"] == "level=2;shed=priority"


async def test_who_wants_no_change_gets_a_503_in_its_place(tmp_path: Path) -> None:
    tight = policy(max_tokens_cap=16)
    refusing = {"x-ds4-no-degrade": "1"}
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), policy=tight)) as front,
    ):
        async with front.post(CHAT, headers=refusing) as response:
            assert response.status == 503
            assert response.headers["x-ds4-degraded"] == "level=2;shed=no_degrade"
        async with front.post(CHAT | {"max_tokens": 9}, headers=refusing) as response:
            assert response.status == 200
        assert [body["max_tokens"] for body in worker.bodies] == [9]
        assert "x-ds4-no-degrade" not in worker.headers[0]


async def test_a_key_that_may_not_refuse_is_degraded_and_told(tmp_path: Path) -> None:
    board_keys = key(may_refuse_degrading=False)
    async with (
        FakeWorker("w1") as worker,
        front_of(
            tmp_path,
            board_of(worker.view(), policy=policy(max_tokens_cap=16), keys=board_keys),
        ) as front,
        front.post(CHAT, headers=KEY | {"x-ds4-no-degrade": "1"}) as response,
    ):
        assert response.headers["x-ds4-degraded"] == "level=2;max_tokens=16"


@pytest.mark.parametrize("stream", [True, False])
async def test_streams_and_errors_say_what_was_changed_too(tmp_path: Path, stream: bool) -> None:
    tight = policy(max_tokens_cap=16, thinking_off=True)
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), policy=tight), max_attempts=1) as front,
    ):
        for script, code in ((answer, 200), (status(500), 500), (status(400), 400)):
            worker.script = script
            told, headers = await posted(front, stream=stream)
            assert (told, headers["x-ds4-degraded"]) == (
                code,
                "level=2;max_tokens=16;thinking=off",
            )
        assert worker.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}


async def test_a_stream_that_breaks_had_said_what_was_changed(tmp_path: Path) -> None:
    async def breaks(_worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        response = await begin(request)
        await response.write(delta("Hel", 1))
        assert request.transport is not None
        request.transport.close()
        return response

    async with (
        FakeWorker("w1", breaks) as worker,
        front_of(tmp_path, board_of(worker.view(), policy=policy(max_tokens_cap=16))) as front,
        front.post(CHAT | {"stream": True}) as response,
    ):
        assert response.headers["x-ds4-degraded"] == "level=2;max_tokens=16"
        assert b'"error"' in await response.read()


async def test_half_of_the_conversations_are_substituted_and_each_stays_where_it_is(
    tmp_path: Path,
) -> None:
    half = policy(substitutions=(Substitution("m", "m-small", 0.5),))
    async with (
        FakeWorker("big") as big,
        FakeWorker("small", models=("m-small",)) as small,
        front_of(tmp_path, board_of(big.view(), small.view(), policy=half)) as front,
    ):
        found: dict[int, set[str]] = {}
        for turn in range(3):
            for session in range(12):
                headers = {"x-session-id": f"s{session}"}
                body = CHAT | {"seed": turn}
                async with front.post(body, headers=headers) as response:
                    told = (await response.json())["model"]
                    is_told = "model=m-small" in response.headers.get("x-ds4-degraded", "")
                    assert is_told == (told == "m-small")
                    found.setdefault(session, set()).add(told)
    assert all(len(models) == 1 for models in found.values())
    assert {model for models in found.values() for model in models} == {"m", "m-small"}


async def test_waiting_requests_are_served_by_priority_then_in_order(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(
            tmp_path, board_of(worker.view(), policy=policy(max_inflight=1)), **waiting()
        ) as front,
    ):
        first = posted(front, seed=0)
        await worker.arrived.wait()
        later = []
        for number, priority in enumerate((5, 1, 9, 5), start=1):
            later.append(posted(front, priority, seed=number))
            await until_waiting(front, number)
        worker.release.set()
        for task in (first, *later):
            assert (await task)[0] == 200
        order = [body["seed"] for body in worker.bodies]
        assert order == [0, 3, 1, 4, 2]
        assert front.serving.state.room.size == 0
        assert front.serving.state.room.waits.entered == 4


async def test_a_full_line_lets_in_the_more_urgent_and_turns_away_the_least(
    tmp_path: Path,
) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(
            tmp_path, board_of(worker.view(), policy=policy(max_inflight=1)), **waiting(length=1)
        ) as front,
    ):
        first = posted(front)
        await worker.arrived.wait()
        low = posted(front, 2)
        await until_waiting(front, 1)
        told, headers = await posted(front, 2)
        assert (told, headers["x-ds4-degraded"]) == (503, "level=2;shed=inflight")
        high = posted(front, 7)
        assert (await low)[0] == 503
        worker.release.set()
        assert [(await task)[0] for task in (first, high)] == [200, 200]


async def test_a_wait_has_an_end(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(
            tmp_path, board_of(worker.view(), policy=policy(max_inflight=1)), **waiting(0.05)
        ) as front,
    ):
        first = posted(front)
        await worker.arrived.wait()
        told, headers = await posted(front, 9)
        assert (told, headers["retry-after"]) == (503, "1")
        worker.release.set()
        assert (await first)[0] == 200
        assert (await posted(front))[0] == 200
        assert front.serving.state.room.size == 0


def one_at_a_time(worker: FakeWorker) -> WorkerView:
    view = worker.view()
    return WorkerView(
        view.id, view.profile, view.models, view.url, view.phase, since=1.0, max_inflight=1
    )


async def test_a_full_workers_line_holds_up_no_other_model(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as full,
        FakeWorker("w2", models=("other",)) as free,
        front_of(tmp_path, board_of(one_at_a_time(full), free.view()), **waiting()) as front,
    ):
        first = posted(front, seed=1)
        await full.arrived.wait()
        second, third = posted(front, seed=2), posted(front, 9, seed=3)
        await until_waiting(front, 2)
        assert (await posted(front, model="other"))[0] == 200
        full.release.set()
        assert [(await task)[0] for task in (first, second, third)] == [200] * 3
        assert [body["seed"] for body in full.bodies] == [1, 3, 2]


async def test_who_leaves_while_waiting_makes_room_and_stops_nobody(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(tmp_path, board_of(one_at_a_time(worker)), **waiting()) as front,
    ):
        first = posted(front)
        await worker.arrived.wait()
        gone, second = posted(front, 9), posted(front)
        await until_waiting(front, 2)
        gone.cancel()
        await until_waiting(front, 1)
        worker.release.set()
        assert [(await task)[0] for task in (first, second)] == [200, 200]
        assert front.serving.state.inflight.total == 0


async def test_a_new_policy_lets_in_who_waits(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(
            tmp_path, board_of(worker.view(), policy=policy(max_inflight=1)), **waiting()
        ) as front,
    ):
        tasks = [posted(front, seed=number) for number in range(4)]
        await until_waiting(front, 3)
        front.serving.state.apply(board_of(worker.view(), version=2))
        await until_waiting(front, 0)
        worker.release.set()
        assert [(await task)[0] for task in tasks] == [200] * 4


async def test_long_requests_have_a_limit_of_their_own(tmp_path: Path) -> None:
    long: dict[str, Any] = {"messages": [{"role": "user", "content": "x" * 10_000}]}
    async with (
        FakeWorker("w1", waits) as worker,
        front_of(tmp_path, board_of(worker.view(), policy=policy(long_max_inflight=1))) as front,
    ):
        first = posted(front, **long)
        await worker.arrived.wait()
        told, headers = await posted(front, **long)
        assert (told, headers["x-ds4-degraded"]) == (503, "level=2;shed=long")
        worker.release.set()
        assert (await first)[0] == 200
        assert (await posted(front))[0] == 200
        assert (await posted(front, **long))[0] == 200


async def test_an_odd_request_is_degraded_alone_and_counted(tmp_path: Path) -> None:
    abnormal = {"repeats_per_minute": 2, "costly_tokens": 1000}
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view()), **waiting(abnormal=abnormal)) as front,
    ):
        told = [(await posted(front, seed=1))[1].get("x-ds4-degraded") for _ in range(3)]
        assert told == [None, None, "level=0;abnormal=repeating"]
        assert "x-ds4-degraded" not in (await posted(front, seed=2))[1]
        _, headers = await posted(front, n=4, max_tokens=500)
        assert headers["x-ds4-degraded"] == "level=0;abnormal=costly;max_tokens=250"
        assert worker.bodies[-1]["max_tokens"] == 250
        (*_, last) = await records(front, 5)
    assert last.degraded == ("level=0", "abnormal=costly", "max_tokens=250")


async def test_a_client_that_hammers_is_held_off_longer(tmp_path: Path) -> None:
    quick = key(requests_per_minute=1)
    async with (
        FakeWorker("w1") as worker,
        front_of(
            tmp_path,
            board_of(worker.view(), keys=quick),
            **waiting(abnormal={"early_retries_per_minute": 2}),
        ) as front,
    ):
        told = []
        for _ in range(6):
            async with front.post(CHAT, headers=KEY) as response:
                told.append((response.status, response.headers.get("x-ds4-degraded")))
        assert told[0] == (200, None)
        assert told[1] == (429, None)
        assert told[-1] == (429, "level=0;abnormal=retrying")
        async with front.post(json.dumps(CHAT).encode()) as response:
            assert response.status == 401  # the others meet nothing of it


async def test_what_is_asked_of_a_model_that_is_eased_is_cut_and_of_others_not(
    tmp_path: Path,
) -> None:
    (plain,) = key()
    firm = replace(plain, eased=Limits(max_tokens_cap=5))
    async with FakeWorker("w1") as worker:
        both = replace(worker.view(), models=("m", "other"))
        board = replace(board_of(both), eased_models={"m": Limits(max_tokens_cap=7)})
        async with front_of(tmp_path, Board.from_json(board.as_json())) as front:
            async with front.post(CHAT | {"max_tokens": 500}) as response:
                told = response.headers["x-ds4-degraded"]
            assert told == "level=0;budget=eased;max_tokens=7"
            async with front.post(CHAT | {"max_tokens": 500, "model": "other"}) as response:
                assert "x-ds4-degraded" not in response.headers
            front.serving.state.apply(replace(board, keys=(firm,)))  # the key's own, too
            async with front.post(CHAT | {"max_tokens": 500}, headers=KEY) as response:
                assert response.status == 200
            front.serving.state.apply(board_of(both))
            async with front.post(CHAT | {"max_tokens": 500}) as response:
                assert "x-ds4-degraded" not in response.headers
    assert [body["max_tokens"] for body in worker.bodies] == [7, 500, 5, 500]


async def test_the_budget_of_the_model_that_serves_eases_what_was_asked_of_another(
    tmp_path: Path,
) -> None:
    instead = Limits(substitutions=(Substitution("m", "cheap", 1.0),))
    policy = ServicePolicy(version=1, level=1, level_name="cheaper", limits=instead)
    async with FakeWorker("w1") as worker:
        both = replace(worker.view(), models=("m", "cheap", "other"))
        board = replace(
            board_of(both), policy=policy, eased_models={"cheap": Limits(max_tokens_cap=7)}
        )
        async with front_of(tmp_path, board) as front:
            for model in ("m", "cheap", "other"):
                async with front.post(CHAT | {"max_tokens": 500, "model": model}) as response:
                    assert response.status == 200
    served = [(body["model"], body["max_tokens"]) for body in worker.bodies]
    assert served == [("cheap", 7), ("cheap", 7), ("other", 500)]


async def test_a_key_that_is_eased_gets_shorter_answers_and_others_do_not(tmp_path: Path) -> None:
    (plain,) = key()
    eased = replace(plain, eased=Limits(max_tokens_cap=7))
    other = ApiKey("team-b", digest("ds4-other"))
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), keys=(eased, other))) as front,
    ):
        async with front.post(CHAT | {"max_tokens": 500}, headers=KEY) as response:
            assert response.status == 200
            told = response.headers["x-ds4-degraded"]
        assert told == "level=0;budget=eased;max_tokens=7"
        bearer = {"Authorization": "Bearer ds4-other"}
        async with front.post(CHAT | {"max_tokens": 500}, headers=bearer) as response:
            assert "x-ds4-degraded" not in response.headers
        front.serving.state.apply(board_of(worker.view(), keys=(plain, other)))
        async with front.post(CHAT | {"max_tokens": 500}, headers=KEY) as response:
            assert response.status == 200
    assert [body["max_tokens"] for body in worker.bodies] == [7, 500, 500]
