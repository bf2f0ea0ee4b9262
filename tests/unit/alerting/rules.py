"""Builders for tests of the alert machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import StepResult, restore, step
from ds4watch.model.alert import AlertPhase, AlertRule, AlertState, OnNoData
from ds4watch.model.series import NAME_LABEL, labels_of
from ds4watch.promql.vectors import vector_of

RULE = AlertRule("group", "Busy", "load > 1", for_seconds=10.0)
EMPTY = Evaluation()
FAILED = Evaluation(error="no such luck")
INCOMPLETE = Evaluation(incomplete=True)
NO_DATA = Evaluation(no_data=True)
P, F, R, NONE = AlertPhase.PENDING, AlertPhase.FIRING, AlertPhase.RESOLVED, AlertPhase.INACTIVE


def hit(value: float = 2.0, **labels: str) -> Evaluation:
    """One sample."""
    return hits(labels, value=value)


def hits(*elements: Mapping[str, str], value: float = 2.0) -> Evaluation:
    """Some samples of the metric `load`."""
    labels = [labels_of({NAME_LABEL: "load", **element}) for element in elements]
    return Evaluation(vector_of(labels, [value] * len(labels)))


def rule(
    *,
    hold: float = 10.0,
    keep: float = 0.0,
    no_data: OnNoData = OnNoData.RESOLVE,
    **annotations: str,
) -> AlertRule:
    return replace(
        RULE,
        for_seconds=hold,
        keep_firing_seconds=keep,
        on_no_data=no_data,
        annotations=labels_of(annotations),
    )


@dataclass
class Run:
    """Steps a rule through evaluations, remembering what an engine would store."""

    rule: AlertRule
    states: Mapping[str, AlertState] = field(default_factory=dict)
    last_tick_at: float = 0.0
    log: list[tuple[float, AlertPhase, AlertPhase]] = field(default_factory=list)

    def at(
        self, now: float, evaluation: Evaluation, leaving: Evaluation | None = None
    ) -> AlertPhase:
        """Step, and return the phase of the only alert."""
        result: StepResult = step(self.rule, self.states, evaluation, now, exit_evaluation=leaving)
        self.states = result.states
        self.last_tick_at = now
        self.log += [(now, change.old, change.new) for change in result.transitions]
        return self.phase

    def restart(self, now: float) -> None:
        states = restore(self.states.values(), self.last_tick_at, now)
        self.states = {state.fingerprint: state for state in states}

    @property
    def phase(self) -> AlertPhase:
        return self.only.phase if self.states else NONE

    @property
    def only(self) -> AlertState:
        (state,) = self.states.values()
        return state


def phases(run: Run, steps: Sequence[tuple[float, Evaluation]]) -> list[AlertPhase]:
    return [run.at(now, evaluation) for now, evaluation in steps]
