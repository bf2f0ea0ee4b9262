"""Which role each route needs: a table, and a request to every route by everybody lesser."""

from __future__ import annotations

import re
from typing import NamedTuple

import aiohttp
from fastapi import FastAPI

from ds4watch.access.roles import Role
from ds4watch.web.app import create_app
from ds4watch.web.server import AdminServer
from tests.edge.web.asking import bearer
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import TOKENS, FixedClock, ports_of, serving

VIEW, OPERATE, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN
ROUTES = {
    "GET /metrics": VIEW,
    "GET /api/ds4/v1/health": VIEW,
    "GET /api/ds4/v1/ready": VIEW,
    "GET /api/ds4/v1/status": VIEW,
    "GET /api/ds4/v1/workers": VIEW,
    "GET /api/ds4/v1/workers/{worker}": VIEW,
    "POST /api/ds4/v1/workers/{worker}/{verb}": OPERATE,
    "GET /api/ds4/v1/profiles": VIEW,
    "GET /api/ds4/v1/gateways": VIEW,
    "GET /api/ds4/v1/targets": VIEW,
    "GET /api/ds4/v1/signals": VIEW,
    "GET /api/ds4/v1/alerts": VIEW,
    "GET /api/ds4/v1/silences": VIEW,
    "POST /api/ds4/v1/silences": OPERATE,
    "GET /api/ds4/v1/silences/{silence_id}": VIEW,
    "DELETE /api/ds4/v1/silences/{silence_id}": OPERATE,
    "GET /api/ds4/v1/holds": VIEW,
    "GET /api/ds4/v1/holds/{target}": VIEW,
    "PUT /api/ds4/v1/holds/{target}": OPERATE,
    "DELETE /api/ds4/v1/holds/{target}": OPERATE,
    "GET /api/ds4/v1/actions": VIEW,
    "POST /api/ds4/v1/actions": OPERATE,
    "GET /api/ds4/v1/actions/{action}": VIEW,
    "POST /api/ds4/v1/actions/{action}/{verb}": OPERATE,
    "GET /api/ds4/v1/commands/{number}": VIEW,
    "POST /api/ds4/v1/reload": OPERATE,
    "GET /api/ds4/v1/policy": VIEW,
    "GET /api/ds4/v1/policy/explain": VIEW,
    "GET /api/ds4/v1/cost": VIEW,
    "GET /api/ds4/v1/cost/sums": VIEW,
    "GET /api/ds4/v1/cost/why": VIEW,
    "GET /api/ds4/v1/requests": VIEW,
    "GET /api/ds4/v1/history/export": VIEW,
    "GET /api/ds4/v1/quality/comparisons": VIEW,
    "GET /api/ds4/v1/quality/runs": VIEW,
    "POST /api/ds4/v1/quality/runs": OPERATE,
    "POST /api/ds4/v1/quality/stop": OPERATE,
    "GET /api/ds4/v1/quality/table": VIEW,
    "POST /api/ds4/v1/quality/baselines/{profile}/forget": OPERATE,
    "POST /api/ds4/v1/hooks/alertmanager": OPERATE,
    "GET /api/ds4/v1/reports/{period}": VIEW,
    "POST /api/ds4/v1/reports/{period}": OPERATE,
    "GET /api/ds4/v1/config": VIEW,
    "GET /api/ds4/v1/rules": VIEW,
    "GET /api/ds4/v1/rules/{name}": VIEW,
    "GET /api/ds4/v1/audit": VIEW,
    "GET /api/ds4/v1/events": VIEW,
    "GET /api/ds4/v1/fleet/change": VIEW,
    "GET /api/ds4/v1/fleet/forecast": VIEW,
    "POST /api/ds4/v1/fleet/apply": OPERATE,
    "POST /api/ds4/v1/fleet/{verb}": OPERATE,
    "GET /api/ds4/v1/keys": VIEW,
    "POST /api/ds4/v1/keys": ADMIN,
    "POST /api/ds4/v1/keys/{name}/revoke": ADMIN,
    "POST /api/ds4/v1/keys/{name}/rotate": ADMIN,
    "GET /api/ds4/v1/session": VIEW,
    "POST /api/ds4/v1/session": OPERATE,
    "DELETE /api/ds4/v1/session": OPERATE,
    **{
        f"{method} /api/v1/{path}": VIEW
        for path in (
            "query", "query_range", "series", "labels", "query_exemplars", "format_query",
        )
        for method in ("GET", "POST")
    },
    **{
        f"GET /api/v1/{path}": VIEW
        for path in (
            "label/{name}/values", "rules", "alerts", "targets", "metadata", "status/buildinfo",
        )
    },
}  # fmt: skip
SIGNED = "POST /api/ds4/v1/hooks/slack"


class Refusal(NamedTuple):
    status: int
    kind: str


def app_of(*, open_reads: bool) -> FastAPI:
    return create_app(
        ports_of(FakeDaemon()),
        tokens=TOKENS,
        render_metrics=lambda: b"up 1\n",
        clock=FixedClock(),
        open_reads=open_reads,
    )


def lesser(needed: Role) -> list[Role]:
    order = list(Role)
    return order[: order.index(needed)]


async def status_of(server: AdminServer, route: str, headers: dict[str, str]) -> Refusal:
    method, path = route.split()
    path = re.sub(r"\{verb\}", "stop", path)
    path = re.sub(r"\{\w+\}", "x", path)
    if path.endswith("/events"):
        path += "?after=-1"  # a refusal, in place of a stream without an end
    async with (
        aiohttp.ClientSession(server.url) as client,
        client.request(method, path, headers=headers) as answer,
    ):
        return Refusal(answer.status, answer.headers.get("Content-Type", ""))


def test_every_route_has_a_row_with_the_role_that_the_document_names() -> None:
    document = app_of(open_reads=True).openapi()
    named = {
        f"{method.upper()} {path}": told["x-required-role"]
        for path, operations in document["paths"].items()
        for method, told in operations.items()
    }
    assert named == {route: role.value for route, role in ROUTES.items()} | {SIGNED: "none"}


async def test_every_route_refuses_no_token_a_wrong_one_and_each_lesser_role() -> None:
    async with serving(FakeDaemon(), open_reads=False) as server:
        for route, needed in ROUTES.items():
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                refused = await status_of(server, route, headers)
                assert refused == (401, "application/problem+json"), route
            for role in lesser(needed):
                refused = await status_of(server, route, bearer(role))
                assert refused == (403, "application/problem+json"), (route, role)
            for role in [it for it in Role if it not in lesser(needed)]:
                let_in = await status_of(server, route, bearer(role))
                assert let_in.status not in (401, 403), (route, role)


async def test_the_signed_route_asks_for_a_signature_whatever_the_token() -> None:
    async with serving(FakeDaemon(), open_reads=False) as server:
        for headers in ({}, bearer(Role.ADMIN)):
            refused = await status_of(server, SIGNED, headers)
            assert refused == (401, "application/problem+json")
        assert (await status_of(server, SIGNED, {"X-Slack-Signature": "v0=right"})).status == 200


async def test_on_loopback_reading_is_open_and_changing_is_not() -> None:
    async with serving(FakeDaemon()) as server:
        for route in ROUTES:
            is_asked = route.startswith("GET") or "/api/v1/" in route
            answer = await status_of(server, route, {})
            assert (answer.status == 401) is not is_asked, route
