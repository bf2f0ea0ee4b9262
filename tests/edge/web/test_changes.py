from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from ds4watch.access.roles import Role
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving

FLEET = "/api/ds4/v1/fleet"
WHY: dict[str, Any] = {"why": "a new version"}


async def post(
    daemon: FakeDaemon, path: str, body: dict[str, Any], role: Role | None = Role.OPERATOR
) -> tuple[int, dict[str, Any]]:
    headers = {} if role is None else {"Authorization": f"Bearer {SECRETS[role]}"}
    async with serving(daemon) as server, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{server.port}{FLEET}/{path}"
        async with session.post(address, json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize(
    ("path", "body", "role", "status"),
    [
        ("apply", WHY, None, 401),
        ("apply", WHY, Role.VIEWER, 403),
        ("apply", WHY, Role.OPERATOR, 202),
        ("apply", WHY | {"file": "/etc/ds4.yml"}, Role.OPERATOR, 403),
        ("apply", WHY | {"file": "/etc/ds4.yml"}, Role.ADMIN, 202),
        ("apply", WHY | {"file": "relative.yml"}, Role.ADMIN, 422),
        ("apply", WHY | {"plan": "fedcba9876543210"}, Role.OPERATOR, 409),
        ("apply", {}, Role.OPERATOR, 422),
        ("pause", WHY, Role.VIEWER, 403),
        ("pause", WHY, Role.OPERATOR, 409),
        ("undo", WHY, Role.OPERATOR, 422),
    ],
)
@pytest.mark.asyncio
async def test_who_may_ask_for_what(
    path: str, body: dict[str, Any], role: Role | None, status: int
) -> None:
    assert (await post(FakeDaemon(), path, body, role))[0] == status


@pytest.mark.asyncio
async def test_a_plan_is_shown_before_it_is_begun() -> None:
    daemon = FakeDaemon()
    _, plan = await post(daemon, "apply", WHY | {"dry_run": True})
    assert (plan["begun"], daemon.changes) == (False, [])
    _, begun = await post(daemon, "apply", WHY | {"plan": plan["plan"], "who": "ops"})
    assert begun["begun"]
    assert daemon.changes[0]["who"] == "ops"
    assert (await post(daemon, "pause", WHY))[1] == {"told": "pause: done"}
    assert daemon.changes[0]["who"] == "operator"


@pytest.mark.asyncio
async def test_a_fault_of_the_files_is_told_with_its_place() -> None:
    status, problem = await post(FakeDaemon(), "apply", WHY | {"file": "/broken.yml"}, Role.ADMIN)
    assert status == 422
    assert "/broken.yml:3" in problem["detail"]
    assert "fleet.worker" in problem["detail"]


@pytest.mark.asyncio
async def test_how_far_it_is_can_be_read_without_a_token() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{server.port}{FLEET}/change"
        async with session.get(address) as answer:
            assert await answer.json() == {"change": None}
