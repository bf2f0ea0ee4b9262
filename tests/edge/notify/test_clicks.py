"""Buttons: signed, by whom, once, and what is written because of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from slack_sdk.signature import Clock as SlackClock
from slack_sdk.signature import SignatureVerifier

from ds4watch.model.errors import RefusedError
from ds4watch.notify.clicks import BadClickError, Clicks, Given, is_signed, signature_of
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack import Slack, SlackPlace
from ds4watch.notify.slack_message import Links
from ds4watch.notify.slack_socket import listen
from tests.edge.notify.rig import START, Rig, rig_at
from tests.edge.notify.slack_server import APP_TOKEN, CHANNEL, TOKEN, SlackServer

LABEL = {"action_id": "x", "text": {"type": "plain_text", "text": "x"}}
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
ANN, BOB, EVE = "U01ANN", "U02BOB", "U03EVE"


class Orders:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.given: list[tuple[str, dict[str, Any], str]] = []
        self.refuses = ""
        self.waits = False

    async def give(self, kind: str, fields: Mapping[str, Any], *, who: str) -> Given:
        if self.refuses:
            raise RefusedError(self.refuses)
        self.given.append((kind, dict(fields), who))
        return Given(f"{kind} is noted", is_done=not self.waits)


class Desk:
    """Slack, with a group that fires, and who takes its clicks."""

    def __init__(self, rig: Rig, server: SlackServer) -> None:
        self.rig, self.server, self.orders = rig, server, Orders()
        place = SlackPlace(
            Secret(TOKEN), CHANNEL, f"{server.url}/api/", buttons=True, gap_seconds=0.0
        )
        slack = Slack(rig.session, place, Links())
        rig.attach(slack)
        self.clicks = Clicks(
            self.orders,
            rig.store,
            slack,
            allowed={ANN: "ann", EVE: ""},
            secret=Secret(SECRET),
            settings=rig.settings,
            metrics=rig.telemetry.process,
            clock=rig.clock,
        )

    def value(self, verb: str) -> str:
        """Return what the button that is shown carries."""
        for block in self.server.mains[0].attachments[0]["blocks"]:
            for element in block.get("elements", ()):
                if element.get("action_id") == verb:
                    return str(element["value"])
        raise LookupError(verb)


def interaction(verb: str, value: str, user: str = ANN, at: str = "1.2") -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "ann" if user == ANN else "bob"},
        "channel": {"id": CHANNEL},
        "actions": [{"action_id": verb, "value": value, "action_ts": at, "type": "button"}],
    }


def signed(document: Any, at: float = START) -> tuple[dict[str, str], bytes]:
    body = urlencode({"payload": json.dumps(document)}).encode()
    stamp = str(int(at))
    return {
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": signature_of(SECRET, stamp, body),
    }, body


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with rig_at(tmp_path) as rig:
        server = SlackServer()
        async with server.serving():
            desk = Desk(rig, server)
            await rig.tick(("Queue", "w1"))
            await rig.later(30)
            yield desk


def test_our_signature_is_the_one_that_slacks_own_library_accepts() -> None:
    class At(SlackClock):
        def now(self) -> float:
            return START

    headers, body = signed({"type": "x"})
    assert SignatureVerifier(SECRET, At()).is_valid_request(body, headers)


@pytest.mark.parametrize(
    ("change", "now", "good"),
    [
        ({}, START, True),
        ({}, START + 300, True),
        ({}, START + 301, False),
        ({}, START - 301, False),
        ({"x-slack-signature": "v0=00"}, START, False),
        ({"x-slack-signature": "ünknown"}, START, False),
        ({"x-slack-request-timestamp": "now"}, START, False),
        ({"x-slack-request-timestamp": "٣٣"}, START, False),
    ],
)
def test_a_callback_is_believed_if_signed_within_five_minutes(
    change: dict[str, str], now: float, good: bool
) -> None:
    headers, body = signed({"type": "x"})
    assert is_signed(SECRET, headers | change, body, now) is good
    assert not is_signed("", headers | change, body, now)
    assert not is_signed(SECRET, headers | change, body + b" ", now)


async def test_each_button_writes_its_command_and_says_so_in_the_thread(desk: Desk) -> None:
    now = desk.rig.clock.now()
    for number, verb in enumerate(("silence", "hold")):
        headers, body = signed(interaction(verb, desk.value(verb), at=str(number)), now)
        assert await desk.clicks.callback(headers, body)
    for number, verb in enumerate(("approve", "refuse", "undo")):
        value = json.dumps({"group": "g", "action": "set_level:default:1"})
        await desk.clicks.interaction(interaction(verb, value, at=str(number)))
    why = "button in Slack by ann"
    matchers = [
        {"name": "alertname", "value": "Queue", "is_regex": False},
        {"name": "worker", "value": "w1", "is_regex": False},
    ]
    assert desk.orders.given == [
        ("silence", {"matchers": matchers, "until": now + 3600, "why": why}, "ann"),
        ("hold", {"pool": "default", "until": now + 3600, "why": why}, "ann"),
        *(
            (verb, {"action": "set_level:default:1", "why": why}, "ann")
            for verb in ("approve", "refuse", "undo")
        ),
    ]
    await desk.rig.later(1)
    (said,) = desk.server.thread_of(desk.server.mains[0])
    assert "hold is noted (by ann)" in said.shown
    assert [it["text"] for it in desk.server.whispers] == [
        f"{verb} is noted (by ann)" for verb in ("approve", "refuse", "undo")
    ]


async def test_who_is_not_on_the_list_is_told_so_and_nothing_is_done(desk: Desk) -> None:
    for verb in ("hold", "acknowledge"):
        await desk.clicks.interaction(interaction(verb, desk.value(verb), BOB))
    assert desk.orders.given == []
    assert [it["user"] for it in desk.server.whispers] == [BOB, BOB]
    await desk.rig.later(1)
    assert "sees to it" not in desk.server.mains[0].shown
    assert desk.rig.figure('ds4_notify_commands_total{outcome="forbidden"}') == 2


async def test_a_name_that_slack_tells_makes_nobody_somebody_else(desk: Desk) -> None:
    click = interaction("hold", desk.value("hold"), EVE)
    click["user"]["username"] = "ann"  # anybody may call themselves so
    await desk.clicks.interaction(click)
    assert [who for _, _, who in desk.orders.given] == ["slack:ann (U03EVE)"]


@pytest.mark.parametrize(
    ("verb", "waits", "gone"),
    [
        ("approve", False, True),
        ("undo", False, True),
        ("undo", True, False),
        ("hold", False, False),
    ],
)
async def test_a_question_that_was_answered_has_no_buttons_any_more(
    desk: Desk, verb: str, waits: bool, gone: bool
) -> None:
    desk.orders.waits = waits
    (post,) = desk.server.mains
    value = json.dumps({"group": "g", "action": "a1", "pool": "default"})
    asked = {"type": "section", "text": {"type": "mrkdwn", "text": "May this be done?"}}
    others = {"type": "actions", "elements": [{"type": "button", "value": "{}", **LABEL}]}
    ours = {
        "type": "actions",
        "elements": [{"type": "button", "value": value, **LABEL, "action_id": verb}],
    }
    seen = [{"color": "#1976d2", "id": 1, "blocks": [asked, ours, others]}]
    message = {"ts": post.ts, "text": "May this be done?", "attachments": seen}
    await desk.clicks.interaction(interaction(verb, value) | {"message": message})
    assert post.edits == (1 if gone else 0)
    if gone:
        assert post.attachments[0]["blocks"][0] == asked
        assert (
            f"{verb} is noted (by ann)" in post.attachments[0]["blocks"][1]["elements"][0]["text"]
        )
        assert post.attachments[0]["blocks"][2] == others


@pytest.mark.parametrize("message", [None, [], {}, {"ts": "1.1"}, {"attachments": []}])
async def test_a_click_without_its_message_counts_all_the_same(desk: Desk, message: Any) -> None:
    click = interaction("approve", '{"action": "a1"}') | {"message": message}
    await desk.clicks.interaction(click)
    assert len(desk.orders.given) == 1


async def test_buttons_stay_when_slack_does_not_take_the_edit(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    value = '{"action": "a1"}'
    pressed = {"type": "button", "value": value, **LABEL, "action_id": "approve"}
    blocks = [{"type": "actions", "elements": [pressed]}]
    message = {"ts": "0.0", "attachments": [{"blocks": blocks}]}
    await desk.clicks.interaction(interaction("approve", value) | {"message": message})
    assert len(desk.orders.given) == 1
    assert "the buttons of approve stay" in caplog.text


async def test_a_click_that_is_told_twice_counts_once(desk: Desk) -> None:
    click = interaction("hold", desk.value("hold"))
    await desk.clicks.interaction(click)
    await desk.clicks.interaction(click)
    assert len(desk.orders.given) == 1


async def test_who_acknowledges_is_shown_in_the_message(desk: Desk) -> None:
    await desk.clicks.interaction(interaction("acknowledge", desk.value("acknowledge")))
    await desk.rig.later(1)
    assert "ann sees to it" in desk.server.mains[0].shown


async def test_what_cannot_be_done_is_told_to_who_asked_and_may_be_asked_again(
    desk: Desk,
) -> None:
    desk.orders.refuses = "there is no such action"
    click = interaction("undo", '{"action": "x"}')
    await desk.clicks.interaction(click)
    assert "there is no such action" in desk.server.whispers[0]["text"]
    desk.orders.refuses = ""
    await desk.clicks.interaction(click)
    assert len(desk.orders.given) == 1


@pytest.mark.parametrize("value", ["", "{", "[1]", '{"pool": ""}', "null", "[" * 5000])
async def test_a_button_of_which_we_know_nothing_does_nothing(desk: Desk, value: str) -> None:
    await desk.clicks.interaction(interaction("hold", value))
    await desk.clicks.interaction(interaction("launch", value))
    assert desk.orders.given == []


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"payload=", b"payload=%7B", b"payload=[]", b"payload=" + b"[" * 9999]
)
async def test_a_signed_body_that_is_no_interaction_is_refused(desk: Desk, body: bytes) -> None:
    stamp = str(int(desk.rig.clock.now()))
    headers = {
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": signature_of(SECRET, stamp, body),
    }
    with pytest.raises(BadClickError):
        await desk.clicks.callback(headers, body)


async def test_buttons_work_by_socket_mode_too_and_are_acknowledged(desk: Desk) -> None:
    listening = asyncio.create_task(
        listen(Secret(APP_TOKEN), f"{desk.server.url}/api/", desk.clicks.interaction)
    )
    async with asyncio.timeout(20):
        await desk.server.connected.wait()
        assert desk.server.socket is not None
        await desk.server.socket.send_json(
            {
                "type": "interactive",
                "envelope_id": "e1",
                "payload": interaction("hold", desk.value("hold")),
            }
        )
        answer = await desk.server.acknowledged.get()
    assert answer["envelope_id"] == "e1"
    assert [kind for kind, _, _ in desk.orders.given] == ["hold"]
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
