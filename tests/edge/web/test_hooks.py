"""Routes that others call: who may, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ds4watch.model.errors import EdgeReason, NotifyError, RefusedError, StoreError
from ds4watch.web.gate import Gate, Turned, Visit, admit
from ds4watch.web.hooks import hooks
from ds4watch.web.tokens import TokenTable
from tests.edge.web.asking import ask
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving


class Taker:
    def __init__(self) -> None:
        self.signed = True
        self.error: Exception | None = None
        self.bodies: list[Any] = []
        self.told: list[tuple[str, bool]] = []

    async def slack(self, headers: Mapping[str, str], body: bytes) -> bool:
        assert "x-slack-signature" in headers
        if self.error is not None:
            raise self.error
        self.bodies.append(body)
        return self.signed

    async def alertmanager(self, document: Any) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return {"firing": len(document["alerts"])}

    async def report(self, period: str, *, tell: bool) -> dict[str, Any]:
        self.told.append((period, tell))
        return {"period": period}


@pytest.fixture
def taker() -> Taker:
    return Taker()


@pytest.fixture
def client(taker: Taker) -> TestClient:
    app = FastAPI()
    app.include_router(hooks(taker))
    return TestClient(app)


def press(client: TestClient) -> int:
    headers = {"X-Slack-Signature": "v0=1"}
    return client.post("/hooks/slack", content=b"payload=x", headers=headers).status_code


def test_a_button_is_taken_as_it_came_if_signed(client: TestClient, taker: Taker) -> None:
    assert press(client) == 200
    assert taker.bodies == [b"payload=x"]
    taker.signed = False
    assert press(client) == 401
    taker.error = RefusedError("no payload")
    assert press(client) == 400


def test_alertmanager_tries_again_only_what_may_succeed(client: TestClient, taker: Taker) -> None:
    assert client.post("/hooks/alertmanager", json={"alerts": [1]}).json() == {"firing": 1}
    taker.error = StoreError("locked", reason=EdgeReason.LOCKED)
    assert client.post("/hooks/alertmanager", json={}).status_code == 503
    taker.error = RefusedError("no webhook")
    assert client.post("/hooks/alertmanager", json={}).status_code == 422


def test_who_is_not_known_hears_nothing_of_where_secrets_are(
    client: TestClient, taker: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    told = "cannot read /etc/ds4watch/hush: PermissionError"
    taker.error = NotifyError(told, reason=EdgeReason.REFUSED)
    answer = client.post("/hooks/slack", content=b"x", headers={"X-Slack-Signature": "v0=1"})
    assert answer.status_code == 503
    assert "hush" not in answer.text
    assert told in caplog.text


async def test_a_group_of_many_alerts_is_taken_and_other_bodies_stay_small() -> None:
    alerts = [
        {"status": "firing", "labels": {"alertname": "A", "n": str(number), "x": "y" * 500}}
        for number in range(1000)
    ]
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as session:
        told = await ask(session, "POST", "/hooks/alertmanager", {"alerts": alerts})
        assert (told.status, told.body["firing"]) == (200, 1000)
        refused = await ask(session, "POST", "/reload", {"why": "y" * 70_000})
        assert refused.status == 413


def test_a_report_is_shown_by_get_and_told_by_post(client: TestClient, taker: Taker) -> None:
    assert client.get("/reports/daily").status_code == 200
    assert client.post("/reports/weekly").status_code == 200
    assert client.get("/reports/hourly").status_code == 422
    assert taker.told == [("daily", False), ("weekly", True)]


@pytest.mark.parametrize(
    ("method", "path", "let_in"),
    [
        ("POST", "/api/ds4/v1/hooks/slack", True),
        ("PUT", "/api/ds4/v1/hooks/slack", False),
        ("POST", "/api/ds4/v1/hooks/slack/", False),
        ("POST", "/api/ds4/v1/hooks/alertmanager", False),
        ("POST", "/api/ds4/v1/reports/daily", False),
    ],
)
def test_the_signed_route_alone_needs_neither_token_nor_host(
    method: str, path: str, let_in: bool
) -> None:
    visit = Visit(method=method, path=path, host="ds4.example")
    assert isinstance(admit(Gate(TokenTable(())), visit), Turned) is not let_in
