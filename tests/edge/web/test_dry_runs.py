"""With `dry_run` every change of the admin API is checked and told, and nothing is changed."""

from __future__ import annotations

import copy
from typing import Any

import aiohttp
import pytest

from ds4watch.access.roles import Role
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving

API = "/api/ds4/v1"
ADMIN, OPERATOR = ({"Authorization": f"Bearer {SECRETS[it]}"} for it in (Role.ADMIN, Role.OPERATOR))
KEY = {"name": "b", "sha256": "ab" * 32}
DRY = {"dry_run": True, "why": "looking"}
WHOLE = {
    "PUT /holds/default": DRY | {"seconds": 60},
    "DELETE /holds/w?dry_run=true": None,
    "POST /silences": DRY | {"matchers": ["severity=warning"], "seconds": 60},
    "DELETE /silences/{silence}?dry_run=true": None,
    "POST /workers/sim-full-1/stop": DRY,
    "POST /fleet/pause": DRY,
    "POST /keys": DRY | KEY,
    "POST /keys/a/revoke": DRY,
    "POST /keys/a/rotate": DRY | {"sha256": "cd" * 32},
}


@pytest.mark.parametrize("asked", WHOLE)
async def test_a_dry_run_is_told_and_changes_nothing(asked: str) -> None:
    daemon = FakeDaemon()
    desk = daemon.desk
    await daemon.hold(target="w", seconds=60, who="ann", why="x")
    await daemon.add_key(
        key=KEY | {"name": "a", "signing": "", "expires_at": None}, who="ann", why="x"
    )
    await daemon.apply(file=None, plan=None, dry_run=False, who="ann", why="x")
    placed = await desk.silence(matchers=["a=b"], starts_at=None, until=4e9 - 1, who="ann", why="x")
    before = copy.deepcopy(_state(daemon))
    method, _, path = asked.replace("{silence}", placed["id"]).partition(" ")
    async with (
        serving(daemon) as server,
        aiohttp.ClientSession(server.url, headers=ADMIN) as client,
        client.request(method, f"{API}{path}", json=WHOLE[asked]) as answer,
    ):
        assert answer.status in (200, 201, 202), await answer.text()
        assert (await answer.json())["told"]
    assert _state(daemon) == before
    assert daemon.wakes == 0


async def test_a_dry_run_is_refused_for_what_the_deed_would_be() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        for method, path, body, status in (
            ("DELETE", "/holds/nobody?dry_run=true", None, 404),
            ("POST", "/workers/sim-full-1/sleep", DRY, 409),
            ("POST", "/workers/nobody/stop", DRY, 404),
            ("POST", "/fleet/pause", DRY, 409),
            ("POST", "/silences", DRY | {"matchers": ["a=b"], "until": 1.0}, 422),
        ):
            url = f"{API}{path}"
            async with client.request(method, url, json=body, headers=OPERATOR) as answer:
                assert answer.status == status, (path, await answer.text())


@pytest.mark.parametrize("verb", ["approve", "refuse", "undo"])
async def test_a_verdict_carries_its_dry_run_to_who_decides(verb: str) -> None:
    daemon = FakeDaemon()
    path = f"{API}/actions/set_level:default:1/{verb}"
    async with (
        serving(daemon) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        for body in (DRY, {"why": "done"}):
            async with client.post(path, json=body, headers=OPERATOR) as answer:
                assert answer.status == 202, await answer.text()
    assert [it["body"].get("dry_run", False) for it in daemon.desk.asked] == [True, False]


def _state(daemon: FakeDaemon) -> list[Any]:
    return [daemon.held, daemon.steered, daemon.changes, daemon.api_keys, daemon.desk.placed]
