"""What rules see now, JSON-ready, for the admin API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ds4watch.alerting.compiled import CompiledRule
from ds4watch.alerting.explain import Condition, Part, explain
from ds4watch.engine.round_storage import RoundStorage, RuleStorage
from ds4watch.model.alert import AlertRule, AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.numbers import plain


def explained(
    rules: Sequence[CompiledRule],
    live: RuleStorage,
    alerts: Iterable[AlertState],
    now: UnixSeconds,
) -> list[dict[str, Any]]:
    """Return each rule with its alerts, its conditions and its parts. Only reads."""
    storage = RoundStorage(live)
    known = list(alerts)
    return [_rule_json(it, storage, known, now) for it in rules]


def _rule_json(
    compiled: CompiledRule, storage: RoundStorage, alerts: Sequence[AlertState], now: UnixSeconds
) -> dict[str, Any]:
    found = explain(compiled.expr, storage, now)
    rule = compiled.rule
    own = [it for it in alerts if isinstance(rule, AlertRule) and it.rule_id == rule.id]
    return {
        "name": rule.name,
        "group": rule.group,
        "severity": rule.tier.value if isinstance(rule, AlertRule) else None,
        "for_seconds": rule.for_seconds if isinstance(rule, AlertRule) else None,
        "expression": rule.expression,
        "elements": found.elements,
        "error": found.error,
        "alerts": [
            {
                "labels": dict(it.labels),
                "phase": it.phase.value,
                "since": it.fired_at if it.fired_at is not None else it.active_at,
            }
            for it in own
        ],
        "conditions": [_condition_json(it) for it in found.conditions],
        "parts": [_part_json(it) for it in found.parts],
    }


def _condition_json(it: Condition) -> dict[str, Any]:
    return {
        "expression": it.expression,
        "op": it.op,
        "threshold": _number(it.threshold),
        "unless": it.unless,
        "count": it.count,
        "nearest": [
            {
                "labels": dict(near.labels),
                "value": _number(near.value),
                "beyond": _number(near.beyond),
                "holds": near.holds,
            }
            for near in it.nearest
        ],
    }


def _part_json(it: Part) -> dict[str, Any]:
    return {
        "depth": it.depth,
        "expression": it.expression,
        "type": it.kind.value,
        "count": it.count,
        "values": [{"labels": dict(v.labels), "value": _number(v.value)} for v in it.values],
        "error": it.error,
    }


def _number(value: float) -> float | str:
    """Return what JSON can hold: NaN and the infinities by Prometheus's words."""
    return value if math.isfinite(value) else plain(value)
