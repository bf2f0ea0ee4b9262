from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.alerting.evaluation import Evaluation
from ds4watch.model.alert import AlertPhase, AlertRule, OnNoData
from tests.unit.alerting.rules import (
    EMPTY,
    FAILED,
    INCOMPLETE,
    NO_DATA,
    NONE,
    F,
    P,
    R,
    Run,
    hit,
    rule,
)

EVALUATIONS = st.sampled_from(
    [hit(), replace(hit(), incomplete=True), EMPTY, FAILED, INCOMPLETE, NO_DATA]
)
STEPS = st.lists(
    st.tuples(st.floats(-50, 400), EVALUATIONS, st.booleans()), min_size=1, max_size=40
)
RULES = st.builds(
    lambda hold, keep, no_data: rule(hold=hold, keep=keep, no_data=no_data),
    st.sampled_from([0.0, 1.0, 30.0]),
    st.sampled_from([0.0, 20.0]),
    st.sampled_from(OnNoData),
)
ALLOWED = {
    (NONE, P),
    (NONE, F),
    (P, F),
    (P, NONE),
    (F, R),
    (R, P),
    (R, F),
}
Step = tuple[float, Evaluation, bool]


@settings(max_examples=300, deadline=None)
@given(RULES, STEPS)
def test_invariants_hold_on_any_path(alert: AlertRule, steps: list[Step]) -> None:
    run = Run(alert)
    now = 1000.0
    for delta, evaluation, restarts in steps:
        now += delta
        if restarts:
            run.restart(now)
        before = dict(run.states)
        changes = len(run.log)
        run.at(now, evaluation)
        edges = {(old, new) for _, old, new in run.log[changes:]}
        assert edges <= ALLOWED
        if alert.for_seconds:
            assert not edges & {(NONE, F), (R, F)}
        if evaluation.error:
            assert run.states == before
        if evaluation.incomplete:
            assert not edges & {(F, R), (P, NONE)}
        check_facts(run, before, now)


def check_facts(run: Run, before: Mapping[str, object], now: float) -> None:
    for fingerprint, state in run.states.items():
        assert state.fingerprint == fingerprint
        assert state.phase is not AlertPhase.INACTIVE
        assert (state.fired_at is None) == (state.phase is P)
        assert (state.resolved_at is None) == (state.phase is not R)
        if fingerprint not in before:
            assert state.active_at == now


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=30))
def test_an_alert_fires_no_sooner_than_for_after_it_became_active(deltas: list[float]) -> None:
    run = Run(rule(hold=10))
    now = 0.0
    run.at(now, hit())
    for delta in deltas:
        now += delta
        assert (run.at(now, hit()) is F) == (now >= 10)
