"""Questions in Slack that are answered elsewhere, or never: what becomes of their buttons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ds4watch.alerting.grouping import Note
from ds4watch.notify.group_channel import ChannelError
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack import Slack, SlackPlace
from ds4watch.notify.slack_message import Links
from ds4watch.notify.slack_questions import Decision, OpenQuestions
from tests.edge.notify.rig import START, Rig, rig_at
from tests.edge.notify.slack_server import CHANNEL, TOKEN, Post, SlackServer

YES = Decision("restart on w1 is approved", "ann", START + 30)
NO = Decision("restart on w1 is refused", "bob", START + 30, "it is being looked at")
LATE = Decision("restart on w1 is not done", "", START + 600, "nobody said yes in time")


class Answers:
    """What was decided, by whatever way."""

    def __init__(self) -> None:
        self.found: dict[str, Decision] = {}

    async def decision(self, action: str) -> Decision | None:
        return self.found.get(action)


class Desk:
    """A channel with questions, of one daemon after another."""

    def __init__(self, rig: Rig, server: SlackServer, url: str) -> None:
        self.rig, self.server, self._url = rig, server, url
        self.answers = Answers()
        self.begin()

    def begin(self) -> None:
        place = SlackPlace(Secret(TOKEN), CHANNEL, self._url, buttons=True, gap_seconds=0.0)
        self.questions = OpenQuestions(self.rig.store, self.answers, look_seconds=0.01)
        self.slack = Slack(self.rig.session, place, Links(), questions=self.questions)
        self.rig.attach(self.slack)

    async def ask(self, *actions: str, cause: tuple[str, ...] = ()) -> None:
        payload = {"what": "restart", "target": "w1", "reason": "it hangs"}
        notes = [
            Note(f"ask {it}", "approval", START, {**payload, "action": it}, cause) for it in actions
        ]
        await self.rig.store.add_notes(*notes)
        await self.rig.later(1)

    async def look(self) -> None:
        await self.questions.look(self.slack.show)


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    server = SlackServer()
    async with rig_at(tmp_path) as rig, server.serving() as url:
        yield Desk(rig, server, url)


def buttons(post: Post) -> list[str]:
    blocks = [block for it in post.attachments for block in it["blocks"]]
    elements = [it for block in blocks for it in block.get("elements", ())]
    return [it["value"] for it in elements if it["type"] == "button"]


@pytest.mark.parametrize(
    ("decision", "shown"),
    [
        (YES, "restart on w1 is approved (by ann), 2027-01-15 08:00:30 UTC"),
        (NO, "refused (by bob), 2027-01-15 08:00:30 UTC: it is being looked at"),
        (LATE, "not done, 2027-01-15 08:10:00 UTC: nobody said yes in time"),
    ],
)
async def test_who_answered_what_and_when_stands_where_the_buttons_were(
    desk: Desk, decision: Decision, shown: str
) -> None:
    await desk.ask("a1")
    (post,) = desk.server.mains
    await desk.look()
    assert (post.edits, len(buttons(post))) == (0, 2)
    desk.answers.found["a1"] = decision
    await desk.look()
    await desk.look()
    assert (post.edits, buttons(post)) == (1, [])
    assert "May this be done?" in post.shown
    assert shown in post.shown
    assert post.attachments[0]["color"] == "#1976d2"


async def test_a_question_in_a_thread_is_settled_by_the_next_daemon_and_the_others_stay(
    desk: Desk,
) -> None:
    await desk.rig.tick(("Queue", "w1"))
    await desk.rig.later(30)
    await desk.ask("a1", "a2", cause=tuple(desk.rig.firing))
    (main,) = desk.server.mains
    (asked,) = desk.server.thread_of(main)
    desk.answers.found["a2"] = NO
    await desk.rig.store.close()
    desk.rig.store = desk.rig.store.open(desk.rig.place, desk.rig.clock)
    desk.begin()
    await desk.look()
    assert [it.count('"a1"') for it in buttons(asked)] == [1, 1]
    assert "refused (by bob)" in asked.shown
    desk.answers.found["a1"] = LATE
    await desk.look()
    assert buttons(asked) == []
    assert "refused (by bob)" in asked.shown


async def test_slack_that_does_not_answer_is_asked_again(desk: Desk) -> None:
    await desk.ask("a1")
    (post,) = desk.server.mains
    desk.answers.found["a1"] = YES
    desk.server.faults = ["429", "503"]
    for _ in range(2):
        with pytest.raises(ChannelError):
            await desk.look()
        assert buttons(post)
    await desk.look()
    assert buttons(post) == []


async def test_a_message_that_somebody_deleted_is_let_go_of(desk: Desk) -> None:
    await desk.ask("a1")
    desk.answers.found["a1"] = YES
    desk.server.posts.clear()
    await desk.look()
    calls = len(desk.server.calls)
    await desk.look()
    assert len(desk.server.calls) == calls


async def test_the_loop_settles_by_itself(desk: Desk) -> None:
    await desk.ask("a1")
    (post,) = desk.server.mains
    loop = asyncio.create_task(desk.questions.run(desk.slack.show))
    desk.answers.found["a1"] = YES
    async with asyncio.timeout(20):
        while buttons(post):
            await asyncio.sleep(0.01)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_no_more_than_a_hundred_messages_are_kept(desk: Desk) -> None:
    for number in range(101):
        await desk.ask(f"a{number}")
    kept = (await desk.rig.store.kept_values())["slack_questions"]
    assert len(kept) == 100
    assert '"a0"' not in str(kept[0])
