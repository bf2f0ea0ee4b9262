"""From an alert to a message in Slack, and from its buttons to what the daemon does."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from ds4watch.cli.hold import user_name
from ds4watch.notify.clicks import signature_of
from tests.edge.notify.slack_server import APP_TOKEN, CHANNEL, TOKEN, Post, SlackServer
from tests.flow.daemon import Daemon, ask, new_daemon, until

RULES = """\
groups:
  - name: flow
    rules:
      - alert: Odd
        expr: up{worker="sim-full-0"} == 1 and on () ds4_degradation_level == 1
        labels: {severity: warning}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 0
    clear_hold_seconds: 600
    ladder:
      - {name: one, max_tokens_cap: 512}
actions:
  ask-first:
    kind: exclude_worker
    cooldown_seconds: 0
    action_cooldown_seconds: 0
    approval: {by: [ann, OWN], expires_seconds: 120}
    undo_after_seconds: 1
bindings:
  - {match: {alertname: Odd}, action: ask-first}
""".replace("OWN", user_name())
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
ANN, BOB, EVE = "U0123ANN", "U0123BOB", "U0123EVE"
"""Ann may approve, Eve may press buttons, Bob may do nothing."""


class Far:
    """Slack, in a thread of its own, and those who press buttons there."""

    def __init__(self, server: SlackServer, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.server, self.url = server, url
        self._loop = loop
        self._pressed = 0

    def post_with(self, verb: str, said: str = "") -> tuple[Post, str]:
        """Return the newest message that has a button, and what that carries."""

        def look() -> tuple[Post, str] | None:
            for post in reversed(self.server.posts):
                for block in post.attachments[0]["blocks"] if said in post.shown else ():
                    for element in block.get("elements", ()):
                        if element.get("action_id") == verb:
                            return post, str(element["value"])
            return None

        return until(look, f"a button {verb}")

    def click(self, verb: str, user: str, said: str = "") -> dict[str, Any]:
        """Return what Slack tells of a press, the message as it stands with it."""
        post, value = self.post_with(verb, said)
        self._pressed += 1
        return {
            "type": "block_actions",
            "user": {"id": user, "username": "ann"},  # each of them calls himself so
            "channel": {"id": CHANNEL},
            "message": {"ts": post.ts, "text": post.text, "attachments": post.attachments},
            "actions": [{"action_id": verb, "value": value, "action_ts": str(self._pressed)}],
        }

    def through_socket(self, click: dict[str, Any]) -> None:
        """Hand a press on by Socket Mode, and wait until it is taken."""
        assert self.server.connected.is_set()

        async def send() -> None:
            assert self.server.socket is not None
            envelope = {"type": "interactive", "envelope_id": "e", "payload": click}
            await self.server.socket.send_json(envelope)
            await self.server.acknowledged.get()

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(30)


@contextmanager
def slack() -> Iterator[Far]:
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    server, urls = SlackServer(), list[str]()

    async def serve() -> None:
        async with server.serving() as url:
            urls.append(url)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield Far(server, loop, urls[0])
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
        loop.close()


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    with slack() as far:
        yield far


@pytest.fixture(scope="module")
def daemon(far: Far) -> Iterator[Daemon]:
    place = {
        "token": TOKEN,
        "channel": CHANNEL,
        "api_url": far.url,
        "signing_secret": SECRET,
        "app_token": APP_TOKEN,
        "users": [ANN, EVE],
        "names": {ANN: "ann"},
        "pictures": False,
    }
    notify = {"grouping": {"wait_seconds": 0, "interval_seconds": 1}, "slack": place}
    sections = {"notify": notify}
    with new_daemon(rules=RULES, policy=POLICY, fleet={"min_hot": 1}, sections=sections) as daemon:
        daemon.up()
        yield daemon


def call_back(daemon: Daemon, click: dict[str, Any], secret: str = SECRET) -> int:
    """Send a press as Slack does, signed; return the status of the answer."""
    body, stamp = urlencode({"payload": json.dumps(click)}).encode(), str(int(time.time()))
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": signature_of(secret, stamp, body),
    }
    with closing(http.client.HTTPConnection("127.0.0.1", daemon.admin_port)) as connection:
        connection.request("POST", "/api/ds4/v1/hooks/slack", body, headers)
        return connection.getresponse().status


def level(daemon: Daemon, name: str) -> None:
    done = daemon.command("act", name, "--why", "a test", *daemon.options)
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: daemon.level() == ["normal", "one"].index(name), name)


def excluded(daemon: Daemon) -> list[str]:
    found: list[str] = daemon.status()["policy"]["excluded_workers"]
    return found


def told_to(far: Far, user: str) -> list[str]:
    return [it["text"] for it in far.server.whispers if it["user"] == user]


def by(daemon: Daemon, who: str) -> list[str]:
    return [it["summary"] for it in daemon.audit() if it["who"] == who]


def test_only_an_approver_on_the_list_lets_an_action_be_done(far: Far, daemon: Daemon) -> None:
    level(daemon, "one")
    question, _ = far.post_with("approve")
    assert "⚙️" not in question.shown  # it is not begun
    assert "May this be done?" in question.shown
    assert "ask-first sim-full-0" in question.shown
    assert '"refuse"' in question.shown

    assert call_back(daemon, far.click("approve", ANN), secret="another") == 401
    assert call_back(daemon, far.click("approve", BOB)) == 200
    assert told_to(far, BOB) == ["You are not on the list of those who may do this."]
    assert call_back(daemon, far.click("approve", EVE)) == 200
    (refused,) = told_to(far, EVE)
    assert f"only ann, {user_name()} may say, not slack:ann ({EVE})" in refused
    assert excluded(daemon) == []
    assert "button" in question.shown

    assert call_back(daemon, far.click("approve", ANN)) == 200
    until(lambda: excluded(daemon) == ["sim-full-0"], "an exclusion")
    assert "exclude_worker on sim-full-0 is approved (by ann)" in question.shown
    assert "button" not in question.shown
    (decided,) = daemon.rows("SELECT decided_by, status FROM actions WHERE kind='exclude_worker'")
    assert decided == ("ann", "applied")
    assert any("approve asked for by ann: done" in it for it in by(daemon, "ann"))
    refusal = [it for it in by(daemon, f"slack:ann ({EVE})") if "refused" in it]
    assert "only ann" in refusal[0]


def test_what_was_done_is_told_and_taken_back_by_a_button(far: Far, daemon: Daemon) -> None:
    far.through_socket(far.click("undo", ANN, "set_level"))
    until(lambda: daemon.level() == 0, "a level taken back")
    until(lambda: excluded(daemon) == [], "an exclusion that is over with its alert")
    assert any("act asked for by ann: done" in it for it in by(daemon, "ann"))


def test_a_no_by_socket_mode_ends_the_waiting(far: Far, daemon: Daemon) -> None:
    before = len(far.server.posts)
    level(daemon, "one")
    until(lambda: "approve" in "".join(it.shown for it in far.server.posts[before:]), "a question")
    question, _ = far.post_with("refuse")
    far.through_socket(far.click("refuse", BOB))
    assert "button" in question.shown
    far.through_socket(far.click("refuse", ANN))
    assert "is refused (by ann)" in question.shown
    rows = daemon.rows("SELECT status, decided_by FROM actions WHERE kind='exclude_worker'")
    assert ("refused", "ann") in rows
    assert excluded(daemon) == []


def test_a_question_answered_elsewhere_or_never_keeps_no_buttons(far: Far, daemon: Daemon) -> None:
    level(daemon, "normal")
    question = asked_anew(far, daemon)
    _, value = far.post_with("approve")
    action = json.loads(value)["action"]
    done = daemon.command("refuse", action, "--why", "not now", *daemon.options)
    assert done.returncode == 0, done.stderr
    until(lambda: f"sim-full-0 is refused (by {user_name()})" in question.shown, "the answer")
    assert "UTC: not now" in question.shown
    assert "button" not in question.shown

    level(daemon, "normal")
    question = asked_anew(far, daemon)
    level(daemon, "normal")
    until(lambda: "UTC: what asked for it is over" in question.shown, "its end")
    assert "button" not in question.shown
    asked_anew(far, daemon)  # the next test has a group that fires, and is told


def asked_anew(far: Far, daemon: Daemon) -> Post:
    """Let the alert fire; return the message with the question that comes of it."""
    before = len(far.server.posts)
    level(daemon, "one")
    until(lambda: "approve" in "".join(it.shown for it in far.server.posts[before:]), "a question")
    return far.post_with("approve")[0]


def test_a_group_is_acknowledged_held_and_silenced_by_its_buttons(far: Far, daemon: Daemon) -> None:
    main, _ = far.post_with("acknowledge")
    for verb in ("acknowledge", "hold", "silence"):
        assert call_back(daemon, far.click(verb, BOB)) == 200
    assert daemon.status()["holds"] == []
    assert call_back(daemon, far.click("acknowledge", EVE)) == 200
    until(lambda: f"slack:ann ({EVE}) sees to it" in main.shown, "who sees to it")
    far.through_socket(far.click("hold", ANN))
    (hold,) = until(lambda: daemon.status()["holds"], "a hold")
    assert (hold["target"], hold["who"]) == ("default", "ann")
    assert call_back(daemon, far.click("silence", ANN)) == 200
    (silence,) = ask(daemon.admin_port, "/api/ds4/v1/silences").json()["silences"]
    assert (silence["who"], silence["ends_at"] - silence["placed_at"]) == (
        "ann", pytest.approx(3600, abs=5),
    )  # fmt: skip
    assert 'alertname="Odd"' in silence["matchers"]

    def said() -> str:
        found = "".join(it.shown for it in far.server.thread_of(main))
        return found if "silenced alertname=Odd" in found else ""

    thread = until(said, "what they did, in the thread")
    assert "no automatic action on default until" in thread
    assert "acknowledged (by" in thread
