"""Golden questions over the admin API."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from ds4watch.access.roles import Role
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving

QUALITY = "/api/ds4/v1/quality"
RUN: dict[str, Any] = {"profile": "sim-quantized", "reference": "sim-full", "why": "new weights"}
WHY = {"why": "because"}


async def ask(
    daemon: FakeDaemon, method: str, path: str, body: Any = None, role: Role | None = Role.OPERATOR
) -> tuple[int, dict[str, Any]]:
    headers = {} if role is None else {"Authorization": f"Bearer {SECRETS[role]}"}
    async with serving(daemon) as server, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{server.port}{QUALITY}/{path}"
        async with session.request(method, address, json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize(
    ("path", "body", "role", "status"),
    [
        ("runs", RUN, None, 401),
        ("runs", RUN, Role.VIEWER, 403),
        ("runs", RUN, Role.OPERATOR, 202),
        ("runs", RUN | {"questions": -1}, Role.OPERATOR, 422),
        ("runs", RUN | {"budget_nanos": 0}, Role.OPERATOR, 422),
        ("runs", RUN | {"profile": "../x"}, Role.OPERATOR, 422),
        ("runs", RUN | {"profile": "unknown"}, Role.OPERATOR, 409),
        ("runs", RUN | {"profile": "broken-set"}, Role.OPERATOR, 422),
        ("stop", WHY, Role.VIEWER, 403),
        ("stop", WHY, Role.OPERATOR, 404),
        ("baselines/sim-full/forget", WHY, Role.VIEWER, 403),
        ("baselines/sim-full/forget", WHY, Role.OPERATOR, 202),
        ("baselines/other/forget", WHY, Role.OPERATOR, 404),
    ],
)
async def test_who_may_ask_for_what(
    path: str, body: dict[str, Any], role: Role | None, status: int
) -> None:
    assert (await ask(FakeDaemon(), "POST", path, body, role))[0] == status


async def test_a_run_is_begun_shown_and_stopped() -> None:
    daemon = FakeDaemon()
    body = RUN | {"questions": 10, "budget_nanos": 5, "who": "ops"}
    assert await ask(daemon, "POST", "runs", body) == (202, {"id": 1})
    _, shown = await ask(daemon, "GET", "runs", role=None)
    assert shown["runs"][0] == daemon.quality.begun[0]
    _, told = await ask(daemon, "POST", "stop", WHY)
    assert told == {"told": "golden run 1 is stopped"}
    assert daemon.quality.begun[0]["told"] == "stopped by operator"


async def test_the_table_is_of_those_named_and_within_the_loss_said() -> None:
    query = "table?profile=a&profile=b&reference=c&loss_points=1.5"
    status, found = await ask(FakeDaemon(), "GET", query, role=None)
    assert status == 200
    assert (found["asked"], found["reference"]) == (["a", "b"], "c")
    assert found["allowed"] == {"loss_points": 1.5, "bound_points": 2.0}
    assert (await ask(FakeDaemon(), "GET", "table?loss_points=101", role=None))[0] == 422


async def test_a_fault_of_a_golden_set_is_told_with_its_place() -> None:
    _, problem = await ask(FakeDaemon(), "POST", "runs", RUN | {"profile": "broken-set"})
    assert problem["detail"] == "mine.jsonl:7: `prompt` must be a text"
