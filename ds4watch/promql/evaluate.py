"""Instant evaluation with Prometheus 3 semantics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.aggregate import aggregate
from ds4watch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    InstantSelector,
    Negate,
    Number,
    RangeSelector,
    Selector,
    Subquery,
    Text,
    ValueType,
    When,
    value_type,
)
from ds4watch.promql.binary import binary
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.elementwise import ELEMENTWISE, elementwise
from ds4watch.promql.functions import SCALARS, WHOLE_VECTOR
from ds4watch.promql.over_time import KEEP_NAME, OVER_TIME, over_time
from ds4watch.promql.rates import OF_ENDS
from ds4watch.promql.relabel import absent_labels
from ds4watch.promql.result import QueryResult
from ds4watch.promql.storage import Ends, Latest, Storage, Windows
from ds4watch.promql.subquery import MAX_SUBQUERY_STEPS, SUBQUERY_STEP_SECONDS, windows_of
from ds4watch.promql.vectors import (
    EMPTY,
    RangeVector,
    Span,
    Vector,
    drop_names,
    one,
    unique,
)

LOOKBACK_SECONDS = 300.0

Value: TypeAlias = float | str | Vector | RangeVector


def evaluate(
    expr: Expr,
    storage: Storage,
    at: UnixSeconds,
    *,
    lookback_seconds: float = LOOKBACK_SECONDS,
) -> QueryResult:
    """Evaluate `expr` at one instant. Raises QueryError where Prometheus fails the query."""
    evaluator = _Evaluator(storage, at, lookback_seconds)
    with np.errstate(all="ignore"):
        value = evaluator.value(expr, at)
    missing = evaluator.missing
    incomplete, no_data = bool(missing), evaluator.selected and not evaluator.live
    if isinstance(value, Vector):
        return QueryResult(
            ValueType.VECTOR,
            vector=value,
            incomplete=incomplete,
            no_data=no_data,
            missing=missing,
        )
    result = QueryResult(ValueType.SCALAR, incomplete=incomplete, no_data=no_data, missing=missing)
    if isinstance(value, RangeVector):
        assert isinstance(value.samples, Windows)
        return replace(result, kind=ValueType.MATRIX, windows=value.samples)
    if isinstance(value, str):
        return replace(result, kind=ValueType.STRING, text=value)
    return replace(result, scalar=value)


def _micro(instant: float) -> float:
    """Rid a computed instant of float noise, lest a sample on a window's edge change sides."""
    return round(instant, 6)


@dataclass(slots=True)
class _Evaluator:
    """One evaluation: the storage, and what has been noticed on the way."""

    storage: Storage
    started_at: UnixSeconds
    lookback_seconds: float
    missing: dict[Selector, LabelColumn] = field(default_factory=dict, init=False)
    live: bool = field(default=False, init=False)
    selected: bool = field(default=False, init=False)

    def value(self, expr: Expr, at: UnixSeconds) -> Value:
        """Return the value of `expr` at `at`."""
        return _EVALUATORS[type(expr)](self, expr, at)

    def constant(self, expr: Number | Text, _at: UnixSeconds) -> Value:
        """Return what is written."""
        return expr.value

    def instant(self, selector: InstantSelector, at: UnixSeconds) -> Vector:
        """Return the newest samples that no marker hides."""
        found = self._latest(selector, at)
        return Vector(found.labels, found.values)

    def range(self, selector: RangeSelector, at: UnixSeconds) -> RangeVector:
        """Return all samples in the window."""
        span = self._span(selector, at)
        windows = self.storage.windows(selector.matchers, span.start, span.end)
        self._notice(selector, windows)
        return RangeVector(windows, span)

    def subquery(self, node: Subquery, at: UnixSeconds) -> RangeVector:
        """Evaluate at multiples of the step in (end - range, end], whatever `end` is."""
        span = self._span(node, at)
        step = node.step_seconds or SUBQUERY_STEP_SECONDS
        first = math.floor(_micro(span.start / step)) + 1
        last = math.floor(_micro(span.end / step))
        if last - first >= MAX_SUBQUERY_STEPS:
            raise QueryError(f"a subquery of over {MAX_SUBQUERY_STEPS} steps")
        moments = [_micro(number * step) for number in range(first, last + 1)]
        vectors = [self._vector(node.expr, moment) for moment in moments]
        return RangeVector(windows_of(moments, vectors), span)

    def aggregate(self, node: Aggregate, at: UnixSeconds) -> Vector:
        """Return the aggregation of a vector."""
        param = self.value(node.param, at) if node.param is not None else None
        if param is not None and not isinstance(param, float | str):
            raise QueryError(f"the parameter of {node.op} must be a scalar or a string")
        return aggregate(node, self._vector(node.expr, at), param)

    def binary(self, node: Binary, at: UnixSeconds) -> Value:
        """Return what an operator makes of its sides."""
        lhs, rhs = self.value(node.lhs, at), self.value(node.rhs, at)
        result = binary(node, lhs, rhs)  # type: ignore[arg-type]  # the parser checked the types
        return unique(result) if isinstance(result, Vector) else result

    def negate(self, node: Negate, at: UnixSeconds) -> Value:
        """Return the negative."""
        value = self.value(node.expr, at)
        if isinstance(value, Vector):
            return unique(drop_names(Vector(value.labels, -value.values)))
        return -float(value)  # type: ignore[arg-type]  # the parser checked the types

    def call(self, node: Call, at: UnixSeconds) -> Value:
        """Return what a function makes of its arguments."""
        name = node.function
        if name in OVER_TIME:
            return unique(self._over_time(node, at))
        special = _SPECIALS.get(name)
        if special is not None:
            return special(self, node, at)
        args = [self.value(arg, at) for arg in node.args]
        if name in SCALARS:
            return SCALARS[name](*args)  # type: ignore[arg-type]  # the parser checked the types
        if name in ELEMENTWISE:
            return unique(elementwise(name, args, at))
        return unique(WHOLE_VECTOR[name](*args))

    def time(self, _node: Call, at: UnixSeconds) -> float:
        """Return the instant."""
        return at

    def edge(self, _node: Call, _at: UnixSeconds) -> float:
        """Return where the query starts, and ends."""
        return self.started_at

    def nothing(self, _node: Call, _at: UnixSeconds) -> float:
        """Return the step, or the range, of an instant query."""
        return 0.0

    def pi(self, _node: Call, _at: UnixSeconds) -> float:
        """Return pi."""
        return math.pi

    def to_vector(self, node: Call, at: UnixSeconds) -> Vector:
        """Return a number as a vector."""
        return one(float(self.value(node.args[0], at)))  # type: ignore[arg-type]

    def to_scalar(self, node: Call, at: UnixSeconds) -> float:
        """Return the only element of a vector as a number."""
        vector = self._vector(node.args[0], at)
        return float(vector.values[0]) if len(vector) == 1 else math.nan

    def timestamp(self, node: Call, at: UnixSeconds) -> Vector:
        """Return when samples were taken; of anything but a selector, the instant."""
        if isinstance(node.args[0], InstantSelector):
            found = self._latest(node.args[0], at)
            return unique(drop_names(Vector(found.labels, found.times)))
        vector = self._vector(node.args[0], at)
        return unique(drop_names(Vector(vector.labels, np.full(len(vector), at))))

    def absent(self, node: Call, at: UnixSeconds) -> Vector:
        """Return 1 if there is nothing."""
        argument = node.args[0]
        if isinstance(argument, RangeSelector):
            found = len(self._ends(argument, at).counts)
        else:
            value = self.value(argument, at)
            found = len(value.samples.labels if isinstance(value, RangeVector) else value.labels)  # type: ignore[union-attr]
        return EMPTY if found else one(1.0, absent_labels(argument))

    def _vector(self, expr: Expr, at: UnixSeconds) -> Vector:
        value = self.value(expr, at)
        if not isinstance(value, Vector):
            raise QueryError(f"expected an instant vector, got a {value_type(expr)}")
        return value

    def _moment(self, when: When, at: UnixSeconds) -> UnixSeconds:
        base = at if when.at is None else self.started_at
        if isinstance(when.at, float):
            base = when.at
        return _micro(base - when.offset_seconds) if when.offset_seconds else base

    def _span(self, node: RangeSelector | Subquery, at: UnixSeconds) -> Span:
        end = self._moment(node.when, at)
        return Span(_micro(end - node.range_seconds), end, at)

    def _latest(self, selector: InstantSelector, at: UnixSeconds) -> Latest:
        moment = self._moment(selector.when, at)
        start = _micro(moment - self.lookback_seconds)
        found = self.storage.latest(selector.matchers, start, moment)
        self._notice(selector, found)
        return found

    def _ends(self, selector: RangeSelector, at: UnixSeconds) -> Ends:
        span = self._span(selector, at)
        found = self.storage.ends(selector.matchers, span.start, span.end)
        self._notice(selector, found)
        return found

    def _notice(self, selector: Selector, found: Latest | Ends | Windows) -> None:
        self.selected = True
        if found.failed:
            # A subquery asks more than once; the targets whose last scrape failed are the same.
            self.missing[selector] = found.missing
        self.live = self.live or len(found.labels) > 0

    def _over_time(self, node: Call, at: UnixSeconds) -> Vector:
        place = next(n for n, arg in enumerate(node.args) if value_type(arg) is ValueType.MATRIX)
        scalars = [self.value(arg, at) for n, arg in enumerate(node.args) if n != place]
        argument = node.args[place]
        if node.function in OF_ENDS and isinstance(argument, RangeSelector):
            samples = RangeVector(self._ends(argument, at), self._span(argument, at))
        else:
            samples = self.value(argument, at)  # type: ignore[assignment]
        vector = over_time(node.function, samples, scalars)
        return vector if node.function in KEEP_NAME else drop_names(vector)


_EVALUATORS: dict[type[Any], Callable[[_Evaluator, Any, UnixSeconds], Value]] = {
    Number: _Evaluator.constant,
    Text: _Evaluator.constant,
    InstantSelector: _Evaluator.instant,
    RangeSelector: _Evaluator.range,
    Subquery: _Evaluator.subquery,
    Call: _Evaluator.call,
    Aggregate: _Evaluator.aggregate,
    Binary: _Evaluator.binary,
    Negate: _Evaluator.negate,
}


_SPECIALS: dict[str, Callable[[_Evaluator, Call, UnixSeconds], Value]] = {
    "time": _Evaluator.time,
    "pi": _Evaluator.pi,
    "start": _Evaluator.edge,
    "end": _Evaluator.edge,
    "step": _Evaluator.nothing,
    "range": _Evaluator.nothing,
    "vector": _Evaluator.to_vector,
    "scalar": _Evaluator.to_scalar,
    "timestamp": _Evaluator.timestamp,
    "absent": _Evaluator.absent,
    "absent_over_time": _Evaluator.absent,
}
