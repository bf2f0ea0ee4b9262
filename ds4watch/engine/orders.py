"""What persons ask of actions: who carries out the commands, and what is decided in a tick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4watch.actions.runner import Runner
from ds4watch.engine.command_run import Carry
from ds4watch.history.asked_values import Command
from ds4watch.history.rows import ActionRecord
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionPlan, ActionStatus, Hold
from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.service_policy import DEFAULT_POOL
from ds4watch.policy.aftermath import undo_claim
from ds4watch.policy.by_hand import Answer, Order, claims_of, order, undo
from ds4watch.policy.deciding import may_approve, with_plan
from ds4watch.policy.explain import Ladder, ladder_of
from ds4watch.policy.policyfile import PolicyFile
from ds4watch.policy.standing import Standing

_ALL = "*"
_UNDO = "undo"
_GIVEN_UP = (ActionStatus.FAILED, ActionStatus.REFUSED, ActionStatus.EXPIRED)


@dataclass(frozen=True, slots=True)
class _Open:
    """A command that the next tick answers, and who waits for that."""

    command: Command
    told: asyncio.Future[str]


class Orders:
    """Carries out `act`, `approve`, `refuse`, `undo`, `hold` and `resume`.

    What is to be done goes through the guards in a tick, and is committed by it. A command that is
    carried out again, after a daemon's death, finds what the first time left.
    """

    def __init__(
        self,
        policy: PolicyFile,
        state: StateStore,
        runner: Runner,
        held: Callable[[tuple[Hold, ...]], None],
        *,
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        """held: who is told of the holds in force; wake: lets the next tick begin at once."""
        self._policy = policy
        self._state = state
        self._runner = runner
        self._held = held
        self._wake = wake
        self._clock = clock
        self._open: dict[int, _Open] = {}

    def carry(self) -> Mapping[str, Carry]:
        """Return who carries out which kind of command."""
        return {
            "act": self._in_tick,
            _UNDO: self._in_tick,
            "approve": self._approve,
            "refuse": self._refuse,
            "hold": self._hold,
            "resume": self._resume,
        }

    async def take(
        self, standing: Standing, ladders: Mapping[str, Ladder]
    ) -> tuple[Standing, list[Answer]]:
        """Answer what was asked for; the plans among the answers are to be committed."""
        answers = []
        for it in list(self._open.values()):
            answer = None if _is_dry(it.command) else await self._before(it.command)
            if answer is None:
                answer = self._answer(it.command, standing, ladders)
            answers.append(answer)
            if answer.plan is not None and answer.plan.is_on_worker:
                standing = with_plan(standing, answer.plan)
            elif answer.plan is not None:
                ladder = ladder_of(ladders, answer.plan.target)
                ladders = {**ladders, answer.plan.target: replace(ladder, in_flight=True)}
        return standing, answers

    def finish(self, answers: Sequence[Answer]) -> None:
        """Tell who waits; all that the answers say is committed."""
        for it in answers:
            asked = self._open.get(it.number)
            if asked is None or asked.told.done():
                continue
            if it.ok:
                asked.told.set_result(it.told)
            else:
                asked.told.set_exception(RefusedError(it.told))

    async def _in_tick(self, command: Command) -> str:
        asked = _Open(command, asyncio.get_running_loop().create_future())
        self._open[command.id] = asked
        self._wake()
        try:
            return await asked.told
        finally:
            del self._open[command.id]

    async def _before(self, command: Command) -> Answer | None:
        """Return what came of a command that was carried out before; None if it was not."""
        is_undo = command.kind == _UNDO
        action = _text(command, "action")
        for claim in [undo_claim(action)] if is_undo else claims_of(command.id):
            found = await self._state.desk.action(claim)
            if found is None or found.plan.who != command.who:
                continue
            is_given_up = found.status in _GIVEN_UP
            if is_undo and is_given_up:
                continue
            told = f"it was asked for before: it is {found.status}; its id is {claim}"
            return Answer(command.id, ok=not is_given_up, told=f"{told} {found.detail}".rstrip())
        return None

    def _answer(
        self, command: Command, standing: Standing, ladders: Mapping[str, Ladder]
    ) -> Answer:
        if command.kind == _UNDO:
            action, why = _text(command, "action"), _text(command, "why")
            return undo(
                command.id, action, standing.past, standing,
                who=command.who, why=why, dry_run=_is_dry(command),
            )  # fmt: skip
        asked = _order(command)
        return order(asked, self._policy, standing, ladder_of(ladders, asked.pool))

    async def _approve(self, command: Command) -> str:
        found = await self._asked_for(command)
        if found.decided_by == command.who and found.status is not ActionStatus.REFUSED:
            return f"{found.plan.kind} on {found.plan.target} was approved: it is {found.status}"
        await self._decide(command, found, ActionStatus.PLANNED)
        if _is_dry(command):
            return f"would be begun: {found.plan.kind} on {found.plan.target}; nothing is done"
        self._runner.submit([replace(found.plan, expires_at=None)])
        return f"{found.plan.kind} on {found.plan.target} is approved"

    async def _refuse(self, command: Command) -> str:
        found = await self._asked_for(command)
        told = f"{found.plan.kind} on {found.plan.target} is refused"
        if found.decided_by == command.who and found.status is ActionStatus.REFUSED:
            return told
        await self._decide(command, found, ActionStatus.REFUSED)
        return f"dry run: {told}; it goes on to wait" if _is_dry(command) else told

    async def _asked_for(self, command: Command) -> ActionRecord:
        name = _text(command, "action")
        found = await self._state.desk.action(name)
        if found is None:
            message = f"there is no action {name!r}"
            raise RefusedError(message)
        return found

    async def _decide(self, command: Command, found: ActionRecord, status: ActionStatus) -> None:
        plan, why = found.plan, _text(command, "why")
        if found.status is not ActionStatus.WAITING:
            message = f"it waits for nobody: it is {found.status}"
            raise RefusedError(message)
        if not may_approve(plan.approvers, command.who):
            message = f"only {', '.join(plan.approvers)} may say, not {command.who}"
            raise RefusedError(message)
        now = self._clock.now()
        if _is_dry(command):
            await self._check_dry(plan, status, now)
            return
        if not await self._state.decide_action(plan.id, status, who=command.who, at=now, why=why):
            message = "it is too late: it waits no longer"
            raise RefusedError(message)

    async def _check_dry(self, plan: ActionPlan, status: ActionStatus, now: UnixSeconds) -> None:
        """Raise RefusedError for what the claim of an action that is approved of would meet."""
        if plan.expires_at is not None and now >= plan.expires_at:
            message = "it is too late: it waits no longer"
            raise RefusedError(message)
        names = {_ALL, plan.pool, plan.target}
        held = next((it for it in await self._state.holds(now) if it.target in names), None)
        if status is ActionStatus.PLANNED and held is not None:
            message = f"hold: {held.who} holds {held.target}: {held.why}"
            raise RefusedError(message)

    async def _hold(self, command: Command) -> str:
        now, until = self._clock.now(), command.body.get("until")
        if not isinstance(until, int | float) or until <= now:
            message = "`until` has to be an instant to come"
            raise RefusedError(message)
        target = _text(command, "pool") or _ALL
        hold = Hold(target, float(until), command.who, _text(command, "why"), now)
        await self._state.place_hold(hold)
        self._held(await self._state.holds(now))
        return f"hold on {target}"

    async def _resume(self, command: Command) -> str:
        target = _text(command, "pool") or _ALL
        now = self._clock.now()
        lifted = await self._state.lift_hold(target, who=command.who, at=now)
        self._held(await self._state.holds(now))
        return f"the hold on {target} is lifted" if lifted else f"nothing holds {target}"


def _order(command: Command) -> Order:
    return Order(
        number=command.id,
        name=_text(command, "name"),
        pool=_text(command, "pool") or DEFAULT_POOL,
        target=_text(command, "target"),
        who=command.who,
        why=_text(command, "why"),
        dry_run=_is_dry(command),
    )


def _is_dry(command: Command) -> bool:
    return bool(command.body.get("dry_run"))


def _text(command: Command, name: str) -> str:
    found: Any = command.body.get(name)
    return found if isinstance(found, str) else ""
