"""From alerts to Slack and back, against a server that behaves as Slack's API does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from ds4watch.alerting.grouping import Group, News, Note, Why
from ds4watch.history.group_rows import stored_groups
from ds4watch.model.silence import LabelTest, Silence
from ds4watch.notify.group_channel import Telling
from ds4watch.notify.secret import Secret
from ds4watch.notify.slack import Slack, SlackPlace
from ds4watch.notify.slack_message import Links
from tests.edge.notify.rig import START, Rig, rig_at
from tests.edge.notify.slack_server import CHANNEL, TOKEN, SlackServer

LINKS = Links("https://ds4.example", "https://grafana.example/d/1", "https://wiki.example")


BLIND = {
    "missing_scope": "Slack refuses us: missing_scope",
    "not_in_channel": "Slack refuses us: not_in_channel",
    "method_not_supported": "Slack refuses the message: method_not_supported",
}


class Seen:
    """Knows thresholds and a past."""

    def threshold(self, news: News) -> str:
        return "> 50" if news.name else ""

    async def past(self, news: News, at: float) -> Sequence[tuple[float, float]]:
        assert news.firing
        return [(at - 60 * minute, 10.0 * minute) for minute in range(30, 0, -1)]


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig_at(tmp_path) as rig:
        yield rig


@pytest_asyncio.fixture
async def slack(rig: Rig) -> AsyncIterator[SlackServer]:
    server = SlackServer()
    async with server.serving() as url:
        rig.attach(channel_at(rig, url))
        yield server


def channel_at(rig: Rig, url: str, token: Secret | None = None) -> Slack:
    place = SlackPlace(token or Secret(TOKEN), CHANNEL, url, buttons=True, gap_seconds=0.0)
    return Slack(rig.session, place, LINKS, Seen())


def again(rig: Rig, slack: SlackServer) -> Slack:
    return channel_at(rig, f"{slack.url}/api/")


async def test_a_group_is_one_message_edited_in_place_with_its_story_in_the_thread(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"), ("Queue", "w2"))
    await rig.later(30)
    (post,) = slack.mains
    assert post.title == "Queue (warning): 2 firing"
    assert post.attachments[0]["color"] == "#ef9a00"
    for part in ("value *80*, threshold &gt; 50", "80 requests &lt;wait&gt; &amp; more"):
        assert part in post.shown
    for address in (
        "https://grafana.example/d/1",
        "https://wiki.example/docs/runbooks/Queue.md",
        "https://ds4.example/api/ds4/v1/audit",
    ):
        assert f"<{address}|" in post.shown

    await rig.tick(("Queue", "w1"), firing=False)
    await rig.later(299)
    assert post.edits == 0
    await rig.later(1)
    assert post.title == "Queue (warning): 1 firing, 1 over"
    await rig.tick(("Queue", "w2"), firing=False)
    await rig.later(300)
    assert (post.title, post.attachments[0]["color"]) == ("Queue: over", "#2e7d32")
    assert "button" not in post.shown
    assert [it.title for it in slack.thread_of(post)] == [
        "Queue (warning): 1 firing, 1 over",
        "Queue: over",
    ]
    assert slack.mains == [post]


async def test_the_picture_of_the_last_hour_is_in_the_thread(rig: Rig, slack: SlackServer) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    (file,) = slack.files
    assert file["content"].startswith(b"\x89PNG")
    assert (file["channel"], file["thread"]) == (CHANNEL, slack.mains[0].ts)


async def test_a_firing_group_is_repeated_in_its_thread_unless_somebody_sees_to_it(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    await rig.later(14_400)
    (post,) = slack.mains
    assert "Still: Queue (warning)" in slack.thread_of(post)[0].shown
    (key,) = [it.key for it in (await stored(rig)).values()]
    note = Note("n", "said", rig.clock.now(), {"id": "n", "text": "acknowledged (ann)"})
    await rig.store.say_in_group("slack", key, note, acknowledged_by="ann", settings=rig.settings)
    await rig.later(1)
    assert "ann sees to it" in post.shown
    await rig.later(50_000)
    assert len(slack.thread_of(post)) == 2


async def test_a_group_that_somebody_sees_to_is_not_counted_as_waiting(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    (key,) = [it.key for it in (await stored(rig)).values()]
    note = Note("n", "said", rig.clock.now(), {"id": "n", "text": "acknowledged (ann)"})
    await rig.store.say_in_group("slack", key, note, acknowledged_by="ann", settings=rig.settings)
    await rig.later(1)
    posts = len(slack.posts)
    await rig.later(20_000)
    await rig.notifier.look()
    assert rig.figure('ds4_outbox_groups{channel="slack"}') == 0
    assert rig.figure('ds4_outbox_oldest_seconds{channel="slack"}') == 0
    assert len(slack.posts) == posts


async def test_nobody_is_reminded_of_what_was_silenced_after_it_was_told(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    (post,) = slack.mains
    now = rig.clock.now()
    test = LabelTest("alertname", "=", "Queue")
    await rig.store.desk.place_silence(Silence("s", (test,), now, now + 20_000, "ann", "x", now))
    await rig.later(15_000)
    await rig.notifier.look()
    assert slack.thread_of(post) == []
    assert rig.figure('ds4_outbox_groups{channel="slack"}') == 0
    await rig.later(5_000)
    await rig.later(300)
    assert "Still: Queue (warning)" in slack.thread_of(post)[0].shown


async def test_an_alert_that_ends_without_a_word_is_told_to_be_over_once(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    (post,) = slack.mains
    rig.firing.clear()
    await rig.tick()
    await rig.later(14_400)
    assert post.title == "Queue: over"
    for _ in range(10):
        await rig.later(14_400)
    assert [it.title for it in slack.thread_of(post)] == ["Queue: over"]
    assert slack.mains == [post]


async def stored(rig: Rig) -> dict[str, Group]:
    return await rig.store._database.read(stored_groups, "slack")


async def test_a_storm_of_a_thousand_alerts_is_a_few_messages(rig: Rig, slack: SlackServer) -> None:
    storm = [(f"Rule{number % 400}", f"w{number}") for number in range(1000)]
    await rig.tick(*storm)
    await rig.later(30)
    assert len(slack.mains) == rig.settings.max_groups + 1
    assert "more alerts" in slack.mains[-1].shown + slack.mains[0].shown
    await rig.tick(*storm, firing=False)
    await rig.later(300)
    assert {it.attachments[0]["color"] for it in slack.mains} == {"#2e7d32"}
    assert len(slack.posts) == 2 * (rig.settings.max_groups + 1)


@pytest.mark.parametrize("fault", ["429", "500", "503", "internal_error", "unheard", "unmade"])
async def test_whatever_goes_wrong_each_message_is_there_once(
    rig: Rig, slack: SlackServer, fault: str
) -> None:
    slack.faults = [fault, None, fault]
    await rig.tick(("Queue", "w1"), ("Errors", "w1"), ("Memory", "w1"))
    await rig.later(30)
    for _ in range(5):
        await rig.later(8)
    assert sorted(it.title for it in slack.mains) == [
        f"{name} (warning): 1 firing" for name in ("Errors", "Memory", "Queue")
    ]
    assert rig.figure('ds4_notify_channel_up{channel="slack"}') == 1
    assert rig.figure('ds4_outbox_groups{channel="slack"}') == 0


async def test_a_follow_up_whose_answer_was_lost_is_there_once(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    await rig.tick(("Queue", "w1"), firing=False)
    slack.faults = [None, "unheard", "unheard"]
    await rig.later(300)
    for _ in range(4):
        await rig.later(5)
    (post,) = slack.mains
    assert [it.title for it in slack.thread_of(post)] == ["Queue: over"]


@pytest.mark.parametrize("blind", ["missing_scope", "not_in_channel", "method_not_supported"])
async def test_a_bot_that_may_not_look_sends_again_and_says_that_it_may_be_there_twice(
    rig: Rig, slack: SlackServer, blind: str, caplog: pytest.LogCaptureFixture
) -> None:
    slack.blind, slack.faults = blind, ["unheard"]
    await rig.tick(("Queue", "w1"), ("Errors", "w1"))
    await rig.later(30)
    assert len(slack.mains) == 1
    await rig.later(5)
    first, second = (it for it in slack.mains if it.text.startswith(slack.mains[0].text))
    assert first.id == second.id
    assert ("may be there twice" in first.shown, "may be there twice" in second.shown) == (
        False, True,
    )  # fmt: skip
    assert len(slack.mains) == 3
    assert "may be there twice" not in slack.mains[2].shown
    assert (rig.count("maybe_twice"), rig.count("sent")) == (1, 2)
    assert f"it cannot be looked for a message that may have been sent: {BLIND[blind]}" in (
        caplog.text
    )
    await rig.later(300)
    assert len(slack.mains) == 3
    assert rig.figure('ds4_notify_channel_up{channel="slack"}') == 1


async def test_what_may_have_been_sent_is_still_looked_for_when_looking_had_to_wait(
    rig: Rig, slack: SlackServer
) -> None:
    slack.faults = ["unheard"]
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    slack.down = "429"
    await rig.later(2)
    slack.down = None
    await rig.later(8)
    assert len(slack.mains) == 1
    assert rig.count("sent") == 1


async def test_a_wall_clock_that_is_set_back_closes_no_channel(
    rig: Rig, slack: SlackServer
) -> None:
    slack.faults = ["unmade"]
    await rig.tick(("Queue", "w1"))
    await rig.later(3630)
    rig.clock.wall_offset = -3600
    await rig.later(2)
    assert len(slack.mains) == 1


async def test_what_is_silenced_is_counted_and_not_named_when_the_others_are_repeated(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"), ("Queue", "w2"))
    await rig.later(30)
    now = rig.clock.now()
    test = LabelTest("worker", "=", "w1")
    await rig.store.desk.place_silence(Silence("s", (test,), now, now + 20_000, "ann", "x", now))
    await rig.later(14_400)
    (post,) = slack.mains
    assert post.title == "Queue (warning): 1 firing, 1 silenced"
    assert ("`w1`" in post.shown, "`w2`" in post.shown) == (False, True)
    assert "Still: Queue (warning): 1 firing, 1 silenced" in slack.thread_of(post)[0].shown
    await rig.tick(("Queue", "w2"), firing=False)
    await rig.later(300)
    assert post.title == "Queue: 1 over, 1 silenced"


async def test_a_pause_that_slack_asks_for_is_kept_to_the_second(
    rig: Rig, slack: SlackServer
) -> None:
    slack.most_at_once = 4
    await rig.tick(*((f"Rule{number}", "w") for number in range(9)))
    await rig.later(30)
    assert (len(slack.mains), slack.limited) == (4, 1)
    await rig.later(6.9)
    assert slack.limited == 1
    slack.pause_over()
    await rig.later(0.1)
    slack.pause_over()
    await rig.later(7)
    assert len(slack.mains) == 9
    assert rig.count("busy") == slack.limited
    assert len({it.id for it in slack.mains}) == 9


async def test_a_revoked_token_keeps_the_queue_and_says_so_until_it_is_renewed(
    rig: Rig, slack: SlackServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    rig.attach(channel_at(rig, f"{slack.url}/api/", Secret(file=file)))
    slack.token = "xoxb-a-new-one"
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    await rig.later(61)
    assert rig.figure('ds4_notify_channel_up{channel="slack"}') == 0
    assert rig.figure('ds4_outbox_groups{channel="slack"}') == 1
    assert [it.message for it in caplog.records if it.levelname == "ERROR"] == [
        "slack does not take messages, they wait: Slack refuses us: invalid_auth"
    ]
    assert TOKEN not in caplog.text
    file.write_text("xoxb-a-new-one")
    await rig.later(61)
    assert [it.title for it in slack.mains] == ["Queue (warning): 1 firing"]
    assert rig.figure('ds4_notify_channel_up{channel="slack"}') == 1


async def test_a_message_that_slack_refuses_does_not_hold_up_the_others(
    rig: Rig, slack: SlackServer
) -> None:
    slack.faults = ["msg_too_long"]
    await rig.tick(("Queue", "w1"))
    await rig.later(1)
    await rig.tick(("Errors", "w1"))
    await rig.later(30)
    assert [it.title for it in slack.mains] == ["Errors (warning): 1 firing"]
    assert rig.count("given_up") == 1


async def test_after_an_outage_a_digest_tells_what_came_and_went(
    rig: Rig, slack: SlackServer
) -> None:
    slack.down = "503"
    await rig.tick(*((f"Rule{number}", "w") for number in range(5)))
    await rig.later(30)
    await rig.tick(*((f"Rule{number}", "w") for number in range(3)), firing=False)
    for _ in range(20):
        await rig.later(60)
    assert not slack.posts
    await rig.restart(again(rig, slack))
    slack.down = None
    await rig.later(301)
    digest, *others = slack.mains
    assert digest.text.endswith("5 alerts meanwhile")
    assert "503" not in digest.text
    for number in range(5):
        assert f"Rule{number}" in digest.shown
    # Of the one that was tried nobody knows whether it was seen.
    assert sorted(it.title for it in others) == [
        "Rule0: over",
        "Rule3 (warning): 1 firing",
        "Rule4 (warning): 1 firing",
    ]
    await rig.later(301)
    assert len(slack.mains) == 4


async def test_a_daemon_that_dies_while_sending_loses_and_doubles_nothing(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    rig.clock.at += 30
    await rig.notifier.look()
    (due,) = await rig.store.due_groups("slack", rig.clock.now(), rig.settings)
    await rig.store.begin_group("slack", due.group.key, due.group.id)

    async def dies(handle: object) -> None:
        assert handle
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await again(rig, slack).tell(Telling(due.group, Why.FIRST, rig.clock.now()), dies)
    assert len(slack.mains) == 1
    await rig.restart(again(rig, slack))
    await rig.later(1)
    await rig.tick(("Queue", "w1"), firing=False)
    await rig.later(301)
    assert [it.title for it in slack.posts] == ["Queue: over", "Queue: over"]


async def test_a_message_that_somebody_deleted_is_posted_anew(rig: Rig, slack: SlackServer) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    slack.posts.clear()
    await rig.tick(("Queue", "w1"), firing=False)
    await rig.later(300)
    assert [it.title for it in slack.mains] == ["Queue: over"]


async def test_an_action_is_told_in_the_thread_of_its_cause_with_a_way_back(
    rig: Rig, slack: SlackServer
) -> None:
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    (fingerprint,) = rig.firing
    note = Note(
        "action a1",
        "action",
        rig.clock.now(),
        {"action": "exclude_worker:w1:1", "what": "exclude_worker", "target": "w1", "reason": "r"},
        (fingerprint,),
    )
    await rig.store.add_notes(note)
    await rig.later(1)
    (post,) = slack.mains
    (said,) = slack.thread_of(post)
    (button,) = [
        element
        for block in said.attachments[0]["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
    ]
    assert button["action_id"] == "undo"
    assert json.loads(button["value"])["action"] == "exclude_worker:w1:1"


async def test_a_question_has_two_buttons_and_its_time_limit(rig: Rig, slack: SlackServer) -> None:
    payload = {"action": "a2", "what": "restart", "target": "w1", "reason": "hung"}
    asked = Note("ask a2", "approval", START, {**payload, "expires_at": START + 600})
    await rig.store.add_notes(asked, replace(asked, id="ask a3"))
    await rig.later(1)
    assert len(slack.mains) == 2
    assert "not done" in slack.mains[0].shown
    assert '"approve"' in slack.mains[0].shown
    assert '"refuse"' in slack.mains[0].shown
