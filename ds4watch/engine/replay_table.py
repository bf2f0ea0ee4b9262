"""What one rule's expression gave over many instants, and what it could not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ds4watch.alerting.compiled import CompiledRule
from ds4watch.alerting.evaluation import Evaluation
from ds4watch.engine.replay_doubt import Missing
from ds4watch.engine.replay_history import ReplayHistory
from ds4watch.engine.replay_order import ReplayRule
from ds4watch.model.alert import AlertRule, AlertState, OnNoData, Transition
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.promql.ast import Expr, ValueType, value_type
from ds4watch.promql.columns import NO_LABELS, BoolArray, IndexArray
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.range_sight import Sight, no_data, sights
from ds4watch.promql.result import Matrix
from ds4watch.promql.storage import RangeStorage
from ds4watch.promql.vectors import Vector

States = Mapping[str, AlertState]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps (k,), evenly apart. places: theirs among the answers.

    due: (k,) those at which a rule is evaluated; None for all.
    """

    steps: FloatArray
    places: IndexArray
    every_seconds: float
    due: BoolArray | None = None

    @property
    def due_places(self) -> IndexArray:
        """The places of those at which a rule is evaluated."""
        return self.places if self.due is None else self.places[self.due]

    def part(self, chosen: slice) -> Stretch:
        """Return some of the steps."""
        due = None if self.due is None else self.due[chosen]
        return Stretch(self.steps[chosen], self.places[chosen], self.every_seconds, due)


@dataclass(slots=True)
class Ran:
    """What came of one rule.

    at_steps: its alerts after each step of the machine. failed: steps that could not be evaluated.
    """

    transitions: list[Transition] = field(default_factory=list)
    at_steps: list[tuple[int, States]] = field(default_factory=list)
    failed: int = 0
    error: str = ""

    def fail(self, error: str, steps: int = 1) -> None:
        """Note steps at which the rule changed nothing, and why."""
        self.failed += steps
        self.error = self.error or error


class Table:
    """What a rule's expression gave at each step, and what it could not see."""

    def __init__(
        self,
        rule: ReplayRule,
        history: ReplayHistory,
        missing: Missing,
        stretch: Stretch,
        matrix: Matrix,
    ) -> None:
        self.steps = stretch.steps
        self.places = stretch.places
        self._rule = rule
        self._history = history
        self._missing = missing
        self._stretch = stretch
        self._matrix = matrix
        self._sights: dict[Expr, tuple[Sight, ...]] = {}
        self._no_data: dict[Expr, BoolArray] = {}
        self._leaving: dict[int, Vector] | None = None
        self._doubtful: IndexArray | None = None
        there = matrix.there
        moved = (there[:, 1:] != there[:, :-1]).any(axis=0)
        asked = there.any(axis=0)
        if self.alarms:
            nothing = self._without_data(rule.compiled.expr)
            moved |= nothing[1:] != nothing[:-1]
            asked |= nothing
        # The last column ends what is known: the next stretch begins anew.
        self._changes = np.append(np.flatnonzero(moved) + 1, len(self.steps) - 1)
        self._asked = np.flatnonzero(asked)

    @property
    def has_exit(self) -> bool:
        """Whether the rule has an exit expression."""
        return self._rule.compiled.exit_expr is not None

    @property
    def alarms(self) -> bool:
        """Whether no data is an alert of its own."""
        rule = self._rule.compiled.rule
        return isinstance(rule, AlertRule) and rule.on_no_data is OnNoData.ALERT

    def next_asked(self, column: int) -> int:
        """Return the next column at which there is something."""
        place = int(np.searchsorted(self._asked, column, side="right"))
        return int(self._asked[place]) if place < len(self._asked) else len(self.steps)

    def next_change(self, column: int) -> int:
        """Return the next column at which something comes or goes."""
        place = int(np.searchsorted(self._changes, column, side="right"))
        return int(self._changes[place]) if place < len(self._changes) else len(self.steps)

    def next_doubt(self, column: int) -> int:
        """Return the next column at which another thing may be missing than now."""
        if self._doubtful is None:
            nothing = self._without_data(self._rule.compiled.expr)
            unsure = self._missing.unsure(self.places)
            changes = nothing[1:] != nothing[:-1]
            self._doubtful = np.flatnonzero(changes | unsure[1:] | unsure[:-1]) + 1
        place = int(np.searchsorted(self._doubtful, column, side="right"))
        return int(self._doubtful[place]) if place < len(self._doubtful) else len(self.steps)

    def next_due(self, column: int, since: UnixSeconds, seconds: float) -> int:
        """Return the next column at which so many seconds have passed."""
        over = self.steps[column + 1 :] - since >= seconds
        return column + 1 + int(np.argmax(over)) if over.any() else len(self.steps)

    def vector(self, column: int) -> Vector:
        """Return what the rule's expression gave."""
        return _vector(self._matrix, column)

    def evaluation(self, column: int) -> Evaluation:
        """Return the same with what it could not see; that takes its time."""
        return self._complete(self._rule.compiled.expr, self.vector(column), column)

    def leaving(self, column: int) -> Evaluation | None:
        """Return what the rule's exit expression gave, if it has one."""
        expr = self._rule.compiled.exit_expr
        if expr is None:
            return None
        if self._leaving is None:
            rule = replace(self._rule, compiled=CompiledRule(self._rule.compiled.rule, expr))
            self._leaving = {
                place: _vector(matrix, at)
                for matrix, places in evaluated(rule, self._history, self._stretch, Ran())
                for at, place in enumerate(places.tolist())
            }
        vector = self._leaving.get(int(self.places[column]))
        if vector is None:
            return Evaluation(error="it cannot be evaluated")
        return self._complete(expr, vector, column)

    def _complete(self, expr: Expr, vector: Vector, column: int) -> Evaluation:
        place = int(self.places[column])
        incomplete, doubts = self._missing.doubts(expr, self._seen(expr), column, place)
        nothing = bool(self._without_data(expr)[column])
        return Evaluation(vector, incomplete=incomplete, no_data=nothing, doubts=doubts)

    def _seen(self, expr: Expr) -> tuple[Sight, ...]:
        if expr not in self._sights:
            self._sights[expr] = sights(expr, self._history, self.steps)
        return self._sights[expr]

    def _without_data(self, expr: Expr) -> BoolArray:
        if expr not in self._no_data:
            self._no_data[expr] = no_data(self._seen(expr), len(self.steps))
        return self._no_data[expr]


def incomplete(
    rule: ReplayRule, history: ReplayHistory, missing: Missing, matrix: Matrix, places: IndexArray
) -> BoolArray:
    """Return at which steps what a rule gives may lack something for want of a scrape."""
    unsure = missing.unsure(places)
    if not unsure.any():
        return unsure
    expr = rule.compiled.expr
    seen = sights(expr, history, matrix.steps)
    for column in np.flatnonzero(unsure).tolist():
        unsure[column] = missing.doubts(expr, seen, column, int(places[column]))[0]
    return unsure


def _vector(matrix: Matrix, column: int) -> Vector:
    there: BoolArray = matrix.there[:, column]
    return Vector(matrix.labels.where(there), matrix.values[there, column])


def evaluated(
    rule: ReplayRule, storage: RangeStorage, stretch: Stretch, ran: Ran
) -> Iterator[tuple[Matrix, IndexArray]]:
    """Yield what an expression gives, in order; where it cannot be evaluated, nothing."""
    expr = rule.compiled.expr
    count = len(stretch.steps)
    if not count or (stretch.due is not None and not stretch.due.any()):
        return
    if value_type(expr) not in (ValueType.SCALAR, ValueType.VECTOR):
        ran.fail(f"a rule cannot be a {value_type(expr)}", count)
        return
    if count == 1 or not rule.alone:
        try:
            matrix = _matrix(expr, storage, stretch)
        except QueryError as error:
            if count == 1:
                ran.fail(str(error))
                return
        else:
            at = np.flatnonzero(np.ones(count) if stretch.due is None else stretch.due)
            yield columns_of(matrix, at), stretch.places[at]
            return
    # Some step cannot be evaluated, or each is a query of its own: the halves.
    half = count // 2
    for part in (slice(0, half), slice(half, None)):
        yield from evaluated(rule, storage, stretch.part(part), ran)


def _matrix(expr: Expr, storage: RangeStorage, stretch: Stretch) -> Matrix:
    start, end = float(stretch.steps[0]), float(stretch.steps[-1])
    found = evaluate_range(expr, storage, start, end, stretch.every_seconds)
    # A scalar has no name; the steps are those that were asked for, to the last bit.
    return Matrix(found.labels, stretch.steps, found.values, found.there)


def columns_of(matrix: Matrix, columns: IndexArray) -> Matrix:
    """Return a matrix at some of its steps."""
    if len(columns) == len(matrix.steps):
        return matrix
    there = matrix.there[:, columns]
    some: BoolArray = np.any(there, axis=1)
    labels = matrix.labels.where(some) if len(some) else NO_LABELS
    return Matrix(labels, matrix.steps[columns], matrix.values[some][:, columns], there[some])
