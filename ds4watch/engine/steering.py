"""What the policy does to workers, and what persons ask for: decided in a tick, noted after it.

The ladder is decided beside this, by engine/tick.py. Decisions are pure (policy/); what is done
goes by action rows that the runner claims; what persons ask for, engine/orders.py holds ready.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ds4watch.alerting.grouping import Note
from ds4watch.engine.policy_wishes import PolicyWishes
from ds4watch.engine.pulse import Pulse
from ds4watch.engine.verdicts import verified
from ds4watch.history.rows import ActionRecord, Verified
from ds4watch.model.action import ActionPlan, ActionStatus, Hold, Refusal, RefusalReason
from ds4watch.model.alert import AlertState
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Sample
from ds4watch.policy.aftermath import HAND, Aftermath, look_after
from ds4watch.policy.by_hand import Answer
from ds4watch.policy.deciding import decide_actions, with_plan
from ds4watch.policy.explain import Ladder, explain
from ds4watch.policy.policyfile import PolicyFile
from ds4watch.policy.rehearsal import Scene
from ds4watch.policy.standing import Past, Standing

log = logging.getLogger(__name__)

_KEPT_SECONDS = 7 * 86_400.0
_TOLD_SECONDS = 3600.0
"""For so long an action that did not help asks for a person's eyes."""
_ATTENTION = "ds4_actions_attention"


class Book(Protocol):
    """Where actions and commands are kept."""

    async def steering_actions(self, since: UnixSeconds) -> list[ActionRecord]:
        """Return the actions on workers that are not over, or were planned since then."""
        ...

    async def decide_action(
        self, action: str, status: ActionStatus, *, who: str, at: UnixSeconds, why: str
    ) -> bool:
        """Let an action that waits be done, or not; False if it waits no longer."""
        ...

    async def save_verdicts(self, verdicts: Sequence[Verified]) -> None:
        """Store what came of actions."""
        ...

    async def add_notes(self, *notes: Note) -> None:
        """Have something told to people."""
        ...


class Orders(Protocol):
    """Who carries out what persons ask for."""

    async def take(
        self, standing: Standing, ladders: Mapping[str, Ladder]
    ) -> tuple[Standing, list[Answer]]:
        """Answer what was asked for; the plans among the answers are to be committed."""
        ...

    def finish(self, answers: Sequence[Answer]) -> None:
        """Tell who asked; all that the answers say is committed."""
        ...


@dataclass(frozen=True, slots=True)
class Steered:
    """What is to be committed in this tick beside the ladder's plan."""

    plans: tuple[ActionPlan, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    levels: tuple[ActionPlan, ...] = ()
    """Levels that persons asked for; the ladders of these pools wait."""
    answers: tuple[Answer, ...] = ()
    refused: Mapping[tuple[str, str, str], RefusalReason] = field(default_factory=dict)
    """All that is refused now, told before or not."""
    aftermath: Aftermath = field(default_factory=Aftermath)


class Steering:
    """Steps once a tick. `look` says how everything stands, but for past actions."""

    def __init__(
        self,
        policy: PolicyFile,
        book: Book,
        orders: Orders,
        wishes: PolicyWishes,
        pulse: Pulse,
        look: Callable[[UnixSeconds], Standing],
    ) -> None:
        self._policy = policy
        self._book = book
        self._orders = orders
        self._wishes = wishes
        self._pulse = pulse
        self._look = look
        self._past: tuple[Past, ...] = ()
        self._calm: Mapping[str, UnixSeconds] = {}
        self._refused: Mapping[tuple[str, str, str], RefusalReason] = {}
        self._standing = Standing(0.0)
        self._ladders: Mapping[str, Ladder] = {}

    async def restore(self, now: UnixSeconds) -> None:
        """Go on with what is in force; to be done before workers are tended."""
        await self._reload(now)
        await self._wishes.restore(self._past)

    async def step(
        self,
        alerts: Sequence[AlertState],
        ladders: Mapping[str, Ladder],
        per_hour: int,
        now: UnixSeconds,
    ) -> Steered:
        """Return what is to be done now, and what is not and why. Raises StoreError."""
        if any(it.is_under_way for it in self._past):
            await self._reload(now)
        self._pulse.note(now)
        standing = replace(self._look(now), past=self._past)
        standing, answers = await self._orders.take(standing, ladders)
        aftermath = look_after(standing, alerts, self._signals(), self._calm)
        for action, why in aftermath.expired:
            await self._book.decide_action(action, ActionStatus.EXPIRED, who="", at=now, why=why)
        for plan in aftermath.undo:
            standing = with_plan(standing, plan)
        decided = decide_actions(self._policy, alerts, standing)
        self._standing, self._ladders = standing, ladders
        by_hand = [it.plan for it in answers if it.plan is not None]
        plans = [*by_hand, *aftermath.undo, *decided.plans]
        refusals = (*aftermath.refusals, *decided.refusals)
        before = self._pulse.reading(per_hour) if plans else {}
        return Steered(
            plans=tuple(self._measured(it, before) for it in plans if it.is_on_worker),
            refusals=(
                *(it.refusal for it in answers if it.refusal is not None),
                *self._news(refusals),
            ),
            refused={_key(it): it.reason for it in refusals},
            levels=tuple(it for it in by_hand if not it.is_on_worker),
            answers=tuple(answers),
            aftermath=aftermath,
        )

    async def settle(
        self, steered: Steered, fresh: Sequence[ActionPlan], per_hour: int, now: UnixSeconds
    ) -> None:
        """Take over what has been committed; fresh: the plans that were new."""
        self._calm = steered.aftermath.calm or {}
        self._refused = steered.refused
        new = tuple(Past(it, it.first_status) for it in fresh if it.is_on_worker)
        self._past = (*self._past, *new)
        found = steered.aftermath.verdicts
        after = self._pulse.reading(per_hour) if found else {}
        verdicts = [verified(it, after, now) for it in found]
        await self._book.save_verdicts(verdicts)
        questions = [question(it) for it in fresh if it.first_status is ActionStatus.WAITING]
        if questions:
            await self._book.add_notes(*questions)
        self._orders.finish(steered.answers)
        if verdicts or steered.aftermath.expired or steered.answers:
            await self._reload(now)

    def samples(self) -> list[Sample]:
        """Return how many things ask for a person's eyes, by why."""
        now = self._standing.at
        failed = [
            it
            for it in self._past
            if it.helped is False and now - (it.verified_at or 0.0) < _TOLD_SECONDS
        ]
        shared = [it for it in self._refused.values() if it is RefusalReason.SHARED_CAUSE]
        waiting = [it for it in self._past if it.status is ActionStatus.WAITING]
        counts = {
            "approval": len(waiting),
            "not_helped": len(failed),
            "shared_cause": len(shared),
        }
        return [
            Sample(_ATTENTION, (("reason", reason),), float(count))
            for reason, count in counts.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Return what is under way, what waits for a person and what is in force, JSON-ready."""
        now, until = self._standing.at, self._standing.trial_until
        return {
            "dry_run": self._policy.dry_run,
            "levels": {name: len(pool.ladder) for name, pool in self._policy.pools.items()},
            "trial_until": until if now < until else None,
            "actions": [_past_json(it) for it in self._past if _is_shown(it)],
        }

    def explain(self, labels: Mapping[str, str], alerts: Sequence[AlertState]) -> dict[str, Any]:
        """Return what alerts with these labels lead to now, guard by guard; JSON-ready."""
        told = (self._policy, alerts, self._standing, self._ladders, labels)
        found = explain(*told) if self._ladders else []
        return {"at": self._standing.at, "alerts": found}

    def scene(self, alerts: Sequence[AlertState], holds: tuple[Hold, ...]) -> Scene:
        """Return what the next tick decides by, as far as it is known."""
        standing = replace(self._standing, past=self._past, holds=holds)
        return Scene(self._policy, alerts, standing, self._ladders)

    async def _reload(self, now: UnixSeconds) -> None:
        records = await self._book.steering_actions(now - _KEPT_SECONDS)
        self._past = tuple(past_of(it) for it in records)

    def _signals(self) -> dict[str, float]:
        found = {}
        for it in self._past:
            name = it.plan.parameters.get("signal")
            if name and it.is_to_verify:
                value = self._pulse.of_worker(str(name), it.plan.target)
                if value is not None:
                    found[it.plan.id] = value
        return found

    def _measured(self, plan: ActionPlan, before: Mapping[str, Any]) -> ActionPlan:
        """Return the plan with how things stood before it."""
        name = plan.parameters.get("signal")
        own = {"signal": self._pulse.of_worker(str(name), plan.target)} if name else {}
        return replace(plan, before={**plan.before, **own, "service": dict(before)})

    def _news(self, refusals: Sequence[Refusal]) -> list[Refusal]:
        """Return the refusals that were not told yet; one that goes on is told once."""
        keyed = {_key(it): it for it in refusals}
        return [it for key, it in keyed.items() if self._refused.get(key) is not it.reason]


def question(plan: ActionPlan) -> Note:
    """Return what people are told of an action that waits for one of them to say yes."""
    payload = {
        "action": plan.id,
        "what": str(plan.parameters.get("action") or plan.kind),
        "target": plan.target,
        "reason": plan.reason,
        "expires_at": plan.expires_at,
        "approvers": list(plan.approvers),
    }
    cause = () if plan.cause.startswith(HAND) else tuple(plan.cause.split(","))
    return Note(plan.id, "approval", plan.planned_at, payload, cause)


def _key(it: Refusal) -> tuple[str, str, str]:
    return it.kind.value, it.target, it.cause


def past_of(record: ActionRecord) -> Past:
    """Return a stored action as guards see it."""
    return Past(
        plan=record.plan,
        status=record.status,
        finished_at=record.finished_at,
        verify_by=record.verify_by,
        verified_at=record.verified_at,
        helped=record.helped,
    )


def _is_shown(it: Past) -> bool:
    return it.is_in_flight or (it.is_in_force and it.plan.parameters.get("undo") is None)


def _past_json(it: Past) -> dict[str, Any]:
    return {
        "id": it.plan.id,
        "kind": it.plan.kind.value,
        "target": it.plan.target,
        "pool": it.pool,
        "status": it.status.value,
        "planned_at": it.plan.planned_at,
        "reason": it.plan.reason,
        "who": it.plan.who,
        "expires_at": it.plan.expires_at if it.status is ActionStatus.WAITING else None,
        "approvers": list(it.plan.approvers),
        "helped": it.helped,
    }
