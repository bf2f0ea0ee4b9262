"""Instant evaluation with Prometheus 3 semantics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, Sample, is_stale
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
    Subquery,
    Text,
    ValueType,
    When,
    value_type,
)
from ds4watch.promql.binary import binary
from ds4watch.promql.elementwise import ELEMENTWISE
from ds4watch.promql.functions import WHOLE_VECTOR
from ds4watch.promql.over_time import KEEPS_NAME, OVER_TIME
from ds4watch.promql.relabel import absent_labels
from ds4watch.promql.storage import Matcher, SeriesWindow, Storage
from ds4watch.promql.vectors import (
    EMPTY,
    RangeVector,
    Vector,
    Window,
    drop_names,
    one,
    unique,
    vector_of,
    without_name,
)

LOOKBACK_SECONDS = 300.0
SUBQUERY_STEP_SECONDS = 60.0
MAX_SUBQUERY_STEPS = 11_000

Value: TypeAlias = float | str | Vector | RangeVector


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What an expression gave at one instant. `kind` says which of the four fields holds it.

    incomplete: a selector touched a target whose last scrape failed.
    no_data: there are selectors, and none of them found a live sample.
    """

    kind: ValueType
    samples: tuple[Sample, ...] = ()
    scalar: float = math.nan
    text: str = ""
    windows: tuple[SeriesWindow, ...] = ()
    incomplete: bool = False
    no_data: bool = False


def evaluate(expr: Expr, storage: Storage, at: UnixSeconds) -> QueryResult:
    """Evaluate `expr` at one instant. Raises QueryError where Prometheus fails the query."""
    evaluator = _Evaluator(storage, at)
    with np.errstate(all="ignore"):
        value = evaluator.value(expr, at)
    incomplete, no_data = evaluator.incomplete, evaluator.selected and not evaluator.live
    if isinstance(value, Vector):
        samples = tuple(
            _sample(labels, float(number))
            for labels, number in zip(value.labels, value.values, strict=True)
        )
        return QueryResult(
            ValueType.VECTOR, samples=samples, incomplete=incomplete, no_data=no_data
        )
    if isinstance(value, RangeVector):
        windows = tuple(SeriesWindow(w.labels, w.times, w.values) for w in value.windows)
        return QueryResult(
            ValueType.MATRIX, windows=windows, incomplete=incomplete, no_data=no_data
        )
    if isinstance(value, str):
        return QueryResult(ValueType.STRING, text=value)
    return QueryResult(ValueType.SCALAR, scalar=value, incomplete=incomplete, no_data=no_data)


def _sample(labels: Labels, value: float) -> Sample:
    return Sample(dict(labels).get(NAME_LABEL, ""), without_name(labels), value)


def _micro(instant: float) -> float:
    """Rid a computed instant of float noise, lest a sample on a window's edge change sides."""
    return round(instant, 6)


@dataclass(slots=True)
class _Evaluator:
    """One evaluation: the storage, and what has been noticed on the way."""

    storage: Storage
    started_at: UnixSeconds
    incomplete: bool = field(default=False, init=False)
    live: bool = field(default=False, init=False)
    selected: bool = field(default=False, init=False)

    def value(self, expr: Expr, at: UnixSeconds) -> Value:
        """Return the value of `expr` at `at`."""
        if isinstance(expr, Number | Text):
            return expr.value
        evaluators: dict[type[Any], Callable[[Any, float], Value]] = {
            InstantSelector: self._instant,
            RangeSelector: self._range,
            Subquery: self._subquery,
            Call: self._call,
            Aggregate: self._aggregate,
            Binary: self._binary,
            Negate: self._negate,
        }
        return evaluators[type(expr)](expr, at)

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

    def _select(
        self, matchers: tuple[Matcher, ...], start: UnixSeconds, end: UnixSeconds
    ) -> list[SeriesWindow]:
        windows = self.storage.select(matchers, start, end)
        self.selected = True
        self.incomplete = self.incomplete or any(window.failed for window in windows)
        return [window for window in windows if len(window.times)]

    def _latest(
        self, selector: InstantSelector, at: UnixSeconds
    ) -> tuple[list[Labels], FloatArray, FloatArray]:
        """Return labels, times and values of the newest samples that no marker hides."""
        moment = self._moment(selector.when, at)
        found = self._select(selector.matchers, _micro(moment - LOOKBACK_SECONDS), moment)
        values = np.array([window.values[-1] for window in found], dtype=np.float64)
        alive = np.flatnonzero(~is_stale(values))
        self.live = self.live or bool(len(alive))
        times = np.array([window.times[-1] for window in found], dtype=np.float64)
        return [found[position].labels for position in alive], times[alive], values[alive]

    def _instant(self, selector: InstantSelector, at: UnixSeconds) -> Vector:
        labels, _times, values = self._latest(selector, at)
        return Vector(tuple(labels), values)

    def _range(self, selector: RangeSelector, at: UnixSeconds) -> RangeVector:
        end = self._moment(selector.when, at)
        start = _micro(end - selector.range_seconds)
        windows = []
        for labels, times, values, _failed in self._select(selector.matchers, start, end):
            fresh = ~is_stale(values)
            if fresh.any():
                windows.append(Window(labels, times[fresh], values[fresh], start, end, at))
        self.live = self.live or bool(windows)
        return RangeVector(tuple(windows))

    def _subquery(self, node: Subquery, at: UnixSeconds) -> RangeVector:
        """Evaluate at multiples of the step in (end - range, end], whatever `end` is."""
        end = self._moment(node.when, at)
        start = _micro(end - node.range_seconds)
        step = node.step_seconds or SUBQUERY_STEP_SECONDS
        first = math.floor(_micro(start / step)) + 1
        last = math.floor(_micro(end / step))
        if last - first >= MAX_SUBQUERY_STEPS:
            raise QueryError(f"a subquery of over {MAX_SUBQUERY_STEPS} steps")
        points: dict[Labels, list[tuple[float, float]]] = {}
        for number in range(first, last + 1):
            moment = _micro(number * step)
            vector = self._vector(node.expr, moment)
            for labels, result in zip(vector.labels, vector.values, strict=True):
                points.setdefault(labels, []).append((moment, float(result)))
        windows = []
        for labels, pairs in points.items():
            times, values = np.array(pairs).T
            windows.append(Window(labels, times, values, start, end, at))
        return RangeVector(tuple(windows))

    def _aggregate(self, node: Aggregate, at: UnixSeconds) -> Vector:
        param = self.value(node.param, at) if node.param is not None else None
        if param is not None and not isinstance(param, float | str):
            raise QueryError(f"the parameter of {node.op} must be a scalar or a string")
        return aggregate(node, self._vector(node.expr, at), param)

    def _binary(self, node: Binary, at: UnixSeconds) -> Value:
        lhs, rhs = self.value(node.lhs, at), self.value(node.rhs, at)
        result = binary(node, lhs, rhs)  # type: ignore[arg-type]  # the parser checked the types
        return unique(result) if isinstance(result, Vector) else result

    def _negate(self, node: Negate, at: UnixSeconds) -> Value:
        value = self.value(node.expr, at)
        if isinstance(value, Vector):
            return unique(drop_names(Vector(value.labels, -value.values)))
        return -float(value)  # type: ignore[arg-type]  # the parser checked the types

    def _call(self, node: Call, at: UnixSeconds) -> Value:
        specials: dict[str, Callable[[Call, float], Value]] = {
            "time": self._time,
            "pi": self._pi,
            "vector": self._to_vector,
            "scalar": self._to_scalar,
            "timestamp": self._timestamp,
            "absent": self._absent,
            "absent_over_time": self._absent,
        }
        if node.function in specials:
            return specials[node.function](node, at)
        args = [self.value(arg, at) for arg in node.args]
        if node.function in OVER_TIME:
            return unique(_over_time(node.function, args))
        if node.function in ELEMENTWISE:
            return unique(_elementwise(node.function, args, at))
        return unique(WHOLE_VECTOR[node.function](*args))

    def _time(self, _node: Call, at: UnixSeconds) -> float:
        return at

    def _pi(self, _node: Call, _at: UnixSeconds) -> float:
        return math.pi

    def _to_vector(self, node: Call, at: UnixSeconds) -> Vector:
        return one(float(self.value(node.args[0], at)))  # type: ignore[arg-type]

    def _to_scalar(self, node: Call, at: UnixSeconds) -> float:
        vector = self._vector(node.args[0], at)
        return float(vector.values[0]) if len(vector) == 1 else math.nan

    def _timestamp(self, node: Call, at: UnixSeconds) -> Vector:
        """Return when samples were taken; of anything but a selector, the instant."""
        if isinstance(node.args[0], InstantSelector):
            labels, times, _values = self._latest(node.args[0], at)
            return unique(drop_names(Vector(tuple(labels), times)))
        vector = self._vector(node.args[0], at)
        return unique(drop_names(Vector(vector.labels, np.full(len(vector), at))))

    def _absent(self, node: Call, at: UnixSeconds) -> Vector:
        value = self.value(node.args[0], at)
        found = value.windows if isinstance(value, RangeVector) else value.labels  # type: ignore[union-attr]
        return EMPTY if found else one(1.0, absent_labels(node.args[0]))


def _over_time(name: str, args: list[Value]) -> Vector:
    place = next(at for at, arg in enumerate(args) if isinstance(arg, RangeVector))
    windows: tuple[Window, ...] = args[place].windows  # type: ignore[union-attr]
    labels: list[Labels] = []
    values: list[float] = []
    for window in windows:
        result = OVER_TIME[name](*args[:place], window, *args[place + 1 :])
        if result is not None:
            labels.append(window.labels)
            values.append(result)
    vector = vector_of(labels, values)
    return vector if name in KEEPS_NAME else drop_names(vector)


def _elementwise(name: str, args: list[Value], at: UnixSeconds) -> Vector:
    vector = args[0] if args else one(at)
    assert isinstance(vector, Vector)
    if name == "clamp" and float(args[1]) > float(args[2]):  # type: ignore[arg-type]
        return EMPTY
    values = ELEMENTWISE[name](vector.values, *args[1:])
    return drop_names(Vector(vector.labels, values))
