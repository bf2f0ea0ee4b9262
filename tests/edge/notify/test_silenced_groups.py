"""What a silence or a rule that goes away means for messages that people have already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from ds4watch.alerting.grouping import Group
from ds4watch.model.silence import LabelTest, Silence
from ds4watch.notify.group_channel import Digest, Keep, Telling
from tests.edge.notify.rig import Rig, rig_at

REPEAT_SECONDS = 14_400


class Channel:
    """Keeps what it is told."""

    name = "kept"
    gap_seconds = 0.0

    def __init__(self) -> None:
        self.told: list[Telling] = []

    async def tell(self, telling: Telling, keep: Keep) -> None:
        await keep({})
        self.told.append(telling)

    async def digest(self, digest: Digest) -> None:
        raise AssertionError(digest)

    @property
    def shown(self) -> list[tuple[str, list[str]]]:
        """Why each message came, and who was said to fire."""
        return [(it.why.value, firing(it.group)) for it in self.told]


def firing(group: Group) -> list[str]:
    return sorted(dict(it.news.labels)["worker"] for it in group.firing)


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig_at(tmp_path) as rig:
        yield rig


async def place(rig: Rig, silence: Silence) -> None:
    await rig.store.desk.place_silence(silence)


def silenced(rig: Rig, worker: str, seconds: float) -> Silence:
    now = rig.clock.now()
    return Silence(
        "s", (LabelTest("worker", "=", worker),), now, now + seconds, "ann", "known", now
    )


async def test_who_is_silenced_is_no_reason_to_repeat_and_not_called_over(rig: Rig) -> None:
    channel = Channel()
    rig.attach(channel)
    await rig.tick(("Queue", "w1"), ("Queue", "w2"))
    await rig.later(30)
    await place(rig, silenced(rig, "w1", 20_000))
    await rig.later(REPEAT_SECONDS)
    assert channel.shown == [("first", ["w1", "w2"]), ("repeat", ["w2"])]
    assert channel.told[-1].group.silenced == 1
    await rig.tick(("Queue", "w2"), firing=False)
    await rig.later(300)
    assert channel.shown[2:] == [("resolved", [])]  # w1 is silenced, and no all clear for it
    await rig.later(REPEAT_SECONDS - 400)
    assert len(channel.told) == 3
    await rig.later(REPEAT_SECONDS)
    assert channel.shown[3:] == [("repeat", ["w1"])]


async def test_a_group_that_is_silenced_as_a_whole_rests_and_is_not_counted_as_waiting(
    rig: Rig,
) -> None:
    channel = Channel()
    rig.attach(channel)
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    await place(rig, silenced(rig, "w1", 40_000))
    await rig.later(REPEAT_SECONDS)
    await rig.later(1)
    assert len(channel.told) == 1
    assert rig.figure('ds4_outbox_groups{channel="kept"}') == 0
    await rig.later(40_000)
    assert channel.shown[1:] == [("repeat", ["w1"])]


async def test_what_waits_for_its_message_when_it_is_silenced_waits_for_the_silences_end(
    rig: Rig,
) -> None:
    channel = Channel()
    rig.attach(channel)
    await rig.tick(("Queue", "w1"))
    await place(rig, silenced(rig, "w1", 1000))
    await rig.later(30)
    assert channel.told == []
    await rig.later(1000)
    assert channel.shown == [("first", ["w1"])]


async def test_an_alert_that_ended_under_a_silence_is_told_when_it_fires_anew(rig: Rig) -> None:
    """A new episode is lost to nobody (SigNoz/signoz#12891, alertmanager#1063)."""
    channel = Channel()
    rig.attach(channel)
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    rig.firing.clear()  # it ends, and the silence lets nobody be told
    await rig.tick()
    await rig.later(600)
    await rig.tick(("Queue", "w1"))
    await rig.later(300)
    assert channel.shown == [("first", ["w1"]), ("new", ["w1"])]


async def test_an_alert_that_nobody_speaks_of_any_more_ends_once(rig: Rig) -> None:
    channel = Channel()
    rig.attach(channel)
    await rig.tick(("Queue", "w1"))
    await rig.later(30)
    rig.firing.clear()
    await rig.tick()
    await rig.later(REPEAT_SECONDS)
    assert channel.shown == [("first", ["w1"]), ("over", [])]
    for _ in range(4):
        await rig.later(REPEAT_SECONDS)
    assert len(channel.told) == 2
