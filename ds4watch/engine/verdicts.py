"""What came of an action, beside how things stood before it, for the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds4watch.history.rows import Verified
from ds4watch.model.ports import UnixSeconds
from ds4watch.policy.aftermath import Verdict


def verified(it: Verdict, after: Mapping[str, Any], now: UnixSeconds) -> Verified:
    """Return a verdict with the money and latency of before and after."""
    before = it.plan.before.get("service") or {}
    spent, was_spent = after["nanos_per_hour"], before.get("nanos_per_hour")
    money = "" if was_spent is None else _moved("an hour", was_spent / 1e9, spent / 1e9)
    latency = _moved("latency in s", before.get("latency_seconds"), after.get("latency_seconds"))
    told = f"{now - it.plan.planned_at:.0f} s after {it.plan.kind} on {it.plan.target}: {it.told}"
    return Verified(
        action=it.plan.id,
        target=it.plan.target,
        at=now,
        helped=it.helped,
        told=f"{told}{money}{latency}",
        after={"service": dict(after)},
    )


def _moved(what: str, before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return ""
    return f"; {what} {before:.4g} → {after:.4g}"
