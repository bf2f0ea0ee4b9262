"""Hours of workers: of the ledger, and the newest two of them for what is told live."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ds4watch.cost.attribution import CostPart
from ds4watch.cost.hours import HOUR_SECONDS, hour_of
from ds4watch.cost.parts import Parts, busy_of, parts_of, summed
from ds4watch.cost.split import split
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.work import BANDS, Place, Work

_NO_WORK = Work()
Where = tuple[UnixSeconds, str, str]
"""Hour, worker, profile."""


@dataclass(slots=True)
class WorkerHour:
    """What a worker cost in an hour, and what requests took of it by band."""

    spent: Counter[CostPart] = field(default_factory=Counter)
    bands: dict[str, Work] = field(default_factory=dict)

    def add(self, band: str, work: Work) -> None:
        """Add what requests of a band took."""
        self.bands[band] = self.bands.get(band, _NO_WORK).plus(work)

    @property
    def work(self) -> Work:
        """Return what requests took of it."""
        return summed(self.bands.values())

    def parts(self) -> Parts:
        """Return what it cost in parts."""
        return parts_of(self.spent, self.work)

    def by_band(self) -> Mapping[str, Nanos]:
        """Return its busy money by the length of prompts; empty where no tokens are known."""
        busy = busy_of(self.spent)
        return split(busy, {band: it.usage.work for band, it in self.bands.items()})


def worker_hours(
    money: Iterable[tuple[Where, CostPart, Nanos]],
    works: Iterable[tuple[UnixSeconds, Place, Work]],
) -> dict[Where, WorkerHour]:
    """Return hours with their money and what requests took of them.

    Work of a profile that cost nothing in the hour, or is not known, counts for all of the worker.
    """
    hours: dict[Where, WorkerHour] = {}
    by_worker: dict[tuple[UnixSeconds, str], list[WorkerHour]] = {}
    for where, part, nanos in money:
        if where not in hours:
            hours[where] = WorkerHour()
            by_worker.setdefault(where[:2], []).append(hours[where])
        hours[where].spent[part] += nanos
    for hour_at, place, work in works:
        own = hours.get((hour_at, place.worker, place.profile))
        for hour in [own] if own else by_worker.get((hour_at, place.worker), ()):
            hour.add(place.band, work)
    return hours


class RecentHours:
    """Two hours, by hour and worker; the ledger is what counts, this is its newest part."""

    def __init__(self) -> None:
        self._hours: dict[int, dict[str, WorkerHour]] = {}

    def add_money(self, hour_at: int, worker: str, part: CostPart, nanos: Nanos) -> None:
        """Book money."""
        self._of(hour_at, worker).spent[part] += nanos

    def add_work(self, ended_at: UnixSeconds, place: Place, work: Work) -> None:
        """Book what a request took; what ended too long ago is not looked at."""
        hour_at = hour_of(ended_at)
        if not self._hours or hour_at >= max(self._hours) - HOUR_SECONDS:
            self._of(hour_at, place.worker).add(place.band, work)

    def workers(self, hour_at: int) -> Mapping[str, WorkerHour]:
        """Return the workers of an hour."""
        return self._hours.get(hour_at, {})

    def lately(self, now: UnixSeconds) -> Iterable[tuple[str, WorkerHour]]:
        """Return the workers of the running hour and of the one before."""
        hour = hour_of(now)
        return [
            item
            for hour_at in (hour - HOUR_SECONDS, hour)
            for item in self.workers(hour_at).items()
        ]

    def by_band(self, hour_at: int) -> Mapping[str, tuple[Nanos, Work]]:
        """Return money and work of all workers by the length of prompts, shortest first."""
        nanos: Counter[str] = Counter()
        works: dict[str, Work] = {}
        for worker in self.workers(hour_at).values():
            nanos.update(worker.by_band())
            for band, work in worker.bands.items():
                works[band] = works.get(band, _NO_WORK).plus(work)
        return {band: (nanos[band], works[band]) for band in BANDS if band in works}

    def _of(self, hour_at: int, worker: str) -> WorkerHour:
        if hour_at not in self._hours:
            newest = max([hour_at, *self._hours])
            kept = {at: it for at, it in self._hours.items() if at >= newest - HOUR_SECONDS}
            self._hours = {**kept, hour_at: {}}
        return self._hours[hour_at].setdefault(worker, WorkerHour())
