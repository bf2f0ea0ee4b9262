"""How to read all scrapes of one schema at once: columns in, columns out, by arrays alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import STALE_NAN, FloatArray, Labels, SeriesKey

IntArray: TypeAlias = NDArray[np.intp]

NOT_ON_PAGE = -1
"""Index of the reading that is always absent."""

_PERCENT_OVER = 1.05
"""A share may be a little over 1 by rounding; what is more is in another unit, and no reading."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Columns to take, the weight of each, and where each reading's run of columns starts."""

    columns: IntArray
    starts: IntArray
    weights: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of the readings is believed.

    floors, limits: under or over them is no reading. tops: lowered to it. offsets: added before.
    guarded: pairs (reading, another): absent unless the other is over zero.
    vetoed: pairs (reading, another): absent if the other is over zero.
    """

    floors: FloatArray
    limits: FloatArray
    tops: FloatArray | None
    offsets: FloatArray | None
    guarded: tuple[IntArray, IntArray]
    vetoed: tuple[IntArray, IntArray]


@dataclass(frozen=True, slots=True)
class Adapters:
    """Columns whose values are instants, and for each what its labels say: (columns, counts)."""

    columns: IntArray
    counts: FloatArray


@dataclass(frozen=True, slots=True)
class Shown:
    """A column that is one of our signals, written by us or by the page itself."""

    name: str
    labels: Labels
    column: int


@dataclass(frozen=True, slots=True)
class PagePlan:
    """How to read scrapes of one schema.

    own: the series that stand behind the page's, always the same. In this order: readings; ratios
        over the window (`derived`); what is known of each worker (`has_missing`, `has_stale`);
        adapters; constants.
    whole: what was read of all engines together, which says nothing while one is missing.
    counters, sources: readings behind the window's ratios, and which names they were found under.
    loads: running, waiting, KV usage. progress: what rises while an engine does something.
    engines: values of the engine label, where they tell engines apart.
    local: the labels of the series depend on the target.
    """

    own: tuple[SeriesKey, ...]
    shown: tuple[Shown, ...]
    page_columns: int
    sums: Gather
    maxima: Gather
    bounds: Bounds
    readings: IntArray
    whole: IntArray
    derived: IntArray
    has_missing: bool
    has_stale: bool
    adapters: Adapters | None
    constants: FloatArray
    counters: IntArray
    sources: IntArray
    loads: IntArray
    progress: IntArray
    engine: str
    model: str
    engines: tuple[str, ...]
    local: bool


def read(plan: PagePlan, pages: FloatArray) -> FloatArray:
    """Return the readings of pages (one a row), believed ones only; the last column is absent."""
    count = len(plan.bounds.limits)
    found = np.empty((len(pages), count + 1))
    found[:, NOT_ON_PAGE] = STALE_NAN
    summed = len(plan.sums.starts)
    with np.errstate(invalid="ignore", over="ignore"):
        if summed:
            _reduce(plan.sums, np.add, pages, found[:, :summed])
        if count > summed:
            _reduce(plan.maxima, np.maximum, pages, found[:, summed:count])
        _believe(plan.bounds, found[:, :count])
    return found


def write(
    plan: PagePlan,
    rows: FloatArray,
    found: FloatArray,
    ratios: FloatArray,
    states: Sequence[FloatArray],
) -> None:
    """Write the own series of `rows`, whose first columns are the pages.

    found: as `read` gave them. ratios: all of the window. states: engines missing, gauges stale.
    """
    begin = plan.page_columns
    own = rows[:, begin:]
    end = len(plan.readings)
    own[:, :end] = found.take(plan.readings, axis=1)
    if len(plan.derived):
        own[:, end : end + len(plan.derived)] = ratios.take(plan.derived, axis=1)
        end += len(plan.derived)
    for present, state in zip((plan.has_missing, plan.has_stale), states, strict=True):
        if present:
            own[:, end] = state
            end += 1
    if plan.adapters is not None:
        own[:, end : end + 2] = _newest(plan.adapters, rows)
        end += 2
    own[:, end:] = plan.constants


def _reduce(gather: Gather, combine: np.ufunc, pages: FloatArray, found: FloatArray) -> None:
    taken = pages.take(gather.columns, axis=1)
    if gather.weights is not None:
        taken *= gather.weights
    if len(gather.starts) == len(gather.columns):
        found[:] = taken
    else:
        combine.reduceat(taken, gather.starts, axis=1, out=found)


def _believe(bounds: Bounds, found: FloatArray) -> None:
    """Make absent what is no reading: NaN, infinities, less than nothing, too much."""
    if bounds.offsets is not None:
        found += bounds.offsets
    believed = (found >= bounds.floors) & (found <= bounds.limits)
    np.copyto(found, STALE_NAN, where=~believed)
    if bounds.tops is not None:
        np.minimum(found, bounds.tops, out=found)
    for (theirs, others), wanted in ((bounds.guarded, True), (bounds.vetoed, False)):
        if len(theirs):
            kept = found[:, theirs]
            found[:, theirs] = np.where((found[:, others] > 0) == wanted, kept, STALE_NAN)


def _newest(adapters: Adapters, rows: FloatArray) -> FloatArray:
    """Return what the newest of the instants stands for; old ones stay on the page for ever."""
    instants = np.nan_to_num(rows.take(adapters.columns, axis=1), nan=-1.0)
    newest: FloatArray = adapters.counts[instants.argmax(axis=1)]
    return newest


def limits_of(upper: Sequence[float]) -> tuple[FloatArray, FloatArray | None]:
    """Return, for upper bounds, the limits of belief and what to lower to."""
    bounds = np.array(upper, dtype=np.float64)
    shares = bounds == 1.0
    limits = np.where(shares, _PERCENT_OVER, np.minimum(bounds, np.finfo(np.float64).max))
    return limits, np.where(shares, 1.0, np.inf) if shares.any() else None
