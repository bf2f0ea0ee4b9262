"""Carries out provisioning: looks, asks the planner, tells the supervisor, audits with values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ds4watch.cost.forecast import BIN_SECONDS
from ds4watch.cost.prices import price_at
from ds4watch.engine.load_ahead import LoadAhead
from ds4watch.engine.provision_bounds import ProvisionSettings, bounds, limits_of
from ds4watch.engine.provision_told import Book, Teller
from ds4watch.engine.provision_view import (
    IS_PAID,
    Seen,
    forecast_json,
    kv_usage_in,
    open_in,
    provision_samples,
    standing_of,
    waiting_in,
)
from ds4watch.engine.signals import POOL
from ds4watch.engine.warm_pool import Demand as Asking
from ds4watch.fleet.board import GatewayView
from ds4watch.fleet.pool import Facts
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.history.rows import AuditEntry
from ds4watch.model.action import Hold
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Sample
from ds4watch.model.usage import RequestRecord
from ds4watch.model.worker import FleetSnapshot, WorkerView
from ds4watch.policy.calendar import asked
from ds4watch.policy.provision import (
    Decision,
    Demand,
    Provision,
    ProvisioningLimits,
    Unit,
)
from ds4watch.policy.provisioning import step

_OPEN_SECONDS = 60.0
"""Open requests count as a mean of so long: what is over sooner asks for nobody."""
_ALL = ("*", POOL)


class Tending(Protocol):
    """Who tends the workers."""

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        """Make this all that `by` wishes."""
        ...

    def facts(self, above: By) -> dict[str, Facts]:
        """Return what is known of each worker; taken is whom somebody above that one decides."""
        ...


class Provisioning:
    """Looks every few seconds; owns what is to become of workers that may rest."""

    def __init__(
        self,
        supervisor: Tending,
        state: Book,
        settings: ProvisionSettings,
        ahead: LoadAhead,
        clock: Clock,
    ) -> None:
        self._supervisor = supervisor
        self._teller = Teller(state)
        self._settings = settings
        self._clock = clock
        self._ahead = ahead
        self._asking = Asking()
        self._open: dict[str, float] = {}
        self._states: dict[str, Provision] = {}
        self._wishes: dict[str, Wanted] = {}
        self._fleet = FleetSnapshot(0.0)
        self._of_worker: Mapping[str, str] = {}
        self._of_model: Mapping[str, str] = {}
        self._looked_at = 0.0
        self.seen: dict[str, Seen] = {}
        self.planned: Callable[[], int] = lambda: 0
        """How many workers are about to be taken away for a while, one after the other."""

    def note(self, records: Iterable[RequestRecord]) -> None:
        """Count requests by when they arrived; those that found nobody, too."""
        if not self._settings.enabled:
            return
        self._ahead.note(records, self._profile_of, self._is_crowded)

    async def step(
        self, fleet: FleetSnapshot, holds: Sequence[Hold], gateways: Iterable[GatewayView]
    ) -> None:
        """Look, if it is time to; tell the supervisor and the audit what changes."""
        now = self._clock.now()
        asking = self._asking.note(gateways, now)
        if not self._settings.enabled or 0 <= now - self._looked_at < self._settings.look_seconds:
            return
        self._fleet, is_dry = fleet, self.is_dry(now)
        self._of_worker = {view.id: view.profile for view in fleet.workers}
        self._of_model = {it: view.profile for view in fleet.workers for it in view.models}
        facts = self._facts(holds, now)
        wishes = dict(self._wishes)
        entries: list[AuditEntry] = []
        for profile, found in _by_profile(fleet).items():
            views = sorted(found, key=lambda it: _is_spare(facts, it.id))  # these rest first
            units = [self._unit(view, facts.get(view.id), now) for view in views]
            self._smooth(profile, views, now)
            least = 0 if all(_is_spare(facts, it.id) for it in views) else 1
            decision, look = self._decide(profile, views, units, asking, least, now, is_dry=is_dry)
            self.seen[profile] = look
            entries += self._teller.entries(look, decision, now, is_dry=is_dry)
            if not is_dry:
                wishes |= self._wished(profile, views, facts, decision)
        self._looked_at = now
        present = {view.id for view in fleet.workers}
        wishes = {name: it for name, it in wishes.items() if name in present}
        if not is_dry and wishes != self._wishes:
            self._wishes = wishes
            await self._supervisor.wish(By.PROVISIONING, wishes)
        if entries:
            await self._teller.tell(entries)
        if self._teller.keeps(now):
            await self._teller.keep(self._ahead.rows(), now)

    def is_dry(self, now: UnixSeconds) -> bool:
        """Return whether it is only told what would be done."""
        return now < self._settings.dry_until

    def samples(self) -> list[Sample]:
        """Return what is forecast, with its interval, and how many workers are wanted."""
        is_dry = self.is_dry(self._clock.now())
        return provision_samples(self.seen.values(), is_dry=is_dry) if self.seen else []

    def status_json(self) -> dict[str, Any]:
        """Return how it stands by profile, JSON-ready."""
        settings = self._settings
        is_dry, until = self.is_dry(self._clock.now()), settings.dry_until
        return {
            "enabled": settings.enabled,
            "dry_run": is_dry,
            "dry_run_until": until if is_dry and math.isfinite(until) else None,
            "profiles": [look.as_json() for _, look in sorted(self.seen.items())],
        }

    def as_json(self, hours: float) -> dict[str, Any]:
        """Return the next hours by profile, JSON-ready."""
        now, ahead = self._clock.now(), self._ahead
        bins = max(1, math.ceil(hours * 3600 / BIN_SECONDS))
        profiles = [
            forecast_json(
                look, ahead.forecast(profile, now, bins), bins, limits_of(self._settings, profile)
            )
            for profile, look in sorted(self.seen.items())
        ]
        coverage = self._settings.coverage
        return self.status_json() | {"at": now, "coverage": coverage, "profiles": profiles}

    def _decide(
        self,
        profile: str,
        views: Sequence[WorkerView],
        units: Sequence[Unit],
        asking: frozenset[str],
        least: int,
        now: UnixSeconds,
        *,
        is_dry: bool,
    ) -> tuple[Decision, Seen]:
        counts = self._ahead.arrivals(profile)
        counts.watch(now)
        lead, point = self._ahead.lead(profile, units, now)
        look = Seen(
            profile=profile,
            in_flight=self._open.get(profile),
            waiting=waiting_in(views),
            lead_seconds=lead,
            service_seconds=counts.service_seconds or 0.0,
            point=point,
        )
        state = self._states.get(profile, Provision())
        calendar, entry = asked(self._settings.calendar, profile, now, lead)
        ours = any(unit.is_ours for unit in units)
        demand = Demand(
            at=now,
            in_flight=look.in_flight,
            waiting=look.waiting,
            ahead=look.ahead,
            calendar=calendar,
            is_full=kv_usage_in(views) > self._settings.full_ratio,
            is_unserved=any(model in asking for view in views for model in view.models),
            planned=self.planned() if ours else 0,
        )
        state, decision = step(state, units, demand, self._limits(profile, views, lead, least))
        if is_dry:  # nothing is done: the next look finds the workers as they are
            state = Provision(wanted=state.wanted)
        else:
            self._ahead.note_wakes(profile, units, decision, now)
        self._states[profile] = state
        return decision, replace(look, decision=decision, calendar=entry)

    def _limits(
        self, profile: str, views: Sequence[WorkerView], lead: float, least: int
    ) -> ProvisioningLimits:
        own = {view.id for view in views}
        others = [it for it in self._fleet.workers if it.id not in own and self._is_on(it)]
        return bounds(
            self._settings,
            profile,
            others,
            goal=min(self._settings.min_hot, len(self._fleet.workers)),
            least=least,
            lead_seconds=lead,
            now=self._clock.now(),
        )

    def _is_on(self, view: WorkerView) -> bool:
        """Return whether a worker is paid for, or called; who was let go just now is not."""
        state = self._states.get(view.profile, Provision())
        return view.id in state.on if view.id in state.ours else view.phase in IS_PAID

    def _is_crowded(self, profile: str) -> bool:
        last = self.seen.get(profile)
        return last is not None and last.waiting > 0

    def _facts(self, holds: Sequence[Hold], now: UnixSeconds) -> dict[str, Facts]:
        held = {hold.target for hold in holds if now < hold.until_at}
        is_all = not held.isdisjoint(_ALL)
        found = self._supervisor.facts(By.PROVISIONING)
        return {name: replace(it, is_held=is_all or name in held) for name, it in found.items()}

    def _unit(self, view: WorkerView, fact: Facts | None, now: UnixSeconds) -> Unit:
        is_ours = fact is not None and self._is_ours(fact)
        price = price_at(self._settings.prices, view.profile, now, view.url)
        return Unit(view.id, standing_of(view.phase), is_ours=is_ours, price=price)

    def _is_ours(self, fact: Facts) -> bool:
        may_rest = fact.is_spare or (fact.can_sleep and self._settings.sleeps)
        return may_rest and not fact.is_taken and not fact.is_held

    def _smooth(self, profile: str, views: Sequence[WorkerView], now: UnixSeconds) -> None:
        """Take in how many requests are open, as a mean of a minute; unknown is not zero."""
        count = open_in(views)
        if count is None:
            self._open.pop(profile, None)
            return
        before = self._open.get(profile, count)
        part = min(1.0, max(0.0, now - self._looked_at) / _OPEN_SECONDS)
        self._open[profile] = before + (count - before) * part

    def _wished(
        self,
        profile: str,
        views: Sequence[WorkerView],
        facts: Mapping[str, Facts],
        decision: Decision,
    ) -> dict[str, Wanted]:
        """Return what is wished of the workers that are ours; of others, what was."""
        state = self._states[profile]
        why = {it.worker: it.why for it in decision.steps}
        found = {}
        for view in views:
            if view.id not in state.ours:
                continue
            fact, before = facts[view.id], self._wishes.get(view.id)
            rest = Wish.STOPPED if fact.is_spare else Wish.ASLEEP
            wish = Wish.READY if view.id in state.on else rest
            is_same = before is not None and before.wish is wish
            found[view.id] = (
                before if before and is_same else Wanted(wish, why=why.get(view.id, ""))
            )
        return found

    def _profile_of(self, record: RequestRecord) -> str | None:
        """Return whose request it was; one that found nobody is of who serves its model."""
        if record.worker:
            return self._of_worker.get(record.worker)
        return self._of_model.get(record.model_asked)


def _is_spare(facts: Mapping[str, Facts], worker: str) -> bool:
    fact = facts.get(worker)
    return fact is not None and fact.is_spare


def _by_profile(fleet: FleetSnapshot) -> dict[str, list[WorkerView]]:
    found: dict[str, list[WorkerView]] = {}
    for view in fleet.workers:
        found.setdefault(view.profile, []).append(view)
    return found
