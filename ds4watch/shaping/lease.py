"""Limits are leases: without a daemon they are taken back, one level at a time."""

from __future__ import annotations

from dataclasses import replace

from ds4watch.model.service_policy import Limits, ServicePolicy


def lapsed(policy: ServicePolicy, silent_seconds: float) -> ServicePolicy:
    """Return the policy in force after `silent_seconds` without a daemon.

    One level goes for each whole lease. Excluded workers stay excluded: who is out for bad
    answers is not let in again because nobody looks.
    """
    for it in policy.pools:
        policy = policy.with_level(it.pool, _own_lapsed(policy.of_pool(it.pool), silent_seconds))
    return _own_lapsed(policy, silent_seconds)


def _own_lapsed(policy: ServicePolicy, silent_seconds: float) -> ServicePolicy:
    if policy.level <= 0 or policy.lease_seconds <= 0 or silent_seconds < policy.lease_seconds:
        return policy
    level = max(0, policy.level - int(silent_seconds // policy.lease_seconds))
    limits = policy.ladder[level] if level < len(policy.ladder) else Limits()
    return replace(
        policy,
        level=level,
        level_name="normal" if level == 0 else f"level {level}",
        limits=limits,
        ladder=policy.ladder[: level + 1],
        reason=f"taken back from level {policy.level}: no daemon",
    )
