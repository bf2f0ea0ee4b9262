"""Frames made fit to be handed on: in order of time, each bucket once, with `up` and its kin. Pure.

In the store they lie as they came: a clock may have been set back, a page's series may have changed
in the middle of a minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ds4watch.history.frames import Keep, Pick, RollupFrame, StoredFrame
from ds4watch.history.live_shelf import SCRAPE_SERIES
from ds4watch.model.series import STALE_NAN, FloatArray, Schema, SeriesKey

T = TypeVar("T")

_SCRAPE_SCHEMA = Schema(-1, tuple(SeriesKey(name) for name in SCRAPE_SERIES))
_PLACED = frozenset({"target", "schema", "columns", "starts_at"})
_TABLES = tuple(field.name for field in fields(RollupFrame) if field.name not in _PLACED)


def page_series(keep: Keep) -> Keep:
    """Return a choice without what a page itself calls `up` and the like: ours have the name."""
    return lambda key: key.name not in SCRAPE_SERIES and keep(key)


def scrape_series(frame: StoredFrame, keep: Keep) -> StoredFrame:
    """Return `up` and its kin, of each scrape, failed ones too, as a frame of their own."""
    failed = frame.failures
    samples = np.where(frame.page_samples < 0, len(frame.schema.series), frame.page_samples)
    good = np.column_stack([np.ones(len(frame.times)), frame.took_seconds, samples])
    bad = np.array([(0.0, one.took_seconds, 0.0) for one in failed]).reshape(-1, 3)
    times = np.concatenate([frame.times, [one.at for one in failed]])
    order = np.argsort(times, kind="stable")
    places = Pick(keep)(_SCRAPE_SCHEMA)
    assert places is not None
    nothing = np.zeros(len(times))
    return StoredFrame(
        target=frame.target,
        schema=_SCRAPE_SCHEMA,
        columns=places,
        times=times[order],
        values=np.concatenate([good, bad])[order][:, places],
        took_seconds=nothing,
        page_samples=nothing.astype(np.int64),
        failures=(),
    )


def in_order(frames: Iterable[StoredFrame]) -> Iterator[StoredFrame]:
    """Yield the same samples so that the times of targets of the same labels strictly rise.

    Of two scrapes in one millisecond, which only a clock that was set back makes, the first counts.
    """
    held = [frame for frame in frames if len(frame.times)]
    for group in _groups(held, lambda frame: frame.target.labels):
        yield from group if _rises(group) else _sorted(group)


def joined(frames: Sequence[RollupFrame], resolution_seconds: int) -> Iterator[RollupFrame]:
    """Yield the same buckets, each series' bucket in one frame only."""
    for group in _groups(frames, lambda frame: frame.target.labels):
        starts, count = np.unique(
            np.concatenate([frame.starts_at for frame in group]), return_counts=True
        )
        shared = starts[count > 1]
        if not len(shared):
            yield from group
            continue
        for frame in group:
            yield _rows(frame, ~np.isin(frame.starts_at, shared))
        yield _merged(group, shared, resolution_seconds)


def _groups(items: Iterable[T], of: Callable[[T], Hashable]) -> Iterable[list[T]]:
    found: dict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        found[of(item)].append(item)
    return found.values()


def _rises(frames: Sequence[StoredFrame]) -> bool:
    apart = all(one.times[-1] < other.times[0] for one, other in pairwise(frames))
    return apart and all((np.diff(frame.times) > 0).all() for frame in frames)


def _sorted(frames: Sequence[StoredFrame]) -> Iterator[StoredFrame]:
    times = np.concatenate([frame.times for frame in frames])
    whose = np.repeat(np.arange(len(frames)), [len(frame.times) for frame in frames])
    place = np.concatenate([np.arange(len(frame.times)) for frame in frames])
    order = np.argsort(times, kind="stable")
    order = order[np.diff(times[order], prepend=-np.inf) > 0]
    for run in np.split(order, np.flatnonzero(np.diff(whose[order])) + 1):
        frame, rows = frames[whose[run[0]]], place[run]
        yield replace(
            frame,
            times=frame.times[rows],
            values=frame.values[rows],
            took_seconds=frame.took_seconds[rows],
            page_samples=frame.page_samples[rows],
        )


def _rows(frame: RollupFrame, wanted: NDArray[np.bool_]) -> RollupFrame:
    tables = {name: getattr(frame, name)[wanted] for name in _TABLES}
    return replace(frame, starts_at=frame.starts_at[wanted], **tables)


def _merged(
    frames: Sequence[RollupFrame], starts: FloatArray, resolution_seconds: int
) -> RollupFrame:
    """Return the buckets that stand in several frames, of the series of all of them."""
    keys = [[frame.schema.series[column] for column in frame.columns.tolist()] for frame in frames]
    places = {key: place for place, key in enumerate(dict.fromkeys(chain.from_iterable(keys)))}
    columns = [np.array([places[key] for key in mine], dtype=np.intp) for mine in keys]
    shape = len(starts), len(places)
    whole = RollupFrame(
        target=frames[0].target,
        schema=Schema(-1, tuple(places)),
        columns=np.arange(len(places)),
        starts_at=starts,
        minimum=np.full(shape, np.inf),
        maximum=np.full(shape, -np.inf),
        last=np.full(shape, STALE_NAN),
        total=np.zeros(shape),
        count=np.zeros(shape),
        increase=np.zeros(shape),
    )
    for line, start in enumerate(starts.tolist()):
        for which in _by_age(frames, start, resolution_seconds):
            _add(whole, line, frames[which], columns[which], start)
    return whole


def _by_age(frames: Sequence[RollupFrame], start: float, step: int) -> list[int]:
    """Return which frames have a bucket; first what was there before, last what went on."""
    held = [set(frame.starts_at.tolist()) for frame in frames]
    mine = [which for which, starts in enumerate(held) if start in starts]
    return sorted(mine, key=lambda it: (start - step not in held[it], start + step in held[it]))


def _add(
    whole: RollupFrame, line: int, frame: RollupFrame, columns: NDArray[np.intp], start: float
) -> None:
    row = int(np.flatnonzero(frame.starts_at == start)[0])
    has = frame.count[row] > 0
    into = columns[has]
    least, most = frame.minimum[row, has], frame.maximum[row, has]
    whole.minimum[line, into] = np.minimum(whole.minimum[line, into], least)
    whole.maximum[line, into] = np.maximum(whole.maximum[line, into], most)
    whole.last[line, into] = frame.last[row, has]
    whole.total[line, into] += frame.total[row, has]
    whole.count[line, into] += frame.count[row, has]
    whole.increase[line, into] += frame.increase[row, has]
