"""One rule over many instants: its expression as a table, its alerts stepped where they change.

Between two steps at which nothing comes, goes or is due, alerts only change their values; so the
machine is stepped where something does, and just before, when each alert had its last value.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import RESOLVED_RETENTION_SECONDS, restore, step
from ds4watch.alerting.series import AlertSeries, recorded
from ds4watch.alerting.texts import RuleTexts
from ds4watch.engine.replay_doubt import Missing
from ds4watch.engine.replay_history import ReplayHistory
from ds4watch.engine.replay_order import ALERT_SERIES, ReplayRule
from ds4watch.engine.replay_table import (
    Ran,
    States,
    Stretch,
    Table,
    columns_of,
    evaluated,
    incomplete,
)
from ds4watch.engine.replay_written import Piece
from ds4watch.model.alert import (
    AlertPhase,
    AlertRule,
    AlertState,
    RecordingRule,
)
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import STALE_NAN
from ds4watch.promql.columns import BoolArray
from ds4watch.promql.result import Matrix
from ds4watch.promql.vectors import Vector

_COMPLETE = np.zeros(1, dtype=np.bool_)


class ReplayedRule:
    """A rule and its alerts. dense: its alerts' values are wanted at each step."""

    def __init__(self, rule: ReplayRule, *, dense: bool) -> None:
        self.rule = rule
        self.dense = dense
        self.states: States = {}
        self.texts = rule.compiled.texts
        self._series = AlertSeries()

    @property
    def is_alert(self) -> bool:
        """Whether it makes alerts, and not series."""
        return isinstance(self.rule.compiled.rule, AlertRule)

    def restart(self, last_at: UnixSeconds, now: UnixSeconds) -> None:
        """Go on after a time in which nobody watched, as a daemon does after a restart."""
        states = restore(self.states.values(), last_at, now)
        self.states = dict(zip(self.states, states, strict=True))

    def run(self, history: ReplayHistory, missing: Missing, stretch: Stretch) -> Ran:
        """Evaluate the rule at all steps; step its alerts, or write what it records."""
        ran = Ran()
        for matrix, places in evaluated(self.rule, history, stretch, ran):
            if isinstance(self.rule.compiled.rule, RecordingRule):
                lacking = incomplete(self.rule, history, missing, matrix, places)
                self._record(self.rule.compiled.rule, history, matrix, lacking, ran)
            else:
                part = Stretch(matrix.steps, places, stretch.every_seconds)
                table = Table(self.rule, history, missing, part, matrix)
                self._step(self.rule.compiled.rule, table, ran)
        return ran

    def write_alerts(self, history: ReplayHistory, at: UnixSeconds) -> None:
        """Let others see the rule's alerts as series."""
        series = self._series.of(self.states.values())
        piece = Piece(series.labels, np.array([at]), series.values[:, None], _COMPLETE)
        history.write(f"alerts/{self.rule.place}", ALERT_SERIES[0], piece)

    def _record(
        self,
        rule: RecordingRule,
        history: ReplayHistory,
        matrix: Matrix,
        lacking: BoolArray,
        ran: Ran,
    ) -> None:
        try:
            labels = recorded(rule, Vector(matrix.labels, np.empty(0))).labels
        except QueryError as error:
            self._record_apart(rule, history, matrix, lacking, ran, str(error))
            return
        values = np.where(matrix.there, matrix.values, STALE_NAN)
        piece = Piece(labels, matrix.steps, values, lacking)
        history.write(f"records/{self.rule.place}", rule.name, piece)

    def _record_apart(
        self,
        rule: RecordingRule,
        history: ReplayHistory,
        matrix: Matrix,
        lacking: BoolArray,
        ran: Ran,
        error: str,
    ) -> None:
        """Record step by step: at some, two series would be one."""
        for column in range(len(matrix.steps)):
            at = np.array([column])
            one = columns_of(matrix, at)
            if len(one.labels) == len(matrix.labels) and len(matrix.steps) == 1:
                ran.fail(error)
            else:
                self._record(rule, history, one, lacking[at], ran)

    def _step(self, rule: AlertRule, table: Table, ran: Ran) -> None:
        column = 0
        texts = self.texts or RuleTexts(rule)
        while column < len(table.steps):
            vector = table.vector(column)
            hits = {
                texts.hit(labels, value).fingerprint
                for labels, value in zip(vector.labels, vector.values.tolist(), strict=True)
            }
            missed = _active(self.states) - hits
            unsure = bool(missed) or table.alarms
            result = step(
                rule,
                self.states,
                table.evaluation(column) if unsure else Evaluation(vector),
                float(table.steps[column]),
                exit_evaluation=table.leaving(column) if missed else None,
                texts=texts,
            )
            self.states = result.states
            if result.error is not None:
                ran.fail(result.error)
            ran.transitions += result.transitions
            if self.dense or result.transitions:
                ran.at_steps.append((int(table.places[column]), self.states))
            column = self._next(rule, table, column, _active(self.states) - hits)

    def _next(self, rule: AlertRule, table: Table, column: int, missed: set[str]) -> int:
        """Return the next column at which something comes, goes or is due, or the one before."""
        if not self.states:
            return table.next_asked(column)
        if self.dense or (missed and table.has_exit):
            return column + 1
        due = table.next_change(column)
        if missed:
            due = min(due, table.next_doubt(column))
        for since, seconds in _waits(rule, self.states.values()):
            due = min(due, table.next_due(column, since, seconds))
        return max(column + 1, due - 1)


def _active(states: States) -> set[str]:
    return {key for key, state in states.items() if state.phase is not AlertPhase.RESOLVED}


def _waits(rule: AlertRule, states: Iterable[AlertState]) -> Iterable[tuple[UnixSeconds, float]]:
    """Return since when alerts wait, and for how long: to fire, to end, to be forgotten."""
    found: dict[tuple[UnixSeconds, float], None] = {}
    for state in states:
        if state.phase is AlertPhase.PENDING:
            found[state.active_at, rule.for_seconds] = None
        elif state.phase is AlertPhase.RESOLVED and state.resolved_at is not None:
            found[state.resolved_at, RESOLVED_RETENTION_SECONDS] = None
        elif state.keep_firing_since is not None:
            found[state.keep_firing_since, rule.keep_firing_seconds] = None
            if state.fired_at is not None:
                found[state.fired_at, rule.min_firing_seconds] = None
    return found
