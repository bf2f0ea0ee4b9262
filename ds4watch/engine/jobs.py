"""What goes by the calendar: folding and deleting history, measuring the quantization error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from ds4watch.config.profile import Profile
from ds4watch.engine.job_runs import JobRuns, Work
from ds4watch.engine.parts import Known
from ds4watch.engine.quality_run import METRIC, fixed_prompts, measure, pairs
from ds4watch.engine.signals import QualityReading, with_reading
from ds4watch.fleet.client import WorkerClient
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import AuditEntry, AuditKind, Retention
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.errors import EdgeReason, StoreError, WorkerError
from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerView
from ds4watch.quality.distributions import Distance, Metric
from ds4watch.telemetry.metrics import ProcessMetrics

_FOLD_SECONDS = 30
_FOLD_SPREAD_SECONDS = 480.0
"""A slot's work goes on until the next one is about to end, not in a burst after it."""
_PRUNE_SECONDS = 600
_PRUNE_STATE_SECONDS = 3600
_LOOK_SECONDS = 5
_LATE_SECONDS = 3600
"""A daemon that was busy or just came makes up for it."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How often, and how long things are kept. rollups_seconds: by the length of a bucket."""

    retention_seconds: float
    rollups_seconds: Mapping[int, float]
    state: Retention
    quality_interval_seconds: float


class Jobs:
    """The scheduler; entering starts it, leaving stops it."""

    def __init__(
        self,
        known: Known,
        settings: JobSettings,
        *,
        samples: SampleStore,
        state: StateStore,
        profiles: Mapping[str, Profile],
        client_of: Callable[[str], WorkerClient],
        metrics: ProcessMetrics,
        clock: Clock,
    ) -> None:
        self._known = known
        self._runs = JobRuns(known.jobs, state, metrics=metrics, clock=clock)
        self._settings = settings
        self._samples = samples
        self._state = state
        self._profiles = profiles
        self._client_of = client_of
        self._clock = clock
        self._tried_at: dict[str, float] = {}
        self._scheduler = AsyncIOScheduler(timezone="UTC")

    async def __aenter__(self) -> Self:
        self._add("fold", self._recorded("fold", self.fold), seconds=_FOLD_SECONDS)
        self._add("prune", self._recorded("prune", self.prune), seconds=_PRUNE_SECONDS)
        self._add(
            "prune_state",
            self._recorded("prune_state", self.prune_state),
            seconds=_PRUNE_STATE_SECONDS,
        )
        self._add("quality", self.measure_due, seconds=_LOOK_SECONDS)
        self._scheduler.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._scheduler.shutdown(wait=False)

    def also(self, name: str, run: Callable[[], Awaitable[None]], *, seconds: float) -> None:
        """Have something else done every so many seconds; to be said before entering."""
        self._add(name, run, seconds=seconds)

    def daily(self, name: str, work: Work, *, at: str) -> None:
        """Have something done each day at HH:MM (UTC); to be said before entering."""
        hour, minute = map(int, at.split(":"))
        self._scheduler.add_job(
            partial(_until_the_end, self._recorded(name, work)),
            CronTrigger(hour=hour, minute=minute, timezone="UTC"),
            id=name,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=_LATE_SECONDS,
        )

    def _add(self, name: str, run: Callable[[], Awaitable[None]], *, seconds: float) -> None:
        self._scheduler.add_job(
            partial(_until_the_end, run),
            "interval",
            seconds=seconds,
            id=name,
            max_instances=1,
            coalesce=True,
        )

    def _recorded(self, name: str, work: Work) -> Callable[[], Awaitable[None]]:
        """Return a job whose every run is kept."""
        return partial(self._runs.run, name, work)

    async def fold(self) -> str:
        """Compress scrapes that are due, and roll them up. Raises StoreError if some could not be.

        Those stay as they were, and are tried again.
        """
        report = await self._samples.fold(self._clock.now(), spread_seconds=_FOLD_SPREAD_SECONDS)
        if report.failures:
            raise StoreError("; ".join(report.failures[:3]), reason=EdgeReason.OTHER)
        return (
            f"{report.rows} scrapes to {report.chunks} chunks, {_kib(report.bytes_before)} to "
            f"{_kib(report.bytes_after)}; {report.settled} roll-ups and "
            f"{report.joined} chunks joined"
        )

    async def prune(self) -> str:
        """Delete samples and roll-ups that are older than they are kept."""
        now = self._clock.now()
        gone = await self._samples.prune(now - self._settings.retention_seconds)
        rollups = [
            await self._samples.prune_rollups(bucket_seconds, now - kept_seconds)
            for bucket_seconds, kept_seconds in self._settings.rollups_seconds.items()
        ]
        return f"{gone} scrapes and {sum(rollups)} roll-ups deleted"

    async def prune_state(self) -> str:
        """Delete what is over and older than it is kept."""
        gone = await self._state.prune(self._settings.state, self._clock.now())
        return f"{gone} rows deleted"

    async def measure_due(self) -> None:
        """Measure each quantized profile that was not measured within the interval."""
        now = self._clock.now()
        measured = {it.profile: it.at for it in self._known.quality if it.metric == METRIC}
        for quantized, reference in pairs(self._known.fleet, self._profiles):
            last = max(
                measured.get(quantized.profile, 0.0), self._tried_at.get(quantized.profile, 0.0)
            )
            if now - last >= self._settings.quality_interval_seconds:
                self._tried_at[quantized.profile] = now
                await self._runs.run("quality", partial(self.measure, quantized, reference))

    async def measure(self, quantized: WorkerView, reference: WorkerView) -> str:
        """Measure one pair and book the result. Raises WorkerError if it could not be measured."""
        prompts = fixed_prompts()
        began = self._clock.monotonic()
        found = await measure(quantized, reference, client_of=self._client_of, prompts=prompts)
        now, pair = self._clock.now(), (quantized.profile, reference.profile)
        values: dict[str, float | None] = {METRIC: None}
        if found is not None:
            values = {it.value: estimate.value for it, estimate in found.estimates.items()}
        for metric, value in values.items():
            tokens = found.tokens if found is not None else 0
            error = "" if found is not None else "see the log"
            took_seconds = self._clock.monotonic() - began
            run = QualityRun(
                now, *pair, metric, value, len(prompts), tokens, took_seconds, error=error
            )
            await self._state.quality.add_quality(run)
        entry = AuditEntry(now, AuditKind.QUALITY, quantized.profile, _told(*pair, found))
        await self._state.add_audit(entry)
        if found is None:
            raise WorkerError(entry.summary, reason=EdgeReason.OTHER, retryable=True)
        for metric, estimate in found.estimates.items():
            reading = QualityReading(*pair, metric.value, estimate.value, now)
            self._known.quality = with_reading(self._known.quality, reading)
        return entry.summary


async def _until_the_end(run: Callable[[], Awaitable[None]]) -> None:
    """Run a job; the scheduler's end breaks it off, which it would log as an exception."""
    with contextlib.suppress(asyncio.CancelledError):
        await run()


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:,.1f} KiB"


def _told(profile: str, reference: str, found: Distance | None) -> str:
    if found is None:
        return f"quantization error of {profile} could not be measured"
    error, kl, agreement = (
        found.estimates[it]
        for it in (Metric.MEAN_ABS_DELTA_LOGP, Metric.MEAN_KL, Metric.TOP1_AGREEMENT)
    )
    return (
        f"quantization error of {profile} against {reference}: {error.value:.4f} nats a token "
        f"(95 %: {error.low:.4f} to {error.high:.4f}), KL {kl.value:.4f}, "
        f"same first choice {agreement.value:.1%}"
    )
