"""Range evaluation with Prometheus 3 semantics: all steps of an expression at once.

What `evaluate` gives at each step, as one table: windows are index arithmetic, functions work on
(series, steps). Where the series of a step decide about others, steps go by who is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.promql.ast import (
    Aggregate,
    AtEdge,
    Binary,
    Call,
    Expr,
    InstantSelector,
    Negate,
    Number,
    RangeSelector,
    Subquery,
    Text,
    ValueType,
    When,
    value_type,
)
from ds4watch.promql.columns import IndexArray, LabelColumn
from ds4watch.promql.elementwise import ELEMENTWISE
from ds4watch.promql.evaluate import LOOKBACK_SECONDS
from ds4watch.promql.functions import SCALARS
from ds4watch.promql.grid import Grid, full, merged, nameless
from ds4watch.promql.over_time import KEEP_NAME, OVER_TIME
from ds4watch.promql.range_aggregate import aggregate_range
from ds4watch.promql.range_binary import binary_range
from ds4watch.promql.range_functions import (
    RangeValue,
    elementwise_range,
    whole_vectors_range,
    with_scalars,
)
from ds4watch.promql.range_steps import micro, steps_of
from ds4watch.promql.range_windows import newest, windowed
from ds4watch.promql.relabel import absent_labels
from ds4watch.promql.result import Matrix
from ds4watch.promql.storage import Matcher, RangeStorage, SeriesMatrix
from ds4watch.promql.subquery import samples_of, subquery_moments
from ds4watch.promql.vectors import Spans

MAX_POINTS = 20_000_000
_SORTS = frozenset({"sort", "sort_desc", "sort_by_label", "sort_by_label_desc"})


def evaluate_range(
    expr: Expr,
    storage: RangeStorage,
    start: UnixSeconds,
    end: UnixSeconds,
    step: float,
    *,
    max_points: int = MAX_POINTS,
    lookback_seconds: float = LOOKBACK_SECONDS,
) -> Matrix:
    """Evaluate `expr` at start, start + step, … up to end.

    Raises QueryError where Prometheus fails the query, and where a selector gives more than
    `max_points` series times steps.
    """
    steps = steps_of(start, end, step)
    if value_type(expr) not in (ValueType.SCALAR, ValueType.VECTOR):
        what = value_type(expr)
        raise QueryError(f"a range query needs a scalar or an instant vector, not a {what}")
    evaluator = _Evaluator(storage, start, end, step, max_points, lookback_seconds)
    with np.errstate(all="ignore"):
        value = evaluator.value(expr, steps)
    if isinstance(value, np.ndarray):
        value = full(LabelColumn(((),)), np.broadcast_to(value, (1, len(steps))))
    assert isinstance(value, Grid)
    return _sorted(value.present(), steps)


def _sorted(grid: Grid, steps: FloatArray) -> Matrix:
    sets = grid.labels.sets
    order = np.array(sorted(range(len(sets)), key=sets.__getitem__), dtype=np.intp)
    grid = grid.rows(order)
    values = np.where(grid.there, grid.values, np.nan)
    return Matrix(grid.labels, steps, values, grid.there)


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """One evaluation; `at` are always the steps for which a value is wanted."""

    storage: RangeStorage
    start: UnixSeconds
    end: UnixSeconds
    step: float
    max_points: int
    lookback_seconds: float

    def value(self, expr: Expr, at: FloatArray) -> RangeValue:
        """Return the value of `expr` at each of the steps."""
        return _EVALUATORS[type(expr)](self, expr, at)

    def number(self, expr: Number, at: FloatArray) -> RangeValue:
        """Return what is written."""
        return np.full(len(at), expr.value)

    def text(self, expr: Text, _at: FloatArray) -> RangeValue:
        """Return what is written."""
        return expr.value

    def instant(self, selector: InstantSelector, at: FloatArray) -> Grid:
        """Return the newest samples that no marker hides."""
        return self._newest(selector, at)[0]

    def aggregate(self, node: Aggregate, at: FloatArray) -> Grid:
        """Return the aggregation of a vector."""
        param = self.value(node.param, at) if node.param is not None else None
        if isinstance(param, Grid):
            raise QueryError(f"the parameter of {node.op} must be a scalar or a string")
        return aggregate_range(node, self._grid(node.expr, at), param).present()

    def binary(self, node: Binary, at: FloatArray) -> RangeValue:
        """Return what an operator makes of its sides."""
        lhs, rhs = self.value(node.lhs, at), self.value(node.rhs, at)
        result = binary_range(node, lhs, rhs)  # type: ignore[arg-type]  # the parser checked
        return result.present() if isinstance(result, Grid) else result

    def negate(self, node: Negate, at: FloatArray) -> RangeValue:
        """Return the negative."""
        value = self.value(node.expr, at)
        if isinstance(value, Grid):
            return nameless(Grid(value.labels, -value.values, value.there))
        assert isinstance(value, np.ndarray)
        return -value

    def call(self, node: Call, at: FloatArray) -> RangeValue:
        """Return what a function makes of its arguments."""
        name = node.function
        if name in OVER_TIME:
            return self._over_time(node, at)
        special = _SPECIALS.get(name)
        if special is not None:
            return special(self, node, at)
        args = [self.value(arg, at) for arg in node.args]
        if name in SCALARS:
            return _SCALARS[name](*args)
        if name in _SORTS:
            grid = args[0]  # the result of a range query is sorted by its labels
            assert isinstance(grid, Grid)
            return grid
        if name in ELEMENTWISE:
            return nameless(elementwise_range(name, args or [_alone(at)], len(at)))
        return merged(whole_vectors_range(name, args, len(at))).present()

    def time(self, _node: Call, at: FloatArray) -> FloatArray:
        """Return the steps."""
        return at

    def edge(self, node: Call, at: FloatArray) -> FloatArray:
        """Return something about the query itself."""
        told = {
            "start": self.start,
            "end": self.end,
            "step": self.step,
            "range": self.end - self.start,
            "pi": math.pi,
        }
        return np.full(len(at), told[node.function])

    def to_vector(self, node: Call, at: FloatArray) -> Grid:
        """Return numbers as a vector."""
        numbers = self.value(node.args[0], at)
        assert isinstance(numbers, np.ndarray)
        return _alone(numbers)

    def to_scalar(self, node: Call, at: FloatArray) -> FloatArray:
        """Return the only element of a vector as a number."""
        grid = self._grid(node.args[0], at)
        alone = np.count_nonzero(grid.there, axis=0) == 1
        if not len(grid.labels):
            return np.full(len(at), np.nan)
        rows = np.argmax(grid.there, axis=0)
        return np.where(alone, grid.values[rows, np.arange(len(at))], np.nan)

    def timestamp(self, node: Call, at: FloatArray) -> Grid:
        """Return when samples were taken; of anything but a selector, the step."""
        if isinstance(node.args[0], InstantSelector):
            return nameless(self._newest(node.args[0], at)[1])
        grid = self._grid(node.args[0], at)
        return nameless(Grid(grid.labels, np.broadcast_to(at, grid.there.shape), grid.there))

    def absent(self, node: Call, at: FloatArray) -> Grid:
        """Return 1 where there is nothing."""
        argument = node.args[0]
        if isinstance(argument, RangeSelector | Subquery):
            found = windowed("present_over_time", *self._samples(argument, at))
        else:
            found = self._grid(argument, at)
        nothing = ~np.asarray(found.there.any(axis=0, keepdims=True))
        labels = LabelColumn((absent_labels(argument),))
        return Grid(labels, np.ones(nothing.shape), nothing).present()

    def _grid(self, expr: Expr, at: FloatArray) -> Grid:
        value = self.value(expr, at)
        if not isinstance(value, Grid):
            raise QueryError(f"expected an instant vector, got a {value_type(expr)}")
        return value

    def _over_time(self, node: Call, at: FloatArray) -> Grid:
        place = next(n for n, arg in enumerate(node.args) if value_type(arg) is ValueType.MATRIX)
        scalars = [self.value(arg, at) for n, arg in enumerate(node.args) if n != place]
        matrix, spans = self._samples(node.args[place], at)

        def windows(steps: IndexArray, args: tuple[object, ...]) -> Grid:
            some = Spans(spans.start[steps], spans.end[steps], spans.at[steps])
            return windowed(node.function, matrix, some, args)

        grid = with_scalars(scalars, len(at), windows)
        return grid if node.function in KEEP_NAME else nameless(grid)

    def _moments(self, when: When, at: FloatArray) -> FloatArray:
        if when.at is None:
            base = at
        else:
            edges = {AtEdge.START: self.start, AtEdge.END: self.end}
            fixed = edges[when.at] if isinstance(when.at, AtEdge) else when.at
            base = np.full(len(at), fixed)
        return micro(base - when.offset_seconds) if when.offset_seconds else base

    def _newest(self, selector: InstantSelector, at: FloatArray) -> tuple[Grid, Grid]:
        moments = self._moments(selector.when, at)
        starts = micro(moments - self.lookback_seconds)
        return newest(self._columns(selector.matchers, starts, moments), moments, starts)

    def _samples(self, node: Expr, at: FloatArray) -> tuple[SeriesMatrix, Spans]:
        assert isinstance(node, RangeSelector | Subquery)
        end = self._moments(node.when, at)
        spans = Spans(micro(end - node.range_seconds), end, at)
        if isinstance(node, RangeSelector):
            return self._columns(node.matchers, spans.start, end), spans
        moments = subquery_moments(node, spans)
        if not len(moments):
            return SeriesMatrix(LabelColumn(()), ()), spans
        return samples_of(self._grid(node.expr, moments), moments), spans

    def _columns(
        self, matchers: Sequence[Matcher], starts: FloatArray, ends: FloatArray
    ) -> SeriesMatrix:
        found = self.storage.columns(matchers, float(starts.min()), float(ends.max()))
        points = len(found.labels) * len(starts)
        if points > self.max_points:
            raise QueryError(
                f"{len(found.labels)} series at {len(starts)} steps are {points} points, "
                f"{self.max_points} are allowed: select fewer series, or take a longer step"
            )
        return found


def _alone(numbers: FloatArray) -> Grid:
    """Return numbers as a vector of one element without labels."""
    return full(_NO_LABELS, numbers[np.newaxis])


_NO_LABELS = LabelColumn(((),))

_SCALARS: dict[str, Callable[..., FloatArray]] = {"min_of": np.minimum, "max_of": np.maximum}

_EVALUATORS: dict[type[Any], Callable[[_Evaluator, Any, FloatArray], RangeValue]] = {
    Number: _Evaluator.number,
    Text: _Evaluator.text,
    InstantSelector: _Evaluator.instant,
    Call: _Evaluator.call,
    Aggregate: _Evaluator.aggregate,
    Binary: _Evaluator.binary,
    Negate: _Evaluator.negate,
}

_SPECIALS: dict[str, Callable[[_Evaluator, Call, FloatArray], RangeValue]] = {
    "time": _Evaluator.time,
    "pi": _Evaluator.edge,
    "start": _Evaluator.edge,
    "end": _Evaluator.edge,
    "step": _Evaluator.edge,
    "range": _Evaluator.edge,
    "vector": _Evaluator.to_vector,
    "scalar": _Evaluator.to_scalar,
    "timestamp": _Evaluator.timestamp,
    "absent": _Evaluator.absent,
    "absent_over_time": _Evaluator.absent,
}
