"""Who is scraped: the fleet's workers and what discovery found. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ds4watch.model.scrape import Target
from ds4watch.model.series import labels_of
from ds4watch.model.worker import WorkerPhase, WorkerView

_SCRAPED = (WorkerPhase.WARMING, WorkerPhase.READY, WorkerPhase.ASLEEP, WorkerPhase.DRAINING)
_STOPPED = (WorkerPhase.STOPPING, WorkerPhase.ABSENT)


class Member(NamedTuple):
    """What of a worker's state decides how it is scraped."""

    id: str
    url: str
    profile: str
    is_scraped: bool
    is_stopped: bool = False
    """On purpose, and it does not serve any more."""
    api_key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """All that is scraped. While nothing changes it stays the same object, `targets` too."""

    members: tuple[Member, ...] = ()
    discovered: tuple[Target, ...] = ()
    targets: tuple[Target, ...] = ()

    def names(self) -> set[str]:
        """Return what is known by name: targets, and workers that do not serve at the moment."""
        return {it.name for it in self.targets} | {member.id for member in self.members}


class Departures(NamedTuple):
    """Who is not scraped any more. `ended` on purpose; `silent`: worth a failed scrape."""

    ended: tuple[str, ...]
    silent: tuple[Target, ...]


def registry(
    last: Registry,
    workers: Sequence[WorkerView],
    discovered: tuple[Target, ...],
    stopped: Container[str] = (),
) -> Registry:
    """Return the fleet's targets, then the discovered ones; `last` itself if it still holds.

    stopped: the workers that somebody wishes to be stopped.
    """
    members = tuple(_member(it, is_wished=it.id in stopped) for it in workers)
    if members == last.members and discovered is last.discovered:
        return last
    known = {target.name: target for target in last.targets}
    own = (_target(member) for member in members if member.is_scraped)
    targets = (*(_same(known.get(it.name), it) for it in own), *discovered)
    return Registry(members, discovered, last.targets if targets == last.targets else targets)


def departures(before: Registry, after: Registry) -> Departures:
    """Compare two registries.

    A worker of the fleet that does not serve is silent: what it last said is not believed any
    longer, and alerts on it are held. Who was stopped on purpose, or is in neither any more, has
    ended too: nothing is to be awaited of it.
    """
    now = {target.name for target in after.targets}
    fleet = {member.id for member in after.members}
    stopped = _stopped(after) - _stopped(before)
    return Departures(
        ended=tuple(sorted((before.names() - now - fleet) | stopped)),
        silent=tuple(it for it in before.targets if it.name in fleet and it.name not in now),
    )


def _stopped(of: Registry) -> set[str]:
    return {member.id for member in of.members if member.is_stopped}


def is_discovered(name: str) -> bool:
    """Return whether a target is no worker of the fleet: it is called `job/instance`."""
    return "/" in name


def _same(old: Target | None, new: Target) -> Target:
    return old if old is not None and old == new else new


def _member(worker: WorkerView, *, is_wished: bool) -> Member:
    return Member(
        worker.id,
        worker.url,
        worker.profile,
        is_scraped=bool(worker.url) and worker.phase in _SCRAPED,
        is_stopped=is_wished and worker.phase in _STOPPED,
        api_key_file=worker.api_key_file,
    )


def _target(member: Member) -> Target:
    return Target(
        name=member.id,
        url=f"{member.url}/metrics",
        labels=labels_of(
            {
                "job": "vllm",
                "instance": member.url.partition("://")[2],
                "worker": member.id,
                "profile": member.profile,
            }
        ),
        api_key_file=member.api_key_file,
    )
