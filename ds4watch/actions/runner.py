"""Carries out planned actions, one at a time, each claimed in the database before it is begun."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Outcome
from ds4watch.model.errors import EdgeError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.telemetry.metrics import ProcessMetrics

log = logging.getLogger(__name__)

_IDLE_SECONDS = 5.0


class ActionLog(Protocol):
    """Where plans wait and outcomes are written."""

    async def claim_action(self, at: UnixSeconds) -> ActionPlan | None:
        """Take the oldest planned action; from then on it is ours. None if there is none."""
        ...

    async def finish_action(
        self, outcome: Outcome, *, policy: Mapping[str, Any] | None = None
    ) -> bool:
        """Write how it ended and the policy that came of it; False if it was not under way."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """How an action ended, and the service policy document in force after it."""

    outcome: Outcome
    policy: Mapping[str, Any] | None = None


class Handler(Protocol):
    """One kind of action."""

    async def run(self, plan: ActionPlan) -> Done:
        """Do it. Raises EdgeError if an outside system failed."""
        ...

    def is_in_force(self, plan: ActionPlan) -> bool:
        """Return whether the action's effect is there; asked when a daemon died on the way."""
        ...


class Runner:
    """The loop from a claimed row to its outcome."""

    def __init__(
        self,
        actions: ActionLog,
        handlers: Mapping[ActionKind, Handler],
        *,
        metrics: ProcessMetrics,
        clock: Clock,
    ) -> None:
        self._actions = actions
        self._handlers = handlers
        self._metrics = metrics
        self._clock = clock
        self._wake = asyncio.Event()
        self._in_flight: dict[str, str] = {}
        self._claimed: deque[ActionPlan] = deque()
        self._serving = False

    @property
    def is_free(self) -> bool:
        """Whether a plan would be begun at once, so that it may be claimed as it is committed."""
        return self._serving and not self._in_flight

    def submit(self, plans: Iterable[ActionPlan], claimed: Collection[str] = ()) -> None:
        """Take note of plans just committed and begin; `claimed`: ids of those that are ours.

        They are begun before the loop turns to what is scheduled after this call.
        """
        for plan in plans:
            self._in_flight[plan.id] = plan.target
            if plan.id in claimed:
                self._claimed.append(plan)
        if self._in_flight:  # also those that could not be claimed before
            self._wake.set()

    def in_flight(self, target: str) -> bool:
        """Return whether an action on `target` is planned or under way."""
        return target in self._in_flight.values()

    async def recover(self, plans: Iterable[ActionPlan]) -> None:
        """Look at what an earlier daemon left unfinished: done is done, the rest is given up.

        What still has to be done is decided anew, from fresh readings.
        """
        for plan in plans:
            done = self._handlers[plan.kind].is_in_force(plan)
            status = ActionStatus.APPLIED if done else ActionStatus.FAILED
            detail = (
                "the daemon was gone before it could say so; its effect is there"
                if done
                else "the daemon was gone before it was done; decided anew"
            )
            await self._actions.finish_action(self._outcome(plan, status, detail))

    async def run(self) -> None:
        """Serve until cancelled."""
        self._serving = True
        while True:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            await self._drain()

    async def _drain(self) -> None:
        try:
            while (plan := await self._claim()) is not None:
                try:
                    done = await self._carry_out(plan)
                    await self._actions.finish_action(done.outcome, policy=done.policy)
                    self._metrics.actions.labels(plan.kind.value, done.outcome.status.value).inc()
                finally:
                    self._in_flight.pop(plan.id, None)
        except EdgeError as error:
            log.warning("actions wait: %s", error)

    async def _claim(self) -> ActionPlan | None:
        """Take the next plan. Once there is none, those submitted before are over.

        A plan that a hold refused in the claim is never handed out, and must not count for ever.
        """
        if self._claimed:
            return self._claimed.popleft()
        submitted = tuple(self._in_flight)
        plan = await self._actions.claim_action(self._clock.now())
        if plan is None:
            for plan_id in submitted:
                self._in_flight.pop(plan_id, None)
        return plan

    async def _carry_out(self, plan: ActionPlan) -> Done:
        try:
            done = await self._handlers[plan.kind].run(plan)
        except EdgeError as error:
            done = Done(self._outcome(plan, ActionStatus.FAILED, str(error)))
        log.info("action %s: %s, %s", plan.id, done.outcome.status.value, done.outcome.detail)
        return done

    def _outcome(self, plan: ActionPlan, status: ActionStatus, detail: str) -> Outcome:
        return Outcome(
            plan_id=plan.id, status=status, at=self._clock.now(), took_seconds=0.0, detail=detail
        )
