"""Which selectors of an expression see anything, step by step, and since when they look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ds4watch.model.series import FloatArray
from ds4watch.promql.ast import (
    AtEdge,
    Expr,
    InstantSelector,
    RangeSelector,
    Selector,
    Subquery,
    When,
    children_of,
)
from ds4watch.promql.columns import BoolArray
from ds4watch.promql.evaluate import LOOKBACK_SECONDS
from ds4watch.promql.range_steps import micro
from ds4watch.promql.range_windows import newest, windowed
from ds4watch.promql.storage import RangeStorage
from ds4watch.promql.subquery import subquery_moments
from ds4watch.promql.vectors import Spans


@dataclass(frozen=True, slots=True)
class Sight:
    """One selector at k steps.

    asked: it is evaluated at all (a subquery may have no step). live: it finds a sample.
    start: where its window begins; in a subquery that of the last step.
    """

    selector: Selector
    asked: BoolArray
    live: BoolArray
    start: FloatArray


def sights(expr: Expr, storage: RangeStorage, at: FloatArray) -> tuple[Sight, ...]:
    """Return what each selector in `expr` sees at the instants `at`, each a query of its own."""
    return tuple(_walk(expr, storage, at))


def no_data(found: tuple[Sight, ...], steps: int) -> BoolArray:
    """Return where there are selectors, and none of them has a live sample."""
    asked = np.zeros(steps, dtype=np.bool_)
    live = np.zeros(steps, dtype=np.bool_)
    for one in found:
        asked |= one.asked
        live |= one.live
    return asked & ~live


def _walk(expr: Expr, storage: RangeStorage, at: FloatArray) -> Iterator[Sight]:
    if isinstance(expr, InstantSelector):
        end = _moments(expr.when, at)
        start = micro(end - LOOKBACK_SECONDS)
        if len(at):
            found = storage.columns(expr.matchers, float(start.min()), float(end.max()))
            yield _seen(expr, newest(found, end, start)[0].there, start)
    elif isinstance(expr, RangeSelector):
        end = _moments(expr.when, at)
        start = micro(end - expr.range_seconds)
        if len(at):
            found = storage.columns(expr.matchers, float(start.min()), float(end.max()))
            grid = windowed("present_over_time", found, Spans(start, end, at))
            yield _seen(expr, grid.there, start)
    elif isinstance(expr, Subquery):
        yield from _of_subquery(expr, storage, at)
    else:
        for child in children_of(expr):
            yield from _walk(child, storage, at)


def _of_subquery(node: Subquery, storage: RangeStorage, at: FloatArray) -> Iterator[Sight]:
    end = _moments(node.when, at)
    spans = Spans(micro(end - node.range_seconds), end, at)
    moments = subquery_moments(node, spans)
    low = np.searchsorted(moments, spans.start, side="right")
    high = np.searchsorted(moments, spans.end, side="right")
    asked = high > low
    last = np.maximum(high - 1, 0)
    for inner in _walk(node.expr, storage, moments):
        until = np.concatenate([[0], np.cumsum(inner.live)])
        start = np.where(asked, inner.start[last], np.inf)
        yield Sight(inner.selector, asked, until[high] > until[low], start)


def _seen(selector: Selector, there: BoolArray, start: FloatArray) -> Sight:
    live: BoolArray = np.any(there, axis=0)
    return Sight(selector, np.ones(len(start), dtype=np.bool_), live, start)


def _moments(when: When, at: FloatArray) -> FloatArray:
    # Each step is a query of its own, which starts and ends there.
    own = when.at is None or isinstance(when.at, AtEdge)
    base = at if own else np.full(len(at), when.at)
    return micro(base - when.offset_seconds) if when.offset_seconds else base
