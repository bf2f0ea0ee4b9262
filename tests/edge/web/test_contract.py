from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ds4watch.access.roles import Role
from ds4watch.web.app import create_app
from tests.edge.web.fakes import SECRETS, TOKENS, FakeDaemon, FixedClock, ports_of

DAEMON = FakeDaemon(waiting_for=[])
for each in DAEMON.state["fleet"]:
    each["phase"] = "ready"
APP = create_app(
    ports_of(DAEMON),
    tokens=TOKENS,
    render_metrics=lambda: b"up 1\n",
    clock=FixedClock(),
)
SCHEMA = schemathesis.openapi.from_asgi(
    "/api/ds4/v1/openapi.json", APP, headers={"Host": "127.0.0.1"}
)
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]


@SCHEMA.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_route_keeps_to_its_own_contract(case: Any) -> None:
    token = f"Bearer {SECRETS[Role.ADMIN]}"
    headers = {"Authorization": token, "Host": "127.0.0.1"}
    case.call_and_validate(headers=headers, checks=CHECKS)
