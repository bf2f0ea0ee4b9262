"""What of a group is to be told now: less what is silenced, and what ended without a word. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ds4watch.alerting.grouping import ENDED, Group, Member, Told
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels

GONE = "ended without a word: silenced, or no longer watched"


def without_silenced(group: Group, is_silenced: Callable[[Labels], bool]) -> Group:
    """Return a group less all whom a silence covers: of what is left something may be to tell."""
    return _with_those(group, [it for it in group.members if not is_silenced(it.news.labels)])


def silenced_apart(group: Group, is_silenced: Callable[[Labels], bool]) -> Group:
    """Return a group as it is told: whom a silence covers is neither named nor called over.

    Those who were told to fire are counted as silenced; what is news of them is so still after it.
    """
    apart = [it for it in group.members if is_silenced(it.news.labels)]
    if not apart:
        return group
    kept = without_silenced(group, is_silenced)
    told = sum(1 for it in apart if it.told is Told.FIRING)
    return replace(kept, silenced=told)


def _with_those(group: Group, kept: list[Member]) -> Group:
    return group if len(kept) == len(group.members) else replace(group, members=tuple(kept))


def without_gone(group: Group, firing: Collection[str], now: UnixSeconds) -> Group:
    """Return a group in which what no rule speaks of any more is over.

    An alert ends without a word if its rule is taken away, or under a silence; it must not be
    repeated for ever.
    """
    members = tuple([_ended(it, now) if _is_gone(it, firing) else it for it in group.members])
    return group if members == group.members else replace(group, members=members)


def _is_gone(member: Member, firing: Collection[str]) -> bool:
    is_told = member.news.firing and member.told is Told.FIRING
    return is_told and member.news.fingerprint not in firing


def _ended(member: Member, now: UnixSeconds) -> Member:
    news = replace(member.news, id=member.news.id + ENDED, firing=False, at=now, reason=GONE)
    return replace(member, news=news)
