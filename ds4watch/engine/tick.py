"""One evaluation: collect → evaluate → step → decide → commit → act; then show and store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ds4watch.alerting.silences import mute_of
from ds4watch.alerting.telling import tell
from ds4watch.cost.attribution import Charge, charges, staged
from ds4watch.cost.hours import hour_of
from ds4watch.engine.effects import Watch, effect, sentence, watch
from ds4watch.engine.observe import Observer
from ds4watch.engine.pace import Pace
from ds4watch.engine.parts import EngineSettings, Known, Parts
from ds4watch.engine.rule_pages import RulePages
from ds4watch.engine.rulebook import Round
from ds4watch.engine.sight import went_blind
from ds4watch.engine.signals import NO_MODEL, midnight
from ds4watch.engine.steering import Steered
from ds4watch.history.ledger_values import CostRow, PaidRow, SpoolBatch
from ds4watch.history.rows import AuditEntry, AuditKind, TickCommit
from ds4watch.model.action import ActionPlan, Refusal
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.errors import EdgeError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.usage import RequestOutcome
from ds4watch.model.worker import WorkerLoad, WorkerView
from ds4watch.policy.explain import Ladder
from ds4watch.policy.ladder import Decision, LadderState, decide, pool_of, redefined
from ds4watch.policy.pools import ladder_pools, spread

log = logging.getLogger(__name__)

_CARRY_SECONDS = 60.0
_MOST_INTERVALS = 5
"""A longer time between two ticks is one in which nobody watched."""
_NO_LOAD = WorkerLoad()
"""The table of workers tells how they stand; their load is in the history."""


class Engine:
    """Ticks until cancelled. `known` is what the admin API shows."""

    def __init__(
        self,
        parts: Parts,
        settings: EngineSettings,
        known: Known,
        *,
        wake: asyncio.Event,
        clock: Clock,
    ) -> None:
        """Wake up early when `wake` is set: something happened that gateways have to know."""
        self._parts = parts
        self._settings = settings
        self._clock = clock
        self._observer = Observer(parts, settings, known, clock)
        self._pages = RulePages(parts.samples.intern, known.pages)
        self._wake = wake
        self._watched: list[Watch] = []
        self._failing = False
        self.known = known
        self.beaten_at = clock.monotonic()
        """When the last tick ended, well or not, on the clock that never steps."""

    def wake(self) -> None:
        """Let the next tick begin at once."""
        self._wake.set()

    async def run(self) -> None:
        """Tick at each interval, from the due time of the last; missed ones are skipped.

        A tick before its time, for which somebody woke us, does not put off the next due one.
        """
        now = self.beaten_at = self._clock.monotonic()
        pace, early = Pace(self._settings.interval_seconds, now), False
        while True:
            pace.begin(self._clock.monotonic(), early=early)
            await self.beat()
            self.beaten_at = self._clock.monotonic()
            if pace.end(self.beaten_at):
                self._parts.telemetry.process.tick_overruns.inc()
            early = await self._until(pace.due_at)

    async def _until(self, due: float) -> bool:
        """Wait; return whether somebody woke us before it is due."""
        try:
            async with asyncio.timeout(max(0.0, due - self._clock.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            return False
        finally:
            self._wake.clear()
        return self._clock.monotonic() < due

    async def beat(self) -> None:
        """Tick, and note how it went."""
        began = self._clock.monotonic()
        try:
            told = await self.tick()
        except EdgeError as error:
            if not self._failing:
                log.error("tick failed, nothing is decided: %s", error)  # noqa: TRY400 - one line says it
            self._failing = True
            return
        if self._failing:
            log.warning("ticks succeed again")
        self._failing = False
        took = self._clock.monotonic() - began
        self._parts.telemetry.process.tick_seconds.observe(took)
        if told:
            log.info("%s (%.0f ms)", told, took * 1000)

    async def tick(self) -> str:
        """Look, evaluate, decide, commit, act; return what changed in a sentence, empty if nothing.

        Whatever no decision rests on comes after the deed.
        """
        collected = await self._observer.collect()
        batches = self._marked(self._observer.batches)
        now = self._clock.now()
        scraped = [*collected.results, self._observer.see(collected, now)]
        try:
            turn = self._evaluate(now)
            scraped += self._pages.scrapes(turn.written, now)
            return await self._conclude(turn, batches, now)
        finally:
            # Without decisions too: while the state cannot be written, samples are kept or counted.
            self._observer.show()
            self._note_served(batches)
            await self._parts.samples.append(scraped)
            await self._step_pool()

    def _marked(self, batches: tuple[SpoolBatch, ...]) -> tuple[SpoolBatch, ...]:
        turns = self.known.turns
        return tuple(replace(it, records=tuple(turns.marked(it.records))) for it in batches)

    def _note_served(self, batches: Sequence[SpoolBatch]) -> None:
        self._parts.supervisor.note_served(
            (record.worker, record.ended_at)
            for batch in batches
            for record in batch.records
            if record.outcome is RequestOutcome.OK
        )

    async def _step_pool(self) -> None:
        if not self._parts.may_act():
            return
        known = self.known
        board = self._parts.board
        may_warm = not board.policy().limits.warm_up_off
        holds = spread(self._parts.policy, known.holds, known.fleet.workers)
        await self._parts.pool.step(known.fleet, holds, board.gateways(), may_warm=may_warm)
        if self._parts.provision is not None:
            await self._parts.provision.step(known.fleet, holds, board.gateways())

    def _evaluate(self, now: UnixSeconds) -> Round:
        parts, alerts = self._parts, self.known.alerts
        answers = parts.rounds.take(alerts, now) if parts.rounds is not None else None
        removed = parts.live.removed.values()
        return parts.rules.evaluate(parts.live, alerts, now, answers=answers, removed=removed)

    async def _conclude(
        self, turn: Round, batches: tuple[SpoolBatch, ...], now: UnixSeconds
    ) -> str:
        """Decide, commit; return what changed."""
        telling = tell(
            self.known.alerts,
            turn.alerts,
            turn.transitions,
            now,
            is_silenced=mute_of(self.known.silences, now),
        )
        turn = replace(turn, alerts=telling.alerts)
        steered = await self._steer(turn, now)
        plans, refusals, ladders = self._decide(turn, steered, now)
        charged = self._charged(now)
        commit = replace(
            self._commit_of(turn, plans, refusals, batches, charged, now),
            messages=telling.messages,
        )
        committed = await self._parts.state.commit_tick(commit)
        fresh = [plan for plan in plans if plan.id not in committed.duplicate_plans]
        await self._act([plan for plan in fresh if not plan.dry_run], committed.claimed_plans)
        self._settle(commit, turn, ladders, dict(committed.refused_spools))
        self._book(charged, batches, now, carried=commit.carry is not None)
        if self._parts.steering is not None and self._parts.may_act():
            await self._parts.steering.settle(steered, fresh, self.known.per_hour, now)
        await self._look_back(fresh, turn, now)
        if telling.messages:
            self._parts.dispatcher.wake()
        return sentence(turn, fresh, refusals)

    async def _act(self, plans: Sequence[ActionPlan], claimed: Sequence[str]) -> None:
        self._parts.runner.submit(plans, claimed)
        if plans:
            await asyncio.sleep(0)  # the runner's turn: it comes back once the gateways are told

    async def _look_back(self, plans: Sequence[ActionPlan], turn: Round, now: UnixSeconds) -> None:
        """Note what is to be looked at later, and tell of what had time to take effect."""
        policy = self._parts.policy
        self._watched += [
            watched
            for plan in plans
            if (watched := watch(plan, turn.alerts, pool_of(policy, plan.pool).settle_seconds))
            is not None
        ]
        due = [watched for watched in self._watched if now >= watched.due_at]
        self._watched = [watched for watched in self._watched if now < watched.due_at]
        found = [effect(watched, turn.alerts, now) for watched in due]
        await self._parts.state.add_audit(
            *(
                AuditEntry(now, AuditKind.EFFECT, it.plan.target, it.summary, {"id": it.plan.id})
                for it in found
            )
        )

    async def _steer(self, turn: Round, now: UnixSeconds) -> Steered:
        """Decide on workers and on what persons ask for."""
        steering, known = self._parts.steering, self.known
        if steering is None or not self._parts.may_act():
            return Steered()
        ladders = {
            it: Ladder(self._ladder(it), self._parts.runner.in_flight(it))
            for it in ladder_pools(self._parts.policy)
        }
        return await steering.step(turn.alerts, ladders, known.per_hour, now)

    def _ladder(self, pool: str) -> LadderState:
        """Return where the ladder of a pool stands, by the policy in force."""
        policy, known = self._parts.board.policy().of_pool(pool), self.known
        ladder = known.ladders.get(pool) or LadderState(pool, version=known.plan_version)
        older = f"set_level:{pool}:{policy.version}"
        return replace(
            ladder,
            level=policy.level,
            since=policy.since,
            version=max(ladder.version, policy.version),
            action=(policy.action or older) if policy.level else None,
        )

    def _decide(
        self, turn: Round, steered: Steered, now: UnixSeconds
    ) -> tuple[list[ActionPlan], list[Refusal], dict[str, LadderState]]:
        parts = self._parts
        external = parts.external.alerts(now) if parts.external is not None else ()
        alerts = (*turn.alerts, *external)
        plans, refusals = list(steered.levels), list[Refusal]()
        by_hand = {it.target for it in plans}
        ladders: dict[str, LadderState] = {}
        for pool in ladder_pools(parts.policy):
            ladders[pool] = self._ladder(pool)
            if pool in by_hand:
                continue
            decision = self._decide_on(ladders[pool], turn, alerts, now)
            ladders[pool] = decision.state
            plans += [decision.plan] if decision.plan is not None else []
            refusals += [decision.refusal] if decision.refusal is not None else []
        return [*plans, *steered.plans], [*refusals, *steered.refusals], ladders

    def _decide_on(
        self, state: LadderState, turn: Round, alerts: Sequence[AlertState], now: UnixSeconds
    ) -> Decision:
        """Return what becomes of the ladder of one pool."""
        parts, known = self._parts, self.known
        in_force = parts.board.policy().of_pool(state.pool)
        in_flight = parts.runner.in_flight(state.pool)
        decision = decide(
            state,
            parts.policy,
            alerts,
            holds=known.holds,
            in_flight=in_flight,
            unconfirmed=went_blind(known.sights.values(), in_force.since, now)
            or any(
                not alert.confirmed and alert.phase is AlertPhase.FIRING for alert in turn.alerts
            ),
            now=now,
        )
        if decision.plan is not None or in_flight:
            return decision
        after = decision.state
        plan = redefined(after, parts.policy, in_force.ladder, holds=known.holds, now=now)
        if plan is None:
            return decision
        return replace(decision, state=replace(after, version=after.version + 1), plan=plan)

    def _commit_of(
        self,
        turn: Round,
        plans: Sequence[ActionPlan],
        refusals: Sequence[Refusal],
        batches: tuple[SpoolBatch, ...],
        charged: Sequence[Charge],
        now: UnixSeconds,
    ) -> TickCommit:
        is_due = abs(now - self.known.carried_at) >= _CARRY_SECONDS
        return TickCommit(
            at=now,
            alerts=turn.alerts,
            transitions=turn.transitions,
            plans=tuple(plans),
            claims=self._parts.runner.is_free,
            refusals=tuple(refusals),
            spools=batches,
            costs=tuple(
                CostRow(it.hour_at, it.worker, it.profile, it.part.value, it.nanos)
                for it in staged(charged, self.known.prefill_ratios)
                if it.nanos
            ),
            paid=tuple(
                PaidRow(it.hour_at, it.worker, it.profile, it.nanos_per_hour, it.paid_ms, it.nanos)
                for it in charged
            ),
            workers=tuple(replace(view, load=_NO_LOAD) for view in self.known.fleet.workers),
            carry=self.known.cost.as_json() if is_due else None,
        )

    def _charged(self, now: UnixSeconds) -> tuple[Charge, ...]:
        return tuple(it for worker in self.known.fleet.workers for it in self._charges(worker, now))

    def _charges(self, worker: WorkerView, now: UnixSeconds) -> Sequence[Charge]:
        start = self.known.charged_until.get(worker.id, now)
        served_at = self.known.served_at.get(worker.id)
        return charges(worker, self._settings.prices, start, now, served_at=served_at)

    def _settle(
        self,
        commit: TickCommit,
        turn: Round,
        ladders: Mapping[str, LadderState],
        refused: Mapping[str, int],
    ) -> None:
        """Take over what has been committed."""
        known = self.known
        known.alerts = turn.alerts
        known.ladders = ladders
        known.failed_rules = turn.failed
        known.spent += sum(row.nanos for row in commit.costs)
        today_at = midnight(commit.at)
        before = known.spent_today if today_at == known.today_at else 0
        known.today_at = today_at
        known.spent_today = before + sum(
            row.nanos for row in commit.costs if row.hour_at >= today_at
        )
        known.charged_until = {worker.id: commit.at for worker in known.fleet.workers}
        for batch in commit.spools:
            self._parts.tallies.note(batch.records)
            known.routes.note(batch.records, slo_seconds=self._settings.slo_seconds)
            if self._parts.provision is not None:
                self._parts.provision.note(batch.records)
        known.totals.add(self._parts.spools.booked(commit.spools, refused))

    def _book(
        self,
        charged: Sequence[Charge],
        batches: Sequence[SpoolBatch],
        now: UnixSeconds,
        *,
        carried: bool,
    ) -> None:
        """Add what was committed to the hour's sums."""
        known = self.known
        longest_seconds = _MOST_INTERVALS * self._settings.interval_seconds
        known.budgets.note(((it.hour_at, it.nanos) for it in charged), now)
        for it in staged(charged, known.prefill_ratios):
            known.recent.add_money(it.hour_at, it.worker, it.part, it.nanos)
        known.cost.note(charged, known.prefill_ratios, now, longest_seconds=longest_seconds)
        for record in (record for batch in batches for record in batch.records):
            known.cost.note_request(record)
            known.note_work(record)
            if record.usage is not None:
                hour_at = hour_of(record.ended_at)
                model = record.model_served or NO_MODEL
                known.budgets.add_work(hour_at, record.key, model, record.usage)
        for batch in batches:
            known.turns.note(batch.records)
        if carried:
            known.carried_at = now
