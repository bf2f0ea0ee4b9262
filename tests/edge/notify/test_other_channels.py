"""Slack's incoming webhook, apprise, the signed webhook, the heartbeat, the loops."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from ds4watch.alerting.grouping import Note
from ds4watch.notify.apprise_channel import Apprise
from ds4watch.notify.group_channel import ChannelError
from ds4watch.notify.heartbeat import Heartbeat
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack import Slack, SlackPlace
from ds4watch.notify.slack_hook import SlackHook
from ds4watch.notify.slack_message import Links
from ds4watch.notify.webhook import Webhook
from tests.edge.notify.rig import START, Rig, rig_at
from tests.edge.notify.slack_server import CHANNEL, TOKEN, SlackServer

OF_APPRISE = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig_at(tmp_path) as rig:
        yield rig


class Far:
    """The far end of whatever is called."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[tuple[dict[str, str], bytes]] = []

    async def handle(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append((headers, await request.read()))
        return web.Response(status=self.status)


@pytest_asyncio.fixture
async def far() -> AsyncIterator[tuple[Far, str]]:
    far = Far()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", far.handle)
    async with TestServer(app) as server:
        yield far, str(server.make_url("/secret-path"))


@pytest.mark.parametrize("fault", ["429", "503"])
async def test_an_incoming_webhook_is_told_each_group_and_pauses_are_kept(
    rig: Rig, fault: str
) -> None:
    server = SlackServer()
    async with server.serving():
        url = Secret(f"{server.url}/services/T0/B0/x")
        channel = SlackHook(rig.session, url, Links())
        channel.gap_seconds = 0.0
        rig.attach(channel)
        server.faults = [fault]
        await rig.tick(("Queue", "w1"))
        await rig.later(30)
        await rig.later(7)
        await rig.tick(("Queue", "w1"), firing=False)
        await rig.later(300)
    assert [it.title for it in server.posts] == ["Queue (warning): 1 firing", "Queue: over"]
    assert '"button"' not in server.posts[0].shown
    assert "ds4watch hold --pool default" in server.posts[0].shown


async def test_a_webhook_that_was_taken_away_keeps_its_messages_and_its_secret(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    server = SlackServer()
    async with server.serving():
        channel = SlackHook(rig.session, Secret(f"{server.url}/services/T0/hush"), Links())
        rig.attach(channel)
        server.down = "no_service"
        await rig.tick(("Queue", "w1"))
        await rig.later(30)
    assert rig.figure('ds4_outbox_groups{channel="slack_webhook"}') == 1
    assert "Slack refuses us: no_service" in caplog.text
    assert "hush" not in caplog.text


def test_a_file_of_several_lines_is_no_secret_that_fits_into_a_header(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\ntwo\n")
    with pytest.raises(ChannelError, match="has several lines"):
        Secret(file=file).read()


@OF_APPRISE
async def test_others_are_told_through_apprise(rig: Rig, far: tuple[Far, str]) -> None:
    receiver, url = far
    channel = Apprise("pager", Secret(url.replace("http://", "json://")))
    channel.gap_seconds = 0.0
    rig.attach(channel)
    receiver.status = 500
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    receiver.status = 200
    await rig.later(2)
    (_, body) = receiver.got[-1]
    assert b"Queue (warning): 1 firing" in body
    assert b"80 requests" in body
    assert (rig.count("outage", "pager"), rig.count("sent", "pager")) == (1, 1)


def body_of(got: tuple[dict[str, str], bytes]) -> tuple[str, str]:
    document = json.loads(got[1])
    return document["title"], document["message"]


@OF_APPRISE
async def test_a_pager_carrier_is_asked_and_told_what_was_done_and_what_to_type(
    rig: Rig, far: tuple[Far, str]
) -> None:
    receiver, url = far
    links = Links("https://ds4.example")
    channel = Apprise("pager", Secret(url.replace("http://", "json://")), links)
    channel.gap_seconds = 0.0
    rig.attach(channel)
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    (alert,) = [body_of(it) for it in receiver.got]
    assert alert[0] == "Queue (warning): 1 firing"
    assert "firing since 2027-01-15 08:00 UTC (30 s)" in alert[1]
    assert 'ds4watch silence alertname=Queue worker=w1 --for 1h --why "…"' in alert[1]
    assert "runbook: https://ds4.example/runbooks/Queue.md" in alert[1]

    (of_alert,) = rig.firing
    now = rig.clock.now()
    asked = {
        "action": "restart_worker:w1:2",
        "what": "restart_worker",
        "target": "w1",
        "reason": "80 requests wait",
        "expires_at": now + 600,
        "approvers": ["ann", "bob"],
    }
    done = {
        "action": "set_level:default:1",
        "what": "set_level",
        "target": "default",
        "reason": "Queue fires",
        "parameters": {"level": "1"},
    }
    await rig.store.add_notes(
        Note("q", "approval", now, asked, (of_alert,)), Note("a", "action", now, done)
    )
    await rig.later(1)
    told = dict(body_of(it) for it in receiver.got[1:])
    question = told["May this be done? restart_worker w1"]
    assert "About: Queue (warning): 1 firing" in question
    assert "because: 80 requests wait" in question
    assert "asked of: ann, bob" in question
    assert "without an answer by 2027-01-15 08:10 UTC it is not done" in question
    assert 'yes: ds4watch approve restart_worker:w1:2 --why "…"' in question
    assert 'no: ds4watch refuse restart_worker:w1:2 --why "…"' in question
    assert "firing since" not in question, "the alert is told again"
    action = told["Done: set_level default"]
    assert 'to go back: ds4watch act normal --pool default --why "…"' in action
    assert "with: level 1" in action
    assert len(receiver.got) == 3


@OF_APPRISE
async def test_an_address_that_apprise_does_not_know_keeps_its_messages(rig: Rig) -> None:
    rig.attach(Apprise("pager", Secret("nonsense://x:hush@y")))
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    assert rig.figure('ds4_outbox_groups{channel="pager"}') == 1


async def test_a_webhook_with_a_secret_is_signed_with_its_time(
    rig: Rig, far: tuple[Far, str]
) -> None:
    receiver, url = far
    webhook = Webhook(rig.session, url, secret=Secret("hush"), now=rig.clock.now)
    await webhook.send({"id": "one", "name": "Queue"})
    ((headers, body),) = receiver.got
    stamp = headers["x-ds4-timestamp"]
    assert int(stamp) == int(START)
    wanted = hmac.new(b"hush", b"v1:" + stamp.encode() + b":" + body, hashlib.sha256)
    assert headers["x-ds4-signature"] == f"v1={wanted.hexdigest()}"
    assert headers["idempotency-key"] == "one"


async def test_the_heartbeat_beats_while_rules_are_evaluated_and_not_otherwise(
    rig: Rig, far: tuple[Far, str], caplog: pytest.LogCaptureFixture
) -> None:
    receiver, url = far
    evaluated_at = [START]
    heartbeat = Heartbeat(
        rig.session,
        Secret(url),
        interval_seconds=60,
        last_tick_at=lambda: evaluated_at[0],
        metrics=rig.telemetry.process,
        clock=rig.clock,
    )
    await heartbeat.beat()
    assert rig.figure("ds4_heartbeat_last_success_timestamp_seconds") == START
    rig.clock.at += 301
    await heartbeat.beat()
    assert len(receiver.got) == 1
    evaluated_at[0] = rig.clock.at
    receiver.status = 500
    await heartbeat.beat()
    await heartbeat.beat()
    receiver.status = 200
    await heartbeat.beat()
    assert [it.message for it in caplog.records] == [
        "the heartbeat is not heard: the last evaluation was 301 s ago",
        "the heartbeat is heard again",
    ]
    assert "secret-path" not in caplog.text


async def test_a_heartbeat_that_nobody_answers_is_told_without_its_address(
    rig: Rig, free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeat = Heartbeat(
        rig.session,
        Secret(f"http://127.0.0.1:{free_port}/secret-path"),
        interval_seconds=60,
        last_tick_at=lambda: START,
        metrics=rig.telemetry.process,
        clock=rig.clock,
    )
    await heartbeat.beat()
    assert [it.message for it in caplog.records] == [
        "the heartbeat is not heard: ClientConnectorError"
    ]


async def test_the_loops_send_by_themselves(rig: Rig) -> None:
    server = SlackServer()
    async with server.serving() as url:
        place = SlackPlace(Secret(TOKEN), CHANNEL, url, gap_seconds=0.0)
        rig.attach(Slack(rig.session, place, Links()))
        await rig.tick(("Queue", "w1"))
        rig.clock.at += 30
        loops: asyncio.Task[Any] = asyncio.create_task(rig.notifier.run())
        async with asyncio.timeout(20):
            while not server.mains:
                await asyncio.sleep(0.02)
        loops.cancel()
        await asyncio.gather(loops, return_exceptions=True)
    assert len(server.mains) == 1
