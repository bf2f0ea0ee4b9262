"""Fleets, alerts and policies for the tests of actions on workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.series import labels_of
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.policyfile import PolicyFile, load_policy
from ds4watch.policy.standing import Past, Standing

NOW = 10_000.0
POLICY = """\
pools:
  default:
    max_in_flight: 2
    settle_seconds: 10
    ladder: [{name: short, max_tokens_cap: 8}, {name: shorter, max_tokens_cap: 4}]
actions:
  again:
    kind: restart_worker
    cooldown_seconds: 1000
    action_cooldown_seconds: 10
    verify: {within_seconds: 100}
  away:
    kind: exclude_worker
    cooldown_seconds: 0
    action_cooldown_seconds: 0
    undo_after_seconds: 30
    verify: {within_seconds: 100, otherwise: undo}
  more: {kind: wake_worker, cooldown_seconds: 0, action_cooldown_seconds: 0}
bindings:
  - {match: {alertname: Slow}, action: again}
  - {match: {alertname: Bad}, action: away}
  - {match: {alertname: Full}, action: more, target: "*"}
"""


def policy(text: str = POLICY, **changes: Any) -> PolicyFile:
    return load_policy(text, "policy.yml").model_copy(update=changes)


def alert(name: str, worker: str = "w0", **changes: Any) -> AlertState:
    labels = {"alertname": name, "severity": "warning"} | ({"worker": worker} if worker else {})
    firing = AlertState(
        "r", labels_of(labels), AlertPhase.FIRING, active_at=5.0, value=7.0, fired_at=NOW - 1
    )
    return replace(firing, **changes)


def view(name: str, phase: WorkerPhase = WorkerPhase.READY, profile: str = "p") -> WorkerView:
    return WorkerView(name, profile, (profile,), "http://w", phase, since=1.0)


def fleet(*phases: WorkerPhase) -> tuple[WorkerView, ...]:
    return tuple(view(f"w{number}", phase) for number, phase in enumerate(phases))


READY, ASLEEP = WorkerPhase.READY, WorkerPhase.ASLEEP


def standing(*phases: WorkerPhase, **changes: Any) -> Standing:
    return replace(Standing(NOW, fleet(*(phases or (READY,) * 4))), **changes)


def past(
    kind: ActionKind = ActionKind.EXCLUDE_WORKER,
    target: str = "w0",
    status: ActionStatus = ActionStatus.APPLIED,
    **changes: Any,
) -> Past:
    """Return an action of before; what is no field of `Past` is one of its plan."""
    own = {name: changes.pop(name) for name in list(changes) if name in Past.__slots__}
    plan = ActionPlan(
        id="a1", kind=kind, target=target, cause="f", planned_at=NOW - 50, pool="default"
    )
    return replace(Past(replace(plan, **changes), status), **own)


def firing(alerts: Iterable[AlertState]) -> dict[str, AlertState]:
    return {it.fingerprint: it for it in alerts}
