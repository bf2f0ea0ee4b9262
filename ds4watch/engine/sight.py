"""Whether a worker's metrics can be read. That they cannot says nothing of its service. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import FLEET_GROUP, ScrapeResult, Target
from ds4watch.model.worker import WorkerPhase, WorkerView

HEAVY_PAGE_SECONDS = 0.5
"""A page that takes so long may be what keeps a worker from its requests."""
BLIND_AFTER_SECONDS = 5.0
"""A scrape or two may be missed without consequence."""


class Seeing(StrEnum):
    """What there is to be read."""

    MONITORED = "monitored"
    UNMONITORED = "unmonitored"
    NO_ENGINE = "no engine metrics"


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be read of a ready worker, since when, and why no more."""

    seeing: Seeing
    since: UnixSeconds
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"state": self.seeing.value, "since": self.since, "why": self.why}


@dataclass(slots=True)
class Sights:
    """What was read of each worker last."""

    _by_worker: dict[str, Sight] = field(default_factory=dict)
    _heavy: set[str] = field(default_factory=set)

    def note(
        self,
        results: Iterable[ScrapeResult],
        workers: Sequence[WorkerView],
        engines: Container[str],
        now: UnixSeconds,
    ) -> Mapping[str, Sight]:
        """Take in a wave. `engines`: the workers whose page has metrics of an engine.

        Who is not ready is left out, and begins anew; a scrape under way changes nothing.
        """
        ready = {worker.id for worker in workers if worker.phase is WorkerPhase.READY}
        for name in self._by_worker.keys() - ready:
            del self._by_worker[name]
        self._heavy &= ready
        for result in results:
            name = result.target.name
            if name in ready and result.target.group == FLEET_GROUP:
                self._note_weight(result)
                fresh = _sight(result, now, has_engine=name in engines)
                before = self._by_worker.get(name)
                if before is None or (before.seeing, before.why) != (fresh.seeing, fresh.why):
                    self._by_worker[name] = _continued(before, fresh)
        return dict(self._by_worker)

    def spare(self, targets: tuple[Target, ...], in_doubt: Container[str]) -> tuple[Target, ...]:
        """Return whom to scrape: not who is about to be judged and has slow or failing pages.

        Scrapes must never be what makes a worker look dead. Who shows quick pages is scraped on:
        they may prove that it moves.
        """
        spared = {name for name in self._heavy if name in in_doubt}
        return tuple(it for it in targets if it.name not in spared) if spared else targets

    def _note_weight(self, result: ScrapeResult) -> None:
        if result.failure is not None or result.took_seconds > HEAVY_PAGE_SECONDS:
            self._heavy.add(result.target.name)
        else:
            self._heavy.discard(result.target.name)


def went_blind(sights: Iterable[Sight], since: UnixSeconds, now: UnixSeconds) -> bool:
    """Return whether a worker that was seen at `since` is not seen any more.

    Calm that rests on what nobody sees is none.
    """
    return any(
        sight.seeing is not Seeing.MONITORED and since < sight.since <= now - BLIND_AFTER_SECONDS
        for sight in sights
    )


def _sight(result: ScrapeResult, now: UnixSeconds, *, has_engine: bool) -> Sight:
    if result.failure is not None:
        return Sight(Seeing.UNMONITORED, now, result.failure.message)
    if has_engine:
        return Sight(Seeing.MONITORED, now)
    return Sight(Seeing.NO_ENGINE, now, "its page has no metrics of an engine")


def _continued(before: Sight | None, fresh: Sight) -> Sight:
    """Return the new sight; blind for another reason is blind since the first."""
    blind = fresh.seeing is not Seeing.MONITORED
    if before is not None and blind and before.seeing is not Seeing.MONITORED:
        return Sight(fresh.seeing, before.since, fresh.why)
    return fresh
