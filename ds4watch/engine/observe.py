"""The first half of a tick: look at everything, and let everybody see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from ds4watch.cost.attribution import per_hour
from ds4watch.engine.alert_signals import alert_samples, worker_tier_samples
from ds4watch.engine.collect import Collected, Reader
from ds4watch.engine.cost_signals import (
    anomaly_samples,
    budget_samples,
    cost_samples,
    hour_samples,
    key_budget_samples,
)
from ds4watch.engine.gateway_signals import admission_samples, gateway_samples
from ds4watch.engine.gateway_totals import GatewayTotals
from ds4watch.engine.ledger_signals import LedgerSignals
from ds4watch.engine.memory import memory_samples, used_ratio
from ds4watch.engine.parts import EngineSettings, Known, Parts
from ds4watch.engine.shown import LazySamples
from ds4watch.engine.sight import Sights
from ds4watch.engine.signals import (
    failure_samples,
    gpu_samples,
    policy_samples,
    quality_samples,
    standstill_samples,
    store_samples,
    worker_state_samples,
)
from ds4watch.engine.start_check import doubt_samples
from ds4watch.engine.stays import measured_prefill, startup_samples, stay_samples
from ds4watch.engine.targets import Registry, departures, registry
from ds4watch.fleet.prefill import PrefillRates
from ds4watch.history.ledger_values import SpoolBatch
from ds4watch.model.errors import EdgeReason
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import Sample, Schema, SeriesKey
from ds4watch.model.worker import FleetSnapshot
from ds4watch.scrape.gpu import GpuReport

SELF = Target(name="ds4watch", url="", labels=(("job", "ds4watch"),))
"""The target under which our own signals are kept, as a Prometheus that scrapes us would."""

_DROPPED = "ds4_samples_dropped_total"
_NO_VALUES = np.empty(0, dtype=np.float64)
_PREFILL_SECONDS = 15.0
"""Between two readings of the counters that tell how fast prefill is."""
_NOT_SERVING = ScrapeFailure(EdgeReason.GONE, "the worker does not serve at the moment")


class Observer:
    """Scrapes the fleet and publishes what it says. Writes into `known` what was seen."""

    def __init__(self, parts: Parts, settings: EngineSettings, known: Known, clock: Clock) -> None:
        self._parts = parts
        self._settings = settings
        self._clock = clock
        self._reader = Reader(parts.samples)
        self._registry = Registry()
        self._gpus = GpuReport()
        self._sights = Sights()
        self._own = Schema(0, ())
        self._tiers = parts.rules.tiers()
        self._known = known
        self._prefill = PrefillRates()
        self._gateways = GatewayTotals()
        self._ledger = LedgerSignals(settings.prices, settings.currency)
        self._prefill_due = 0.0
        self._is_told = False
        self._ended: tuple[str, ...] = ()
        """Targets whose series end once the wave is taken in."""
        self.batches: tuple[SpoolBatch, ...] = ()
        """What gateways had spooled when the last wave began."""

    async def collect(self) -> Collected:
        """Scrape what is due, and read what the pages say."""
        parts = self._parts
        parts.board.ask_stats()
        views = parts.supervisor.views()
        before, stopped = self._registry, parts.supervisor.stopped()
        self._registry = registry(before, views, parts.discovery.targets, stopped)
        targets = self._sights.spare(self._registry.targets, parts.supervisor.in_doubt())
        began = self._clock.monotonic()
        results, self._gpus, self.batches = await asyncio.gather(
            parts.scraper.wave(targets, self._clock.now()), parts.gpus.read(), parts.spools.read()
        )
        parts.telemetry.process.wave_seconds.observe(self._clock.monotonic() - began)
        parts.telemetry.process.scrapes.inc(len(results))
        for result in results:
            if result.failure is not None:
                parts.telemetry.process.scrape_failures.labels(result.failure.reason.value).inc()
        pages = [*results, *self._gone(before)]
        self._known.targets = self._registry.targets
        self._known.scraped.update((result.target.name, result) for result in results)
        collected = self._reader.read(pages, parts.supervisor.standstills())
        self._known.prefill_ratios = collected.prefill_ratios
        self._measure_prefill()
        self._known.sights = self._sights.note(results, views, collected.loads, self._clock.now())
        scraped_at = {it.target.name: it.at for it in results if it.failure is None}
        parts.supervisor.note_devices(used_ratio(self._gpus))
        parts.supervisor.note(collected.loads, collected.progress, scraped_at)
        return collected

    def _measure_prefill(self) -> None:
        now = self._clock.monotonic()
        if now < self._prefill_due:
            return
        self._prefill_due = now + _PREFILL_SECONDS
        parts = self._parts
        names = [view.id for view in parts.supervisor.views()]
        self._prefill.forget_all_but(names)
        self._prefill.note(measured_prefill(parts.live))
        parts.supervisor.note_prefill({name: self._prefill.rate(name) for name in names})

    def _gone(self, before: Registry) -> list[ScrapeResult]:
        """Return a failed scrape for each worker that was scraped and does not serve now.

        The series of those that were stopped or removed on purpose end after it.
        """
        now = self._clock.now()
        self._end_unclaimed(now)
        if self._registry is before:
            return []
        left = departures(before, self._registry)
        self._reader.forget_all_but(sorted(self._registry.names()))
        self._ended += left.ended
        return [ScrapeResult(it, now, 0, _NO_VALUES, _NOT_SERVING) for it in left.silent]

    def _end_unclaimed(self, now: UnixSeconds) -> None:
        """End the series of what an earlier daemon discovered, once it is known not to be there."""
        if self._known.unclaimed and self._parts.discovery.is_settled:
            for name in sorted(self._known.unclaimed - self._registry.names()):
                self._parts.live.remove_target(name, now)
            self._known.unclaimed = frozenset()

    def see(self, collected: Collected, now: UnixSeconds) -> ScrapeResult:
        """Give the wave to the rules; return our own samples as a scrape.

        Gateways are told at once of workers that stand otherwise now; `show` tells of loads.
        """
        parts, known = self._parts, self._known
        known.fleet = FleetSnapshot(now, parts.supervisor.views())
        self._is_told = parts.board.is_news(known.fleet)
        if self._is_told:
            parts.board.publish_fleet(known.fleet)
        known.per_hour = per_hour(known.fleet.workers, self._settings.prices, now)
        mine = self._own_samples(now)
        known.samples = LazySamples(collected.samples.rows, mine)
        kept = [*mine, *parts.telemetry.process.samples()]
        if not _are_of(kept, self._own):  # numbering takes a digest of them all
            series = tuple(SeriesKey(it.name, it.labels) for it in kept)
            self._own = parts.samples.intern(series)
        values = np.array([sample.value for sample in kept], dtype=np.float64)
        own = ScrapeResult(SELF, now, self._own.id, values)
        parts.live.append([*collected.results, own], parts.samples.schema)
        self._end(now)
        return own

    def _end(self, now: UnixSeconds) -> None:
        for name in self._ended:
            self._known.scraped.pop(name, None)
            self._parts.live.remove_target(name, now)
        self._ended = ()

    def show(self) -> None:
        """Let gateways and /metrics know what was seen; what is decided on it waits for neither."""
        parts, known = self._parts, self._known
        if not self._is_told:
            parts.board.publish_fleet(known.fleet)
        parts.telemetry.signals.publish(known.samples)

    def _own_samples(self, now: UnixSeconds) -> list[Sample]:
        known, parts = self._known, self._parts
        gateways = parts.board.gateways()
        self._gateways.note(gateways)
        inflight = {view.name: view.inflight for view in gateways}
        return [
            *worker_state_samples(known.fleet.workers),
            *standstill_samples(known.fleet.workers, parts.supervisor.standstills()),
            *failure_samples(known.fleet.workers),
            *stay_samples(parts.supervisor.stays()),
            *parts.pool.samples(known.fleet),
            *(parts.provision.samples() if parts.provision is not None else ()),
            *(parts.steering.samples() if parts.steering is not None else ()),
            *startup_samples(parts.supervisor.start_times.all()),
            *memory_samples(parts.supervisor.ladders, known.fleet.workers),
            *known.totals.samples(),
            *cost_samples(known.per_hour, known.spent, self._settings.currency),
            *hour_samples(known.cost, now, self._settings.currency),
            *self._ledger.samples(known.recent, known.fleet.workers, now),
            *anomaly_samples(known.cost, now, self._settings.currency),
            *budget_samples(known.budgets, now, self._settings.currency),
            *(key_budget_samples(parts.keys, self._settings.currency) if parts.keys else ()),
            *(parts.models.samples() if parts.models else ()),
            *policy_samples(parts.board.policy(), inflight),
            *self._gateways.samples(known.fleet.workers),
            *gateway_samples(gateways),
            *admission_samples(gateways),
            *gpu_samples(self._gpus),
            *quality_samples(
                known.quality,
                now,
                self._settings.quality_max_age_seconds,
                self._settings.golden_max_age_seconds,
            ),
            *doubt_samples(known.start_doubts),
            *known.routes.samples(
                known.fleet.workers, self._settings.prices, self._settings.currency, now
            ),
            *alert_samples(self._tiers, known.alerts),
            *worker_tier_samples(known.fleet.workers, known.alerts),
            *known.failed_rules,
            *(parts.rounds.samples() if parts.rounds is not None else ()),
            *store_samples(parts.samples, parts.state),
            Sample("ds4_scrapes_left_out_total", (), float(parts.scraper.left_out)),
            Sample(_DROPPED, (("reason", "late"),), float(parts.live.out_of_order)),
            Sample(_DROPPED, (("reason", "memory"),), float(parts.live.dropped_columns)),
        ]


def _are_of(samples: Sequence[Sample], schema: Schema) -> bool:
    return len(samples) == len(schema.series) and all(
        it.name == key.name and it.labels == key.labels
        for it, key in zip(samples, schema.series, strict=True)
    )
