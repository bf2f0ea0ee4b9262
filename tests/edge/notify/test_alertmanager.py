"""Hands alerts on to a real Alertmanager, and takes in what it calls."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from ds4watch.alerting.external import MAX_ALERTS
from ds4watch.engine.external_alerts import ExternalAlerts
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.errors import RefusedError
from ds4watch.model.series import labels_of
from ds4watch.notify.alertmanager import AlertmanagerPlace, Alertmanagers
from ds4watch.notify.secret import Secret
from ds4watch.policy.ladder import demand
from ds4watch.policy.policyfile import Binding, PolicyFile
from ds4watch.telemetry.metrics import Telemetry
from tests.edge.clock import SystemClock
from tests.edge.notify.rig import Clock

pytestmark = pytest.mark.needs("prometheus-alertmanager")


def alert(worker: str, phase: AlertPhase = AlertPhase.FIRING, at: float = 1.0) -> AlertState:
    labels = labels_of({"alertname": "Queue", "severity": "warning", "worker": worker})
    notes = labels_of({"summary": f"{worker} is full"})
    return AlertState("r", labels, phase, at, 80.0, fired_at=at, annotations=notes)


class Receiver:
    """What Alertmanager calls."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[Any] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.Response:
        self.got.put_nowait(await request.json())
        return web.Response()


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    async with TestServer(app) as server:
        yield receiver, str(server.make_url("/hook"))


@pytest.fixture
def manager(tmp_path: Path, free_port: int, receiver: tuple[Receiver, str]) -> Iterator[str]:
    """Yield the address of a real Alertmanager that calls the receiver at once."""
    config = {
        "route": {
            "receiver": "ds4watch",
            "group_by": ["..."],
            "group_wait": "100ms",
            "group_interval": "200ms",
            "repeat_interval": "1h",
        },
        "receivers": [
            {
                "name": "ds4watch",
                "webhook_configs": [{"url": receiver[1], "send_resolved": True}],
            }
        ],
    }
    file = tmp_path / "alertmanager.yml"
    file.write_text(json.dumps(config))
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus-alertmanager", f"--config.file={file}", f"--storage.path={tmp_path}",
                f"--web.listen-address=127.0.0.1:{free_port}", "--cluster.listen-address=",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        yield f"http://127.0.0.1:{free_port}"
        process.kill()
        process.wait(10)


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def ready(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                async with session.get(f"{url}/-/ready") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


async def test_what_fires_and_resolves_goes_through_a_real_one_and_comes_back(
    session: aiohttp.ClientSession, manager: str, receiver: tuple[Receiver, str]
) -> None:
    await ready(session, manager)
    clock = SystemClock()
    alerts = [alert("w1", at=clock.now() - 5), alert("w2", AlertPhase.PENDING)]
    place = AlertmanagerPlace([manager], Secret(), (("cluster", "a"),), 60.0, 1.0, "http://page")
    telemetry = Telemetry()
    managers = Alertmanagers(session, place, lambda: alerts, metrics=telemetry.process, clock=clock)
    external = external_at(Kept(), None, clock, fresh_seconds=600)
    await managers.look()
    async with session.get(f"{manager}/api/v2/alerts") as answer:
        (held,) = await answer.json()
    assert held["labels"] == {
        "alertname": "Queue", "cluster": "a", "severity": "warning", "worker": "w1",
    }  # fmt: skip
    assert held["generatorURL"] == "http://page"

    async with asyncio.timeout(20):
        await external.take(await receiver[0].got.get())
    (came,) = external.alerts(clock.now())
    assert dict(came.labels)["source"] == "alertmanager"
    assert not came.held

    alerts.clear()
    await managers.look()
    async with asyncio.timeout(20):
        await external.take(await receiver[0].got.get())
    assert external.alerts(clock.now()) == ()
    page = telemetry.render().decode()
    assert 'ds4_notifications_total{channel="alertmanager",outcome="sent"} 2.0' in page


class Kept:
    """Keeps values, as the database does."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def keep_value(self, name: str, value: Any) -> None:
        self.values[name] = json.loads(json.dumps(value))


def external_at(
    kept: Kept, values: Any, clock: Any, *, fresh_seconds: float, telemetry: Telemetry | None = None
) -> ExternalAlerts:
    metrics = (telemetry or Telemetry()).process
    return ExternalAlerts(kept, values, clock, fresh_seconds=fresh_seconds, metrics=metrics)


class SlowKept(Kept):
    async def keep_value(self, name: str, value: Any) -> None:
        await asyncio.sleep(0)
        await super().keep_value(name, value)


def webhook(*names: str, status: str = "firing") -> dict[str, Any]:
    return {
        "version": "4",
        "alerts": [
            {"status": status, "labels": {"alertname": it, "severity": "critical"}} for it in names
        ],
    }


POLICY = PolicyFile(
    bindings=(
        Binding(match={"alertname": "Disk", "source": "alertmanager"}, level=1, pool="default"),
    )
)


def level_asked(external: ExternalAlerts, now: float) -> tuple[int, int]:
    asked = demand("default", POLICY, external.alerts(now))
    return asked.level, asked.keep


async def test_an_alert_of_others_drives_the_policy_and_its_silence_is_no_all_clear() -> None:
    clock, kept = Clock(), Kept()
    external = external_at(kept, None, clock, fresh_seconds=600)
    told = await external.take(webhook("Disk", "Net"))
    assert (told["firing"], told["known"]) == (2, 2)
    assert level_asked(external, clock.at) == (1, 1)
    # Not repeated: it keeps a level and raises none.
    assert level_asked(external, clock.at + 601) == (0, 1)
    again = external_at(kept, kept.values["external_alerts"], clock, fresh_seconds=600)
    assert level_asked(again, clock.at) == (0, 1)
    await again.take(webhook("Disk"))
    assert level_asked(again, clock.at) == (1, 1)
    await again.take(webhook("Disk", status="resolved"))
    assert level_asked(again, clock.at) == (0, 0)
    assert all(math.isnan(it.value) for it in again.alerts(clock.at))


async def test_groups_that_are_posted_side_by_side_undo_none_of_each_other() -> None:
    external = external_at(SlowKept(), None, Clock(), fresh_seconds=600)
    await asyncio.gather(external.take(webhook("Disk")), external.take(webhook("Net")))
    names = {it.name for it in external.alerts(Clock().at)}
    assert names == {"Disk", "Net"}


@pytest.mark.parametrize("document", [None, [], {}, {"alerts": {}}, "x"])
async def test_what_is_no_webhook_is_refused(document: Any) -> None:
    external = external_at(Kept(), None, Clock(), fresh_seconds=1)
    with pytest.raises(RefusedError, match="as Alertmanager sends it"):
        await external.take(document)


async def test_alerts_that_cannot_be_are_left_out_and_named() -> None:
    external = external_at(Kept(), None, Clock(), fresh_seconds=1)
    alerts = [1, {"labels": {}}, {"labels": {"alertname": "A"}, "status": "maybe"}]
    told = await external.take({"alerts": [*alerts, webhook("Disk")["alerts"][0]]})
    assert told["refused"] == [
        "alerts[0] is not an alert",
        "alerts[1] has no label alertname",
        "alerts[2].status must be firing or resolved",
    ]
    assert told["known"] == 1


async def test_an_alertmanager_that_is_away_is_told_all_when_it_is_back(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[Any] = []
    statuses = [500, 500, 200]

    async def take(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer hush"
        status = statuses.pop(0) if statuses else 200
        if status == 200:
            got.append(await request.json())
        return web.Response(status=status)

    app = web.Application()
    app.router.add_post("/api/v2/alerts", take)
    clock, alerts = Clock(), [alert("w1")]
    async with TestServer(app) as server:
        place = AlertmanagerPlace([str(server.make_url("/"))], Secret("hush"))
        telemetry = Telemetry()
        managers = Alertmanagers(
            session, place, lambda: alerts, metrics=telemetry.process, clock=clock
        )
        await managers.look()
        alerts.clear()
        for _ in range(3):
            await managers.look()
        # It was never told that it fires, and is told that it is over.
        assert len(got) == 1
        clock.at += 61
        await managers.look()
        clock.at += 900
        await managers.look()
        await managers.look()
    assert len(got) == 2
    assert [it.message for it in caplog.records].count(
        "an Alertmanager is not told: it answered 500"
    ) == 1


async def test_what_has_no_room_is_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telemetry = Telemetry()
    external = external_at(Kept(), None, Clock(), fresh_seconds=600, telemetry=telemetry)
    full = [f"A{number}" for number in range(MAX_ALERTS)]
    assert (await external.take(webhook(*full, "Over")))["left_out"] == 1
    assert (await external.take(webhook("More", "A1")))["left_out"] == 1
    assert (await external.take(webhook("A2", "A3", status="resolved")))["known"] == 4998
    assert (await external.take(webhook("More")))["left_out"] == 0
    page = telemetry.render().decode()
    assert "ds4_external_alerts_left_out_total 2.0" in page
    assert [it.levelname for it in caplog.records] == ["ERROR", "WARNING"]
    assert "1 alerts of Alertmanager's had no room: 5000 are the most" in caplog.text
