from __future__ import annotations

from typing import Any

import jsonschema
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
from ds4watch.web.examples import ANSWERS, BODIES
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, TOKENS, FixedClock, ports_of

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


# A stream of events has no end, and is read in test_events.
@SCHEMA.exclude(path="/api/ds4/v1/events").parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_route_keeps_to_its_own_contract(case: Any) -> None:
    token = f"Bearer {SECRETS[Role.ADMIN]}"
    headers = {"Authorization": token, "Host": "127.0.0.1"}
    case.call_and_validate(headers=headers, checks=CHECKS)


def test_every_body_and_every_answer_has_an_example_that_is_one() -> None:
    document = APP.openapi()
    own = {path: it for path, it in document["paths"].items() if path.startswith("/api/ds4/v1/")}
    for path, operations in own.items():
        for method, operation in operations.items():
            told = [it for status, it in operation["responses"].items() if status < "300"]
            for part in (operation.get("requestBody", {}), *told):
                content = part.get("content", {}).get("application/json")
                if content is None:
                    continue
                assert "example" in content, (method, path)
                schema = content["schema"] | {"components": document["components"]}
                jsonschema.validate(content["example"], schema)


def test_the_document_has_no_example_of_a_route_that_is_gone() -> None:
    named = {
        (method, path.removeprefix("/api/ds4/v1"))
        for path, operations in APP.openapi()["paths"].items()
        for method in operations
    }
    assert {*ANSWERS, *BODIES} <= named
