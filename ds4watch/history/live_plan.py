"""Where the values of a wave go: for all its targets at once, worked out once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ds4watch.history.live_labels import merged_labels
from ds4watch.history.live_pool import Batch, IndexArray, Pool
from ds4watch.history.live_shelf import Shelf, Shelves
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import STALE_NAN, FloatArray, Labels, SeriesKey

_SPACING_TOLERANCE_SECONDS = 0.5
_KEPT_LAYOUTS = 8


class Place(NamedTuple):
    """Which series of a list go to one shelf: their places in the list, and their keys."""

    shelf: Shelf
    picked: IndexArray
    keys: tuple[SeriesKey, ...]


@dataclass(slots=True, eq=False)
class Source:
    """Series that get their samples together. `labels`: what is added to each of them.

    numbers: its number in each pool. rows: how many series it has there in all. placed: rows of
    each layout, as long as `moves` of the shelves is the same.
    """

    group: str
    labels: Labels = ()
    newest_at: UnixSeconds = -math.inf
    rows: int = 0
    numbers: dict[Shelf, int] = field(default_factory=dict)
    placed: dict[Hashable, tuple[int, dict[Shelf, IndexArray]]] = field(default_factory=dict)


class Part(NamedTuple):
    """What goes to one pool: columns `picked` of each source's values, then markers.

    there: the plan's sources that this pool knows, all of them if anything is picked.
    rows, owners: as in Batch; the rows that this layout has no value for come last.
    """

    pool: Pool
    step_seconds: float
    there: IndexArray
    sources: IndexArray
    picked: IndexArray
    rows: IndexArray
    owners: IndexArray

    def batch(self, at: FloatArray, values: FloatArray) -> Batch:
        """Return the cells of `values`, shape (sources, series), for this pool."""
        cells = values[:, self.picked].ravel()
        missing = len(self.rows) - len(cells)
        if missing:
            cells = np.concatenate([cells, np.full(missing, STALE_NAN)])
        batch = Batch(self.sources, at[self.there], self.rows, self.owners, cells)
        return _thinned(batch, self.pool, self.step_seconds) if self.step_seconds else batch


@dataclass(frozen=True, slots=True)
class Plan:
    """Parts for a list of sources; void once rows have moved or a source got more of them."""

    sources: list[Source]
    parts: tuple[Part, ...]
    moves: int
    rows: int

    def holds(self, sources: list[Source], moves: int) -> bool:
        """Say whether the plan can be used for these sources."""
        rows = sum(source.rows for source in sources)
        return self.moves == moves and self.rows == rows and self.sources == sources


def layout_of(shelved: Sequence[tuple[SeriesKey, Sequence[Shelf]]]) -> tuple[Place, ...]:
    """Return which places of a list of series go to which shelf."""
    picked: dict[Shelf, list[int]] = {}
    for place, (_, shelves) in enumerate(shelved):
        for shelf in shelves:
            picked.setdefault(shelf, []).append(place)
    return tuple(
        Place(shelf, np.array(places, dtype=np.intp), tuple(shelved[at][0] for at in places))
        for shelf, places in picked.items()
    )


def spaced(times: FloatArray, step_seconds: float) -> IndexArray:
    """Return the places of times that are a step apart; all of them if there is no step."""
    if not step_seconds:
        return np.arange(len(times))
    kept: list[int] = []
    last = -math.inf
    for place, at in enumerate(times.tolist()):
        if at - last >= step_seconds - _SPACING_TOLERANCE_SECONDS:
            kept.append(place)
            last = at
    return np.array(kept, dtype=np.intp)


def make_plan(
    shelves: Shelves,
    sources: list[Source],
    layout: Sequence[Place],
    key: Hashable,
    now: UnixSeconds,
) -> Plan:
    """Give every source its rows, and say where everything goes. `key` names the layout."""
    moves = -1
    while moves != shelves.moves:  # giving one source rows may move those of others
        moves = shelves.moves
        for source in sources:
            _settle(shelves, source, layout, key, now)
    used = dict.fromkeys([place.shelf for place in layout])
    for source in sources:
        used |= dict.fromkeys(source.numbers)
    parts = tuple(_part(shelves, shelf, sources, layout, key) for shelf in used)
    return Plan(sources, parts, moves, sum(source.rows for source in sources))


def _settle(
    shelves: Shelves, source: Source, layout: Sequence[Place], key: Hashable, now: UnixSeconds
) -> None:
    known = source.placed.get(key)
    if known is not None and known[0] == shelves.moves:
        return
    rows: dict[Shelf, IndexArray] = {}
    for shelf, _, keys in layout:
        pool = shelves.pool(shelf)
        if shelf not in source.numbers:
            source.numbers[shelf] = pool.add_source()
        labels = [merged_labels(it.name, it.labels, source.labels) for it in keys]
        rows[shelf] = shelves.rows(shelf, source.numbers[shelf], labels, now)
    if len(source.placed) >= _KEPT_LAYOUTS:
        source.placed.clear()
    source.placed[key] = (shelves.moves, rows)
    source.rows = sum(
        shelves.pool(shelf).row_count(number) for shelf, number in source.numbers.items()
    )


def _part(
    shelves: Shelves, shelf: Shelf, sources: list[Source], layout: Sequence[Place], key: Hashable
) -> Part:
    pool = shelves.pool(shelf)
    places = [place for place, source in enumerate(sources) if shelf in source.numbers]
    there = [sources[place] for place in places]
    numbers = np.array([source.numbers[shelf] for source in there], dtype=np.intp)
    nothing = np.empty(0, dtype=np.intp)
    picked = next((place.picked for place in layout if place.shelf == shelf), nothing)
    rows = [source.placed[key][1].get(shelf, nothing) for source in there]
    rest = [
        np.setdiff1d(pool.rows_of(number), own) if pool.row_count(number) > len(own) else nothing
        for number, own in zip(numbers.tolist(), rows, strict=True)
    ]
    owners = [np.repeat(np.arange(len(there)), [len(own) for own in many]) for many in (rows, rest)]
    return Part(
        pool=pool,
        step_seconds=shelf.step_seconds,
        there=np.array(places, dtype=np.intp),
        sources=numbers,
        picked=picked,
        rows=np.concatenate([*rows, *rest]) if there else nothing,
        owners=np.concatenate(owners),
    )


def _thinned(batch: Batch, pool: Pool, step_seconds: float) -> Batch:
    """Leave out the sources whose newest column is younger than a step."""
    spacing = step_seconds - _SPACING_TOLERANCE_SECONDS
    due = batch.at - pool.newest_at[batch.sources] >= spacing
    if due.all():
        return batch
    cells = due[batch.owners]
    places = np.cumsum(due) - 1
    return Batch(
        batch.sources[due],
        batch.at[due],
        batch.rows[cells],
        places[batch.owners[cells]],
        batch.values[cells],
    )
