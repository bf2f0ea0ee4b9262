"""How far alerting rules are from each of their tiers, JSON-ready: the page's cheap overview.

A rule is told by its first comparison with a number; the others guard it (is there traffic?), or
except something from it. `GET /rules/{name}` tells all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ds4watch.alerting.compiled import CompiledRule
from ds4watch.alerting.explain import Condition, conditions_of
from ds4watch.engine.round_storage import RoundStorage, RuleStorage
from ds4watch.model.alert import AlertPhase, AlertRule, AlertState, Tier
from ds4watch.model.ports import UnixSeconds

_ORDER = (Tier.INFO, Tier.WARNING, Tier.CRITICAL)
_Key = tuple[str, str, str]


def distances(
    rules: Iterable[CompiledRule],
    live: RuleStorage,
    alerts: Sequence[AlertState],
    now: UnixSeconds,
) -> list[dict[str, Any]]:
    """Return alerts with their tiers, those of one expression together. Only reads."""
    storage = RoundStorage(live)
    phases = _worst_phases(alerts)
    found: dict[_Key, dict[str, Any]] = {}
    for compiled in rules:
        rule = compiled.rule
        if not isinstance(rule, AlertRule) or rule.tier not in _ORDER:
            continue
        conditions = conditions_of(compiled.expr, storage, now)
        first = next((it for it in conditions if not it.unless), None)
        if first is None:
            continue
        key = (rule.name, first.op, first.expression)
        shown = found.setdefault(key, _shown(rule, first))
        guards = [it for it in conditions if it is not first and not it.unless]
        shown["tiers"].append(_tier(rule, first, guards, phases.get(rule.id)))
    for shown in found.values():
        shown["tiers"].sort(key=lambda tier: _ORDER.index(tier["severity"]))
    return list(found.values())


def _worst_phases(alerts: Iterable[AlertState]) -> Mapping[str, AlertPhase]:
    found: dict[str, AlertPhase] = {}
    for it in alerts:
        if it.phase is AlertPhase.FIRING or it.rule_id not in found:
            found[it.rule_id] = it.phase
    return found


def _shown(rule: AlertRule, first: Condition) -> dict[str, Any]:
    near = first.nearest[0] if first.nearest else None
    return {
        "name": rule.name,
        "group": rule.group,
        "expression": first.expression,
        "op": first.op,
        "value": _number(near.value) if near is not None else None,
        "labels": dict(near.labels) if near is not None else {},
        "tiers": [],
    }


def _tier(
    rule: AlertRule, first: Condition, guards: Sequence[Condition], phase: AlertPhase | None
) -> dict[str, Any]:
    near = first.nearest[0] if first.nearest else None
    return {
        "severity": rule.tier.value,
        "threshold": _number(first.threshold),
        "beyond": _number(near.beyond) if near is not None else None,
        "holds": near is not None and near.holds,
        # Whatever the value is, the alert waits for another condition, such as enough traffic.
        "guarded": not all(any(it.holds for it in guard.nearest) for guard in guards),
        "for_seconds": rule.for_seconds,
        "phase": phase.value if phase is not None else None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
