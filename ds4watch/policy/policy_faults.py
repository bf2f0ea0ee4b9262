"""What is wrong with a policy file that each key by itself does not show."""

from __future__ import annotations

from collections.abc import Iterator

from ds4watch.config.document import Document
from ds4watch.model.action import ActionKind
from ds4watch.model.errors import Located
from ds4watch.model.limits import laxer_levers
from ds4watch.model.service_policy import DEFAULT_POOL
from ds4watch.policy.pools import own_ladders
from ds4watch.policy.schema import Binding, PolicyFile

CRITICAL = "critical"
_WHOLE_GATEWAY = ("max_inflight", "warm_up_off")
"""Levers that no single pool has."""


def faults(policy: PolicyFile, document: Document) -> Iterator[Located]:
    """Yield the faults, each where it stands."""
    for number, binding in enumerate(policy.bindings):
        yield from _of_binding(policy, binding, number, document)
    for name in policy.pools:
        yield from _of_pool(policy, name, document)
    for name, action in policy.actions.items():
        if action.kind is ActionKind.SET_LEVEL:
            message = "set_level is asked for by `level` of a binding"
            yield document.finding(("actions", name, "kind"), message, mend="leave it out here")


def _of_binding(
    policy: PolicyFile, binding: Binding, number: int, document: Document
) -> Iterator[Located]:
    place = ("bindings", number)
    if not binding.match and not binding.match_re:
        message = "must have at least 1 entry"
        yield document.finding((*place, "match"), message, mend="else every alert would match")
    if (binding.level is None) == (binding.action is None):
        message = "asks for a `level` or for an `action`: one of them"
        yield document.finding(place, message)
    pool = policy.pools.get(binding.pool)
    if pool is None:
        known = ", ".join(sorted(policy.pools)) or "none; add it under `pools`"
        message = f"there is no pool {binding.pool!r}"
        yield document.finding((*place, "pool"), message, mend=f"known: {known}")
        return
    if binding.level is not None and binding.level > len(pool.ladder):
        message = f"level {binding.level} is above the top of pool {binding.pool!r}"
        mend = f"its ladder has {len(pool.ladder)} levels"
        yield document.finding((*place, "level"), message, mend=mend)
    yield from _of_deed(policy, binding, number, document)


def _of_deed(
    policy: PolicyFile, binding: Binding, number: int, document: Document
) -> Iterator[Located]:
    place = ("bindings", number)
    if binding.jump and binding.match.get("severity") != CRITICAL:
        message = "only critical alerts jump"
        mend = "match `severity: critical`, or leave out `jump`"
        yield document.finding((*place, "jump"), message, mend=mend)
    if binding.action is None:
        return
    action = policy.actions.get(binding.action)
    if action is None:
        known = ", ".join(sorted(policy.actions)) or "none"
        message = f"there is no action {binding.action!r}"
        yield document.finding((*place, "action"), message, mend=f"known: {known}")
    elif binding.target == "*" and action.kind is not ActionKind.WAKE_WORKER:
        message = f"{action.kind} needs a label that names the worker"
        yield document.finding((*place, "target"), message, mend="the usual one is `worker`")


def _of_pool(policy: PolicyFile, name: str, document: Document) -> Iterator[Located]:
    levels = policy.pools[name].ladder
    if name in own_ladders(policy):
        yield from _of_own_ladder(policy, name, document)
    for number in range(1, len(levels)):
        for lever in laxer_levers(levels[number - 1].limits(), levels[number].limits()):
            yield document.finding(
                ("pools", name, "ladder", number, lever),
                f"level {number + 1} takes away less than level {number}",
                mend="a level says all that holds on it: repeat what holds on the one below, "
                "or more",
            )


def _of_own_ladder(policy: PolicyFile, name: str, document: Document) -> Iterator[Located]:
    """Yield what is wrong with a ladder that is not the one of all models."""
    pool, place = policy.pools[name], ("pools", name)
    if not pool.profiles:
        message = f"pool {name!r} has a ladder and names no profile"
        mend = f"say whose models it is for; the ladder of {DEFAULT_POOL!r} is for all others"
        yield document.finding((*place, "ladder"), message, mend=mend)
    before = [it for it in own_ladders(policy) if it < name]
    for other in before:
        for profile in sorted({*pool.profiles} & {*policy.pools[other].profiles}):
            message = f"profile {profile!r} is of pool {other!r}, which has a ladder too"
            yield document.finding((*place, "profiles"), message, mend="a model has one ladder")
    for number, level in enumerate(pool.ladder):
        for lever in _WHOLE_GATEWAY:
            if getattr(level, lever):
                message = "holds for the whole gateway, not for one pool"
                mend = f"it belongs into the ladder of {DEFAULT_POOL!r}"
                yield document.finding((*place, "ladder", number, lever), message, mend=mend)
