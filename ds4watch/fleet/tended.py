"""A worker under care, and what is known of it; changed on the event loop only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ds4watch.config.profile import Profile, WorkClass
from ds4watch.fleet.backends import Backend
from ds4watch.fleet.command import can_sleep
from ds4watch.fleet.life import (
    NO_WORK_KNOWN,
    Deed,
    Life,
    LifeLimits,
    Work,
    progressed,
    still_quarantined,
    still_ready,
)
from ds4watch.fleet.pool import Facts, idle_since
from ds4watch.fleet.prefill import longest_prefill_seconds
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.stillness import Stillness, looked
from ds4watch.fleet.warm_up import has_warm_up
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerLoad, WorkerPhase, WorkerView

INFLIGHT_PER_SEQUENCE = 16
"""So many wait behind each sequence of a batch, at most: they are quickly served, or shed."""


@dataclass(frozen=True, slots=True)
class Stay:
    """How a worker's time went: seconds in each phase since the daemon's start, and in this one."""

    worker: str
    profile: str
    seconds: Mapping[WorkerPhase, float]
    since_seconds: float


class Tended:
    """A worker's spec, its life, and what its pages say."""

    def __init__(self, spec: WorkerSpec, life: Life, now: UnixSeconds) -> None:
        self.spec = spec
        self.running = spec
        """Its spec as it was started, with what a memory ladder lowered."""
        self.may_sleep = may_sleep(spec)
        self.api_key_file: str | None = None
        """What holds the key that it asks for."""
        self.next_spec: WorkerSpec | None = None
        """What it is to run from its next start on."""
        self.life = life
        self.load = WorkerLoad()
        self.last_load = WorkerLoad()
        """As last reported, however long ago; for the story of its end."""
        self.progress: float | None = None
        self.prefill_rate: float | None = None
        self.is_to_warm = False
        self.warmed_at: UnixSeconds = 0.0
        self.warm_up_seconds: float | None = None
        self.warming_until: UnixSeconds | None = None
        """When our last warm-up of it ended, well or not; infinite while it runs."""
        self.idle_since: UnixSeconds | None = None
        """None: it works, or that is not known."""
        self.work = NO_WORK_KNOWN
        self.still = Stillness()
        self.log_begins_at = 0
        self.log_size = 0
        self.said_at: UnixSeconds = 0.0
        """When its log was last seen to have grown; 0: not seen yet."""
        self.had_served = False
        """Its process was ready once."""
        self.kernel_kills: int | None = None
        """As last counted before its death."""
        self.leaves = False
        """No longer in the fleet: forgotten once it is absent."""
        self._stayed: dict[WorkerPhase, float] = {}
        self._counted_until = now

    def note(
        self,
        load: WorkerLoad,
        progress: float | None,
        scraped_at: UnixSeconds | None,
        now: UnixSeconds,
    ) -> None:
        """Take in what its page says; `scraped_at` is None if it was not scraped anew."""
        moved = self._moved(load, progress)
        if moved:
            self.life = progressed(self.life, now)
        is_own = self.still.looks != 0
        self.idle_since = idle_since(self.idle_since, load, now, moved=moved, is_own=is_own)
        self.still = looked(self.still, load, now, moved=moved)
        self.work = _work(self.work, load, scraped_at, moved=moved)
        self.load, self.progress = load, progress
        if load != WorkerLoad():
            self.last_load = load

    def begins(self, log_begins_at: int) -> None:
        """Forget what an earlier process said."""
        if self.next_spec is not None:
            self.spec, self.next_spec = self.next_spec, None
            self.may_sleep = may_sleep(self.spec)
        self.log_begins_at, self.had_served = log_begins_at, False
        self.log_size, self.said_at = log_begins_at, 0.0
        self.last_load, self.still, self.work = WorkerLoad(), Stillness(), NO_WORK_KNOWN

    def note_log(self, size: int, now: UnixSeconds) -> None:
        """Take in how long its log is; a cut is as good as growth, it comes of that."""
        if size != self.log_size or not self.said_at:
            self.log_size, self.said_at = size, now

    def count_stay(self, now: UnixSeconds) -> None:
        """Book the time since the last booking on the phase that it is in."""
        stayed = max(0.0, now - self._counted_until)
        self._stayed[self.life.phase] = self._stayed.get(self.life.phase, 0.0) + stayed
        self._counted_until = now

    def stay(self, now: UnixSeconds) -> Stay:
        """Return how its time went."""
        self.count_stay(now)
        since = max(0.0, now - self.life.since)
        return Stay(self.spec.id, self.spec.profile.name, dict(self._stayed), since)

    def view(self, backend: Backend) -> WorkerView:
        """Return it as the rest of the system sees it."""
        life = self.life
        return WorkerView(
            id=self.spec.id,
            profile=self.spec.profile.name,
            models=self.spec.profile.served_names,
            url=backend.url(self.spec),
            phase=life.phase,
            since=life.since,
            load=self.load,
            reason=life.reason,
            pid=backend.pid(self.spec),
            max_inflight=most_inflight(self.running.profile),
            is_current=self.next_spec is None and not self.leaves,
            is_for_long=self.running.profile.work is WorkClass.LONG,
            max_model_len=self.running.profile.max_model_len,
            abilities=self.running.profile.abilities,
            api_key_file=self.api_key_file,
        )

    def facts(self, *, is_taken: bool) -> Facts:
        """Return what the warm pool goes by."""
        return Facts(
            can_sleep=self.may_sleep,
            is_spare=self.spec.is_spare,
            is_taken=is_taken or self.leaves,
            idle_since=self.idle_since,
            warmed_at=self.warmed_at,
            warm_up_seconds=self.warm_up_seconds,
            warming_until=self.warming_until,
        )

    def next_deed(self, todo: Deed) -> Deed:
        """Return what to do for it: what the machine says, or what it was asked beside."""
        if todo is not Deed.NOTHING or not self.is_to_warm:
            return todo
        self.is_to_warm = False
        return Deed.WARM_UP if self.life.phase is WorkerPhase.READY else todo

    def _moved(self, load: WorkerLoad, progress: float | None) -> bool:
        """Return whether the engine did something since the last look.

        A prefill in chunks moves the KV cache's gauge, and no counter before its first token.
        """
        pairs = ((progress, self.progress), (load.kv_usage_ratio, self.load.kv_usage_ratio))
        return any(new is not None and old is not None and new != old for new, old in pairs)


def may_sleep(spec: WorkerSpec) -> bool:
    """Return whether a worker can be put to sleep."""
    return spec.url is None and can_sleep(spec.profile)


def limits_for(base: LifeLimits, worker: Tended, times: StartTimes) -> LifeLimits:
    """Return what the machine goes by for one worker."""
    profile, is_foreign = worker.running.profile, worker.spec.url is not None
    return replace(
        base,
        start_timeout_seconds=times.timeout_seconds(
            profile.name, base.start_timeout_seconds, profile.expected_start_seconds
        ),
        stall_seconds=longest_prefill_seconds(
            profile.max_model_len, worker.prefill_rate, floor_seconds=base.stall_floor_seconds
        ),
        can_sleep=worker.may_sleep,
        warms_up=not is_foreign and has_warm_up(profile),
        is_foreign=is_foreign,
    )


def most_inflight(profile: Profile) -> int | None:
    """Return how many requests the gateway may have open at a worker; None if not limited.

    What a memory ladder left of `max_num_seqs` bounds it, whatever the profile says.
    """
    seqs = profile.max_num_seqs
    by_batch = None if seqs is None else INFLIGHT_PER_SEQUENCE * seqs
    known = [limit for limit in (profile.max_inflight, by_batch) if limit is not None]
    return min(known, default=None)


def has_left(worker: Tended) -> bool:
    """Return whether nothing of a worker that is to leave is left to tend."""
    life = worker.life
    if worker.spec.url is not None:
        return life.phase is not WorkerPhase.READY
    is_out = life.phase in (WorkerPhase.ABSENT, WorkerPhase.QUARANTINED)
    return is_out and not life.has_remains


def resumed(life: Life, spec: WorkerSpec, last: WorkerView, backend: Backend) -> Life:
    """Return the life that goes on from what the last daemon saw of the worker."""
    if life.phase is WorkerPhase.STOPPING:
        return life
    is_same = (backend.url(spec), backend.pid(spec)) == (last.url, last.pid)
    if last.phase is WorkerPhase.READY and is_same:
        return still_ready(life, last.since)
    if last.phase is WorkerPhase.DRAINING and is_same:
        return replace(life, phase=last.phase, since=last.since, reason=last.reason)
    if last.phase is WorkerPhase.QUARANTINED and life.phase is WorkerPhase.ABSENT:
        return still_quarantined(life, last.since, last.reason)
    return life


def _work(before: Work, load: WorkerLoad, scraped_at: UnixSeconds | None, *, moved: bool) -> Work:
    """Return what it has to do; quiet is only who says so anew, again and again."""
    counts = (load.running, load.waiting)
    is_busy = any(count is not None and count > 0 for count in counts)
    if is_busy or moved or load.running is None:
        return Work(is_busy=is_busy)
    if scraped_at is None:
        return before
    since = before.quiet_since
    return Work(quiet_since=scraped_at if since is None else since, quiet_until=scraped_at)
