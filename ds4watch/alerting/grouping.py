"""Which alerts are told in one message, and when that is sent, sent again or kept back. Pure.

The decision is Alertmanager's (needsUpdate, in notify/dedup_stage.go), with four differences: what
fired and was over before the first message is told all the same; a tier above all that was told
does not wait for the interval; a group that is over stays for one interval, so that an alert that
comes back goes on in its message; past `max_groups` all others share one message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ds4watch.model.alert import Tier
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, labels_of

OVERFLOW = "overflow"
"""Key of the group that takes in what would be a message too many."""
MAX_MEMBERS = 2000
ENDED = "-ended"
"""Behind the id of news: that it is over, which nobody told (group_view)."""


class Told(StrEnum):
    """What people were last told of an alert."""

    NOTHING = "nothing"
    FIRING = "firing"
    RESOLVED = "resolved"


class Why(StrEnum):
    """Why a group is told now."""

    FIRST = "first"
    NEW = "new"
    OVER = "over"
    RESOLVED = "resolved"
    NOTE = "note"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How alerts become messages; of alerts that come when `max_groups` wait, one is made."""

    by: tuple[str, ...] = ("alertname",)
    wait_seconds: float = 30.0
    interval_seconds: float = 300.0
    repeat_seconds: float = 14_400.0
    max_groups: int = 10


@dataclass(frozen=True, slots=True)
class News:
    """An alert fired or resolved. `value` is text, as JSON knows no NaN."""

    id: str
    fingerprint: str
    firing: bool
    at: UnixSeconds
    value: str = ""
    reason: str = ""
    labels: Labels = ()
    annotations: Labels = ()

    @property
    def name(self) -> str:
        """The rule's name."""
        return dict(self.labels).get("alertname", "?")

    @property
    def tier(self) -> Tier:
        """The severity; NONE when absent or not one of ours."""
        value = dict(self.labels).get("severity", "none")
        return Tier(value) if value in Tier._value2member_map_ else Tier.NONE


@dataclass(frozen=True, slots=True)
class Note:
    """What is told beside alerts: an action, a question, a report.

    kind: `action`, `approval`, `report`, or `said` for what a person did. cause: fingerprints of
    alerts, whose message it joins.
    """

    id: str
    kind: str
    at: UnixSeconds
    payload: Mapping[str, Any] = field(default_factory=dict)
    cause: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """An alert in a group, and what was told of it."""

    news: News
    fired_at: UnixSeconds
    told: Told = Told.NOTHING

    @property
    def stands(self) -> Told:
        """What is to be told of it."""
        return Told.FIRING if self.news.firing else Told.RESOLVED

    @property
    def is_news(self) -> bool:
        """Whether people were told something else last, or nothing."""
        return self.told is not self.stands


@dataclass(frozen=True, slots=True)
class Group:
    """One message: `sent` counts how often it was told. `more`: alerts beyond MAX_MEMBERS.

    silenced: how many that were told to fire are left out now, for a silence covers them; not kept.
    """

    key: str
    labels: Labels
    first_at: UnixSeconds
    members: tuple[Member, ...] = ()
    notes: tuple[Note, ...] = ()
    sent: int = 0
    sent_at: UnixSeconds | None = None
    highest_told: int = -1
    more: int = 0
    acknowledged_by: str = ""
    """Who sees to it: nothing is repeated until something new fires."""
    silenced: int = 0

    @property
    def firing(self) -> list[Member]:
        """Those that fire."""
        return [it for it in self.members if it.news.firing]

    @property
    def tier(self) -> Tier:
        """The highest tier that fires; of all if none does."""
        of = self.firing or self.members
        return max((it.news.tier for it in of), key=lambda it: it.rank, default=Tier.NONE)

    @property
    def id(self) -> str:
        """What the next message is known by: the same until it was sent."""
        return f"{self.key}-{self.first_at:.3f}-{self.sent}"


def key_of(labels: Labels) -> str:
    """Return 16 hex digits for the labels that a group has in common."""
    return hashlib.sha256(repr(labels).encode()).hexdigest()[:16]


def absorb(
    groups: Mapping[str, Group], news: Iterable[News | Note], settings: GroupSettings
) -> dict[str, Group]:
    """Return the groups with what is new put into them, in its order."""
    found = dict(groups)
    home = {it.news.fingerprint: key for key, group in found.items() for it in group.members}
    for item in news:
        if isinstance(item, Note):
            _take_note(found, home, item)
            continue
        if dict(item.labels).get("severity") == Tier.NONE.value:
            continue  # The watchdog: for machines, never for people.
        key = home.get(item.fingerprint)
        if key is None:
            key = home[item.fingerprint] = _open(found, item, settings)
        found[key] = _with(found[key], item)
    return found


def _open(groups: dict[str, Group], news: News, settings: GroupSettings) -> str:
    all_labels = dict(news.labels)
    labels = labels_of({name: all_labels.get(name, "") for name in settings.by})
    key = key_of(labels)
    if key not in groups:
        live = sum(1 for it in groups.values() if it.members)
        if live >= settings.max_groups:
            key, labels = OVERFLOW, ()
        groups.setdefault(key, Group(key, labels, first_at=news.at))
    return key


def _with(group: Group, news: News) -> Group:
    before = next((it for it in group.members if it.news.fingerprint == news.fingerprint), None)
    if news.firing:
        group = replace(group, acknowledged_by="")
    if before is not None:
        after = _followed(before, news)
        return replace(
            group, members=tuple([after if it is before else it for it in group.members])
        )
    if len(group.members) >= MAX_MEMBERS:
        return replace(group, more=group.more + news.firing)
    return replace(group, members=(*group.members, Member(news, fired_at=news.at)))


def _followed(before: Member, news: News) -> Member:
    """Return a member after what came.

    Each time an alert fires it is told once: of one that fires though it fired already, the end
    was told to nobody, as of a silenced one. People have to hear that it is there again.
    """
    if not news.firing:
        return replace(before, news=news)
    told = Told.NOTHING if before.news.firing else before.told
    return replace(before, news=news, fired_at=news.at, told=told)


def _take_note(groups: dict[str, Group], home: Mapping[str, str], note: Note) -> None:
    key = next((home[it] for it in note.cause if it in home), None)
    if key is None:
        # Each report and each question is a message of its own.
        key = key_of((("note", note.id),))
        groups.setdefault(key, Group(key, (), first_at=note.at))
    groups[key] = replace(groups[key], notes=(*groups[key].notes, note))


def said(group: Group, note: Note, acknowledged_by: str | None) -> Group:
    """Return a group to which a person had something to say."""
    by = group.acknowledged_by if acknowledged_by is None else acknowledged_by
    return replace(group, notes=(*group.notes, note), acknowledged_by=by)


def decide(group: Group, now: UnixSeconds, settings: GroupSettings) -> Why | None:
    """Return why a group is to be told now; None: it is not."""
    if now < due_at(group, settings):
        return None
    if pending := _pending(group):
        return pending
    return Why.REPEAT if group.firing and not group.acknowledged_by else None


def due_at(group: Group, settings: GroupSettings) -> UnixSeconds:
    """Return when a group is to be looked at next: to be told, or to be forgotten."""
    if group.notes and not any(it.is_news for it in group.members):
        return group.notes[0].at
    if group.sent_at is None:
        return group.first_at + settings.wait_seconds
    fresh = [it.news for it in group.members if it.is_news]
    soonest = group.sent_at + settings.interval_seconds
    if fresh:
        worse = [it.at for it in fresh if it.firing and it.tier.rank > group.highest_told]
        return min([soonest, *(at + settings.wait_seconds for at in worse)])
    return group.sent_at + settings.repeat_seconds if group.firing else soonest


def _pending(group: Group) -> Why | None:
    fresh = [it for it in group.members if it.is_news]
    if not fresh:
        return Why.NOTE if group.notes else None
    if group.sent_at is None:
        return Why.FIRST
    if not (group.firing or group.silenced):
        return Why.OVER
    return Why.NEW if any(it.news.firing for it in fresh) else Why.RESOLVED


def told(group: Group, sent: Group, now: UnixSeconds) -> Group:
    """Return a group as it stands now that it was told as `sent`.

    What came while it was being sent is news still.
    """
    was = {it.news.fingerprint: it for it in sent.members}
    noted = {it.id for it in sent.notes}
    members = [_told_as(it, was.get(it.news.fingerprint)) for it in group.members]
    kept = [it for it in members if it.news.firing or it.is_news]
    firing = [it.news.tier.rank for it in kept if it.told is Told.FIRING]
    return replace(
        group,
        members=tuple(kept),
        notes=tuple([it for it in group.notes if it.id not in noted]),
        sent=group.sent + 1,
        sent_at=now,
        highest_told=max(firing, default=-1),
        more=group.more if firing else 0,
    )


def _told_as(member: Member, sent: Member | None) -> Member:
    if sent is None:
        return member
    is_ended = sent.news.id == member.news.id + ENDED
    return replace(member, news=sent.news if is_ended else member.news, told=sent.stands)


def is_over(group: Group, now: UnixSeconds, settings: GroupSettings) -> bool:
    """Return whether nothing is left of a group to be told or to be waited for."""
    return not group.members and not group.notes and now >= due_at(group, settings)


def ranked(members: Iterable[Member]) -> Sequence[Member]:
    """Return members as they are listed: firing first, the worst first, then the oldest."""
    return sorted(members, key=lambda it: (not it.news.firing, -it.news.tier.rank, it.fired_at))
