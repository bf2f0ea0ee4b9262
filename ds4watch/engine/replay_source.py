"""Where a replay's history comes from: our own store, or what a Prometheus has."""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from ds4watch.config.store_url import without_password
from ds4watch.engine.archive import Archive
from ds4watch.engine.replay import Progress
from ds4watch.engine.replay_order import order_of
from ds4watch.history.openmetrics import Read, matrix_of, read_text_file
from ds4watch.history.place import Place, Server
from ds4watch.history.range_reader import ReadLimits, StoredRanges
from ds4watch.history.reader import reading
from ds4watch.model.alert import RuleGroup
from ds4watch.model.errors import ConfigError, Located, ScrapeError
from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.ast import InstantSelector
from ds4watch.promql.held_ranges import HeldRanges
from ds4watch.promql.render import render
from ds4watch.promql.selection import longest_of, windows_read
from ds4watch.promql.storage import RangeStorage, SeriesMatrix

_LEAST_REACH_SECONDS = 900.0
_PAD_SECONDS = 420.0
_LIMITS = ReadLimits(series=500_000, samples=500_000_000, seconds=600.0)


@dataclass(frozen=True, slots=True)
class Past:
    """A history that can be replayed. told: what it is, in a word. From first to last sample."""

    told: str
    storage: RangeStorage
    first_at: UnixSeconds
    last_at: UnixSeconds


@dataclass(frozen=True, slots=True)
class Wanted:
    """What rules look at. names: of metrics, None if some selector names none.

    texts: the same as selectors. reach_seconds: how far before an instant they look.
    """

    names: frozenset[str] | None
    texts: tuple[str, ...]
    reach_seconds: float


class _Prometheus(Protocol):
    """`ds4watch.scrape.prometheus_past`, imported only where a Prometheus is asked."""

    def fetch_past(
        self,
        url: str,
        selectors: Sequence[str],
        start: UnixSeconds,
        end: UnixSeconds,
        progress: Progress,
    ) -> list[Read]:
        """Return all series that selectors choose in (start, end]."""
        ...


def wanted_by(groups: Sequence[RuleGroup]) -> Wanted:
    """Return what rules look at. Raises QueryError if an expression is malformed."""
    order = order_of(groups)
    read = [windows_read(expr) for rule in order.rules for expr in rule.exprs]
    reach = longest_of(one for one in read if one is not None)
    names = frozenset({*reach, "up"} - order.recorded)
    finite = [it for it in reach.values() if math.isfinite(it)]
    unnamed = sorted(
        {
            render(InstantSelector(one.matchers))
            for rule in order.rules
            for one in rule.selectors
            if windows_read(InstantSelector(one.matchers)) is None
        }
    )
    return Wanted(
        names=None if unnamed else names,
        texts=(*sorted(names), *unnamed),
        reach_seconds=max([_LEAST_REACH_SECONDS, *finite]) + _PAD_SECONDS,
    )


def place_from(text: str) -> Place:
    """Return the database that a person named: a file, or the address of a server."""
    return Server(text) if text.startswith(("postgresql:", "postgres:")) else Path(text)


@contextmanager
def stored(place: Place) -> Iterator[Past]:
    """Open a store to read from; a daemon may be at work on it. Raises ConfigError."""
    with reading(place) as reader:
        stats = asyncio.run(Archive(reader).stats())
    first = [it.first_at for it in stats if it.first_at is not None]
    last = [it.last_at for it in stats if it.last_at is not None]
    if not first or not last:
        raise ConfigError(Located("nothing is stored yet", str(place), mend="run `ds4watch up`"))
    with closing(StoredRanges(place, _LIMITS)) as ranges:
        yield Past(str(place), ranges, min(first), max(last))


def imported(path: Path, wanted: Wanted, progress: Progress) -> Past:
    """Read a text file of samples: those that are wanted. Raises ConfigError."""
    return _held(path.name, read_text_file(path, wanted.names, progress))


def fetched(
    url: str, wanted: Wanted, start: UnixSeconds, end: UnixSeconds, progress: Progress
) -> Past:
    """Read from a running Prometheus what rules look at from `start` to `end`.

    Raises ScrapeError if it cannot be asked, and ConfigError if it has nothing of it.
    """
    module = cast(_Prometheus, importlib.import_module("ds4watch.scrape.prometheus_past"))
    told = without_password(url)
    try:
        read = module.fetch_past(url, wanted.texts, start - wanted.reach_seconds, end, progress)
    except ScrapeError as error:
        raise ScrapeError(f"{told}: {error}", reason=error.reason) from error
    return _held(told, matrix_of(read))


def _held(told: str, found: SeriesMatrix) -> Past:
    times = [block.times for block in found.blocks if len(block.times)]
    if not times:
        raise ConfigError(Located("holds no sample of what the rules select", told))
    first, last = min(it[0] for it in times), max(it[-1] for it in times)
    return Past(told, HeldRanges(found), float(first), float(last))
