"""Pools with a ladder of their own: a request goes by the level of its model's pool."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ds4watch.access.keys import digest
from ds4watch.gateway.boards import board_of as board_from
from ds4watch.model.service_policy import ApiKey, Limits, PoolLevel, ServicePolicy
from tests.edge.gateway.support import CHAT, FakeWorker, Front, board_of, front_of, records

LONG = CHAT | {"max_tokens": 500}


def pools(*, level: int = 0, own: Limits, **limits: Any) -> ServicePolicy:
    chat = PoolLevel("chat", ("big",), 2, "brief", own, (Limits(), Limits(), own))
    return ServicePolicy(version=1, level=level, limits=Limits(**limits), pools=(chat,))


async def told(front: Front, model: str, **more: Any) -> str:
    async with front.post(LONG | {"model": model}, **more) as response:
        assert response.status in (200, 503)
        return str(response.headers.get("x-ds4-degraded", ""))


async def test_only_requests_for_the_models_of_a_pool_go_by_its_level(tmp_path: Path) -> None:
    policy = pools(own=Limits(max_tokens_cap=8))
    async with (
        FakeWorker("w1", models=("m-big", "alias")) as big,
        FakeWorker("w2", models=("m-small",)) as small,
        front_of(
            tmp_path,
            board_of(replace(big.view(), profile="big"), small.view(), policy=policy),
        ) as front,
    ):
        assert await told(front, "m-big") == "level=2;max_tokens=8"
        assert await told(front, "alias") == "level=2;max_tokens=8"
        assert await told(front, "m-small") == ""
        found = await records(front, 3)
        async with front.http.get(front.url + "/health") as response:
            health = await response.json()
    assert [it.level for it in found] == [2, 2, 0]
    assert [it["max_tokens"] for it in (*big.bodies, *small.bodies)] == [8, 8, 500]
    assert health["levels"] == {"default": 0, "chat": 2}


async def test_the_level_of_all_others_is_not_that_of_the_pool(tmp_path: Path) -> None:
    policy = pools(level=1, own=Limits(), max_tokens_cap=4, shed_below_priority=6)
    async with (
        FakeWorker("w1", models=("m-big",)) as big,
        FakeWorker("w2", models=("m-small",)) as small,
        front_of(
            tmp_path,
            board_of(replace(big.view(), profile="big"), small.view(), policy=policy),
        ) as front,
    ):
        assert await told(front, "m-big") == ""
        assert await told(front, "m-small") == "level=1;shed=priority"
        urgent = {"x-ds4-priority": "9"}
        assert await told(front, "m-small", headers=urgent) == "level=1;max_tokens=4"


async def test_a_key_that_is_eased_is_eased_beside_the_level_of_each_pool(tmp_path: Path) -> None:
    policy = pools(own=Limits(max_tokens_cap=8))
    key = ApiKey("k", digest("secret"), eased=Limits(max_tokens_cap=20))
    auth = {"Authorization": "Bearer secret"}
    async with (
        FakeWorker("w1", models=("m-big",)) as big,
        FakeWorker("w2", models=("m-small",)) as small,
        front_of(
            tmp_path,
            board_of(replace(big.view(), profile="big"), small.view(), policy=policy, keys=(key,)),
        ) as front,
    ):
        assert await told(front, "m-big", headers=auth) == "level=2;budget=eased;max_tokens=8"
        assert await told(front, "m-small", headers=auth) == "level=0;budget=eased;max_tokens=20"


async def test_long_requests_of_one_pool_leave_room_for_those_of_another(tmp_path: Path) -> None:
    policy = pools(own=Limits(long_max_inflight=0))
    body = {"messages": [{"role": "user", "content": "word " * 4000}]}
    async with (
        FakeWorker("w1", models=("m-big",)) as big,
        FakeWorker("w2", models=("m-small",)) as small,
        front_of(
            tmp_path,
            board_of(replace(big.view(), profile="big"), small.view(), policy=policy),
            admission={"long_over_tokens": 100},
        ) as front,
    ):
        async with front.post(CHAT | body | {"model": "m-big"}) as response:
            assert response.headers["x-ds4-degraded"] == "level=2;shed=long"
        async with front.post(CHAT | body | {"model": "m-small"}) as response:
            assert response.status == 200


def test_a_board_with_a_pool_that_makes_no_sense_is_not_obeyed() -> None:
    board = board_of(policy=pools(own=Limits())).as_json()
    assert board_from(json.loads(json.dumps(board))) is not None
    board["policy"]["pools"][0]["level"] = "two"
    assert board_from(json.loads(json.dumps(board))) is None
