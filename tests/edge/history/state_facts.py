"""What the tests of the state store write and read."""

from __future__ import annotations

import math
from dataclasses import replace

from ds4watch.history.ledger_values import CostRow
from ds4watch.history.state import StateStore
from ds4watch.model.action import (
    ActionKind,
    ActionPlan,
    ActionStatus,
    Outcome,
    Refusal,
    RefusalReason,
)
from ds4watch.model.alert import AlertPhase, AlertState, Transition
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage
from tests.edge.history.helpers import NOW, Base, FixedClock

LABELS = (("alertname", "Queue"), ("severity", "critical"), ("worker", "w1"))
FIRING = AlertState(
    rule_id="r1",
    labels=LABELS,
    phase=AlertPhase.FIRING,
    active_at=NOW - 5.25,
    value=math.inf,
    fired_at=NOW,
    annotations=(("summary", "long queue"),),
    held=True,
)
PENDING = AlertState("r2", (("alertname", "Other"),), AlertPhase.PENDING, NOW, 0.5)
TO_FIRING = Transition(
    FIRING.fingerprint, LABELS, AlertPhase.PENDING, AlertPhase.FIRING, NOW, math.nan, "held 5 s"
)
TO_PENDING = replace(TO_FIRING, old=AlertPhase.INACTIVE, new=AlertPhase.PENDING, at=NOW - 5)
TO_RESOLVED = replace(TO_FIRING, old=AlertPhase.FIRING, new=AlertPhase.RESOLVED, at=NOW + 9)
PLAN = ActionPlan(
    id="f1/set_level/pool/1",
    kind=ActionKind.SET_LEVEL,
    target="pool",
    cause=FIRING.fingerprint,
    planned_at=NOW,
    parameters={"level": 1},
    before={"level": 0},
    reason="the queue is long",
)
REFUSAL = Refusal(
    ActionKind.SET_LEVEL, "pool", RefusalReason.SETTLING, "12 s to go", FIRING.fingerprint, NOW
)
RECORD = RequestRecord(
    id="req-1",
    gateway="g0",
    seq=1,
    ended_at=NOW + 10,
    key="alice",
    path="/v1/completions",
    model_asked="tiny",
    model_served="tiny-full",
    worker="w1",
    status=200,
    outcome=RequestOutcome.OK,
    stream=False,
    duration_seconds=1.0,
    usage=Usage(prompt=10, cached=4, completion=3),
    retries=(("w2", RetryReason.CONNECT), ("w3", RetryReason.CONNECT)),
)
SHED = replace(RECORD, seq=2, outcome=RequestOutcome.SHED, model_served="", usage=None, retries=())
COST = CostRow(NOW, "w1", "tiny-full", "busy", 263_888_889)


def opened(base: Base) -> StateStore:
    return StateStore.open(base.place, FixedClock(), answer_timeout_seconds=30.0)


def applied(
    plan: ActionPlan, *, status: ActionStatus = ActionStatus.APPLIED, detail: str = ""
) -> Outcome:
    return Outcome(plan.id, status, NOW + 2, 0.5, detail, after={"level": 1})
