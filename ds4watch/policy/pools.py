"""Pools that have a ladder of their own: which, whose alerts are theirs, what gateways are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ds4watch.model.action import Hold
from ds4watch.model.service_policy import DEFAULT_POOL, PoolLevel, ServicePolicy
from ds4watch.model.worker import WorkerView
from ds4watch.policy.schema import PolicyFile


def own_ladders(policy: PolicyFile) -> tuple[str, ...]:
    """Return the pools with a ladder of their own, beside the pool of all others."""
    return tuple(sorted(it for it, pool in policy.pools.items() if pool.ladder and _is_own(it)))


def ladder_pools(policy: PolicyFile) -> tuple[str, ...]:
    """Return all pools that are decided on."""
    return (DEFAULT_POOL, *own_ladders(policy))


def is_about(policy: PolicyFile, pool: str, labels: Mapping[str, str]) -> bool:
    """Return whether an alert may be one of a pool's: its labels name no other pool or profile."""
    if labels.get("pool", pool) != pool:
        return False
    profile = labels.get("profile")
    if profile is None:
        return True
    if pool in (own := own_ladders(policy)):
        return profile in policy.pools[pool].profiles
    return all(profile not in policy.pools[it].profiles for it in own)


def pools_of(policy: PolicyFile, profile: str) -> tuple[str, ...]:
    """Return the pools that workers of a profile are in; one without profiles has them all."""
    of = {DEFAULT_POOL: (), **{name: pool.profiles for name, pool in policy.pools.items()}}
    return tuple(name for name, profiles in of.items() if not profiles or profile in profiles)


def spread(
    policy: PolicyFile, holds: Sequence[Hold], workers: Sequence[WorkerView]
) -> tuple[Hold, ...]:
    """Return the holds, and of those on a pool one on each of its workers."""
    more = (
        replace(hold, target=view.id)
        for hold in holds
        for view in workers
        if hold.target in pools_of(policy, view.profile)
    )
    return (*holds, *more)


def with_pools(current: ServicePolicy, policy: PolicyFile) -> ServicePolicy:
    """Return what is in force under the policy file's pools: levels stay, of new pools they are 0.

    The level of a pool that the file has no more is let go.
    """
    known = {it.pool: it for it in current.pools}
    pools = tuple(
        replace(known.get(name, PoolLevel(name, ())), profiles=policy.pools[name].profiles)
        for name in own_ladders(policy)
    )
    if pools == current.pools:
        return current
    return replace(current, version=current.version + 1, pools=pools)


def _is_own(name: str) -> bool:
    return name != DEFAULT_POOL
