"""What would happen now on an alert, and why: binding by binding, guard by guard. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4watch.model.action import GuardResult, RefusalReason
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.series import labels_of
from ds4watch.policy.deciding import acts, ask_of
from ds4watch.policy.guards import check, first_refusal, hold_on, is_dry
from ds4watch.policy.ladder import LadderState, pool_of
from ds4watch.policy.policyfile import NORMAL, Binding, PolicyFile, Pool, labels_match
from ds4watch.policy.pools import is_about
from ds4watch.policy.standing import Standing

_NAME = "alertname"


@dataclass(frozen=True, slots=True)
class Ladder:
    """Where the ladder stands, and whether a step of it is under way."""

    state: LadderState
    in_flight: bool = False


def explain(
    policy: PolicyFile,
    alerts: Sequence[AlertState],
    standing: Standing,
    ladders: Mapping[str, Ladder],
    labels: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return, for each alert with these labels, what it leads to now; JSON-ready.

    If there is none now, the labels are taken for an alert that fires.
    """
    found = [it for it in alerts if labels.items() <= dict(it.labels).items()]
    supposed = not found
    if supposed:
        found = [_supposed(labels, standing)]
    return [
        {
            "alert": dict(it.labels),
            "phase": str(it.phase),
            "value": it.value if not supposed else None,
            "supposed": supposed,
            "asks": list(_asks(policy, alerts, standing, ladders, it)),
        }
        for it in found
    ]


def _supposed(labels: Mapping[str, str], standing: Standing) -> AlertState:
    whole = {_NAME: "", **labels}
    return AlertState(
        "", labels_of(whole), AlertPhase.FIRING, standing.at, 0.0, fired_at=standing.at
    )


def _asks(
    policy: PolicyFile,
    alerts: Sequence[AlertState],
    standing: Standing,
    ladders: Mapping[str, Ladder],
    alert: AlertState,
) -> Iterator[dict[str, Any]]:
    labels = dict(alert.labels)
    for number, binding in enumerate(policy.bindings):
        if not labels_match(binding, labels):
            continue
        fires = _fires(alert)
        pool = pool_of(policy, binding.pool)
        if binding.action is None:
            what = f"level {binding.level} of {binding.pool}"
            ladder = ladder_of(ladders, binding.pool)
            about = _is_its_own(policy, binding, labels)
            results = (fires, about, *_level_guards(binding, pool, standing, ladder))
            dry = "the policy has dry_run: true" if policy.dry_run else ""
        else:
            ask = ask_of(binding, policy.actions[binding.action], pool, alert, standing)
            same = [it for it in alerts if labels_match(binding, dict(it.labels)) and acts(it)]
            named = {dict(it.labels).get(binding.target, "") for it in same} | {ask.target}
            members = frozenset(it.id for it in standing.of_pool(pool))
            ask = replace(ask, fired=members & named, pool_size=len(members))
            what = f"{binding.action} ({ask.action.kind}) on {ask.target or 'nobody'}"
            results = (fires, *check(ask, standing))
            dry = is_dry(ask, standing)
            approval = ask.action.approval
            if approval is not None:
                told = f"{', '.join(approval.by)} within {approval.expires_seconds:g} s"
                results = (*results, GuardResult("approval", passed=True, told=told))
        yield {
            "binding": number,
            "asks_for": what,
            "guards": [it.as_json() for it in results],
            "dry_run": dry,
            "then": _then(results, dry),
        }


def ladder_of(ladders: Mapping[str, Ladder], pool: str) -> Ladder:
    """Return where the ladder of a pool stands; at 0 if it has none."""
    return ladders.get(pool) or Ladder(LadderState(pool))


def _is_its_own(policy: PolicyFile, binding: Binding, labels: Mapping[str, str]) -> GuardResult:
    if is_about(policy, binding.pool, labels):
        return GuardResult("pool", passed=True, told=f"it is about {binding.pool}")
    told = f"it is about another pool than {binding.pool}"
    return GuardResult("pool", passed=False, told=told)


def _fires(alert: AlertState) -> GuardResult:
    if acts(alert):
        return GuardResult("firing", passed=True, told=f"it fires at {alert.value:g}")
    if alert.phase is not AlertPhase.FIRING:
        told = f"it is {alert.phase}: only what fires acts"
    elif alert.held:
        told = "it is held for want of data"
    else:
        told = "it was restored, and no fresh evaluation has confirmed it"
    return GuardResult("firing", passed=False, told=told)


def _level_guards(
    binding: Binding, pool: Pool, standing: Standing, ladder: Ladder
) -> Iterator[GuardResult]:
    state, asked = ladder.state, binding.level or 0
    name = pool.ladder[state.level - 1].name if 0 < state.level <= len(pool.ladder) else NORMAL
    if asked <= state.level:
        told = f"level {state.level} ({name}) is in force already"
        yield GuardResult("step", passed=False, told=told, reason=RefusalReason.STEP)
    else:
        goes_to = asked if binding.jump else state.level + 1
        yield GuardResult("step", passed=True, told=f"from level {state.level} to {goes_to}")
    yield settled(state, pool, standing)
    told = "a step is under way" if ladder.in_flight else "none is under way"
    yield GuardResult(
        "in_flight", passed=not ladder.in_flight, told=told, reason=RefusalReason.IN_FLIGHT
    )
    held = hold_on((binding.pool,), standing)
    told = "nobody holds it" if held is None else f"{held.who} holds {held.target}: {held.why}"
    yield GuardResult("hold", passed=held is None, told=told, reason=RefusalReason.HOLD)


def settled(state: LadderState, pool: Pool, standing: Standing) -> GuardResult:
    """Return whether the level in force had its time to take effect."""
    spent = standing.at - state.since
    if state.level == 0 or spent >= pool.settle_seconds:
        return GuardResult("settling", passed=True, told=f"{pool.settle_seconds:g} s are over")
    told = f"level {state.level} has {pool.settle_seconds:g} s to take effect, {spent:.0f} are over"
    return GuardResult("settling", passed=False, told=told, reason=RefusalReason.SETTLING)


def _then(results: Sequence[GuardResult], dry: str) -> str:
    refusal = first_refusal(results)
    if refusal is not None:
        return f"nothing: {refusal.guard}: {refusal.told}"
    if dry:
        return f"only told, for {dry}"
    waits = any(it.guard == "approval" for it in results)
    return "asked of a person" if waits else "done"
