"""The life of one worker as values: where it stands, what was seen of it, what to do next."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase

STALL_FLOOR_SECONDS = 15.0
STARVED_RATIO, PARDONS = 0.5, 3
"""Who waits and does not run for so much of it is no witness; so often in a row, then it counts."""
SETTLED_SECONDS = 60.0
"""Ready for so long, a worker's earlier failures are forgotten: a crash loop backs off."""


class Deed(StrEnum):
    """What the supervisor is to do next for a worker."""

    NOTHING = "nothing"
    START = "start"
    PROBE = "probe"
    CANARY = "canary"
    WARM_UP = "warm up"
    SLEEP = "sleep"
    WAKE = "wake"
    ASK_ASLEEP = "ask whether it sleeps"
    STOP = "stop"


class Remedy(StrEnum):
    """What can be done about a death before the next start.

    STEP_DOWN: it takes less memory then, so the death does not count towards quarantine (the
    ladder's own end bounds them). AT_END: nothing is left to lower, so it is quarantined.
    """

    NONE = "none"
    STEP_DOWN = "step down"
    AT_END = "at the end"


@dataclass(frozen=True, slots=True)
class LifeLimits:
    """What the machine goes by for one worker; times in seconds.

    stall_floor_seconds: a scrape that hangs holds the last load for its timeout (5 s), so what is
    believed has to be older (see `stall_floor_seconds`).
    stall_seconds: the longest that a busy engine may stand still (see `prefill`).
    warms_up: it answers a set of requests before it is ready, so that no user is the first.
    is_foreign: somebody else runs it: it is never started, slept, warmed up or stopped.
    """

    start_timeout_seconds: float
    canary_interval_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float
    drain_seconds: float = 120.0
    quarantine_after: int = 5
    quarantine_window_seconds: float = 21_600.0
    stall_floor_seconds: float = STALL_FLOOR_SECONDS
    stall_seconds: float = math.inf
    can_sleep: bool = False
    warms_up: bool = False
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What fresh scrapes say that a worker has to do.

    quiet_since, quiet_until: when the first and the last of the scrapes in a row were made that
    saw nothing run or wait in it; None if something does, or it is not known.
    """

    is_busy: bool = False
    quiet_since: UnixSeconds | None = None
    quiet_until: UnixSeconds | None = None


NO_WORK_KNOWN = Work()


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a worker in one look; None is "not looked at".

    asked_at: when the canary was sent. gone: nothing of it runs any more.
    """

    alive: bool
    asked_at: UnixSeconds = 0.0
    exit_code: int | None = None
    healthy: bool | None = None
    said_at: UnixSeconds = 0.0
    """When its log last grew; 0 is "not looked at"."""
    canary_ok: bool | None = None
    lost_ratio: float = 0.0
    """Of the time that an unanswered canary was waited for: in which we ourselves did not run."""
    warmed: bool | None = None
    sleeping: bool | None = None
    slept: bool | None = None
    woke: bool | None = None
    gone: bool | None = None
    unfit: str = ""
    """Why it must not serve: it is not the model that its profile was before."""
    detail: str = ""
    remedy: Remedy = Remedy.NONE


@dataclass(frozen=True, slots=True)
class Life:
    """Where a worker stands."""

    phase: WorkerPhase = WorkerPhase.ABSENT
    since: UnixSeconds = 0.0
    reason: str = ""
    started_at: UnixSeconds = 0.0
    tried_at: UnixSeconds = 0.0
    """When it was last set about to become ready: started, adopted, woken or wanted again."""
    proved_at: UnixSeconds = 0.0
    """When it last answered a canary, moved a counter, or answered a request to its end."""
    is_warm: bool = False
    """It was warmed up since its process was started or woken; or that was tried, in vain."""
    asked_at: UnixSeconds = 0.0
    """When the last unanswered canary was sent."""
    canary_failures: int = 0
    pardons: int = 0  # unanswered canaries in a row that were not counted
    failed_at: tuple[UnixSeconds, ...] = ()
    """Its last failed starts and deaths since it was last ready for a while."""
    failures: int = 0
    """How many those are."""
    retry_at: UnixSeconds = 0.0
    has_remains: bool = False
    """Something of a failed or stopping worker may still run: no other is started beside it."""
    no_sleep_before: UnixSeconds = 0.0
    """It would not sleep when asked: until then it is kept loaded."""


def stall_floor_seconds(scrape_interval_seconds: float, scrape_timeout_seconds: float) -> float:
    """Return how long no progress says nothing: for two scrapes, and one that hangs."""
    return max(STALL_FLOOR_SECONDS, 2 * scrape_interval_seconds + scrape_timeout_seconds)


def backoff_seconds(failures: int, limits: LifeLimits) -> float:
    """Return the wait after that many failures in a row: doubling, bounded."""
    if failures <= 0:
        return 0.0
    doubled = limits.backoff_seconds * 2 ** min(failures - 1, 30)
    return float(min(limits.backoff_max_seconds, doubled))


def started(life: Life, now: UnixSeconds) -> Life:
    """Return the life of a worker whose process was just started."""
    return replace(
        go(life, WorkerPhase.STARTING, "process started", now),
        started_at=now,
        tried_at=now,
        is_warm=False,
        canary_failures=0,
        asked_at=0.0,
    )


def came_up(old: Life, life: Life) -> bool:
    """Return whether a process that we started answered its first canary just now."""
    is_first = old.phase is WorkerPhase.WARMING and life.phase is WorkerPhase.READY
    return is_first and life.tried_at == life.started_at > 0


def could_not_start(life: Life, why: str, limits: LifeLimits, now: UnixSeconds) -> Life:
    """Return the life of a worker for which not even a process could be started.

    Trying costs next to nothing, and what is amiss (a driver, a folder) is mended elsewhere: it is
    tried again with back-off for as long as it takes, and never quarantined for it.
    """
    return replace(failed(life, why, limits, now, counts=False), has_remains=False)


def adopted(started_at: UnixSeconds, now: UnixSeconds) -> Life:
    """Return the life of a worker that an earlier daemon started and that still runs."""
    return Life(
        phase=WorkerPhase.LOADING,
        since=now,
        started_at=started_at,
        tried_at=now,
        reason="adopted: it was running when the daemon came",
    )


def ending(started_at: UnixSeconds, now: UnixSeconds) -> Life:
    """Return the life of a worker that an earlier daemon told to end, and that still runs."""
    told = "an earlier daemon told it to end"
    return go(adopted(started_at, now), WorkerPhase.STOPPING, told, now)


def still_ready(life: Life, since: UnixSeconds) -> Life:
    """Return the life of a worker that was ready under the last daemon too: it serves on.

    Its proof is not of our time, so it has to answer a canary at the first look.
    """
    return replace(
        life, phase=WorkerPhase.READY, since=since, reason="adopted: it was ready before"
    )


def still_quarantined(life: Life, since: UnixSeconds, reason: str) -> Life:
    """Return the life of a worker that the last daemon no longer started: nor does this one."""
    return replace(life, phase=WorkerPhase.QUARANTINED, since=since, reason=reason)


def progressed(life: Life, now: UnixSeconds) -> Life:
    """Return the life of a worker that moved a counter: proof like a canary's."""
    return proved(life, now) if life.phase is WorkerPhase.READY else life


def proved(life: Life, now: UnixSeconds) -> Life:
    """Return the life of a worker that showed that it works."""
    settled = now - life.since >= SETTLED_SECONDS
    return replace(
        life,
        proved_at=now,
        canary_failures=0,
        pardons=0,
        failures=0 if settled else life.failures,
        failed_at=() if settled else life.failed_at,
    )


def died(life: Life, reason: str, limits: LifeLimits, now: UnixSeconds, *, remedy: Remedy) -> Life:
    """Return the life after a death that nobody asked for."""
    after = failed(life, reason, limits, now, counts=remedy is not Remedy.STEP_DOWN)
    if remedy is Remedy.AT_END and not limits.is_foreign:
        return go(after, WorkerPhase.QUARANTINED, f"not started any more: {reason}", now)
    return after


def failed(
    life: Life, reason: str, limits: LifeLimits, now: UnixSeconds, *, counts: bool = True
) -> Life:
    """Return the life after a failure: wait and try again, or never again if it was one too many.

    Of somebody else's worker a failure only says that its state cannot be told.
    """
    failures = life.failures + 1
    if limits.is_foreign:
        wait = min(backoff_seconds(failures, limits), limits.canary_interval_seconds)
        unknown = go(life, WorkerPhase.UNKNOWN, reason, now)
        return replace(unknown, failures=failures, retry_at=now + wait, canary_failures=0)
    window = now - limits.quarantine_window_seconds
    instants = (*life.failed_at, *((now,) if counts else ()))[-limits.quarantine_after :]
    is_too_many = counts and len(instants) >= limits.quarantine_after and window <= instants[0]
    if is_too_many:
        phase = WorkerPhase.QUARANTINED
        reason = f"not started any more after {len(instants)} failures in a row, the last: {reason}"
    else:
        phase = WorkerPhase.FAILED
    return replace(
        go(life, phase, reason, now),
        failures=failures,
        failed_at=instants,
        retry_at=now + backoff_seconds(failures, limits),
        has_remains=True,
    )


def go(life: Life, phase: WorkerPhase, reason: str, now: UnixSeconds) -> Life:
    """Return the life in another phase."""
    return replace(life, phase=phase, since=now, reason=reason)


def tried_anew(life: Life, reason: str, now: UnixSeconds) -> Life:
    """Return the life of a worker that has to prove itself before it is ready again."""
    return replace(
        go(life, WorkerPhase.WARMING, reason, now), tried_at=now, asked_at=0.0, canary_failures=0
    )


def is_no_witness(life: Life, seen: Seen) -> bool:
    """Return whether a canary was not answered to us, who did not run; but not for ever."""
    return seen.canary_ok is False and seen.lost_ratio > STARVED_RATIO and life.pardons < PARDONS


def worked_on(life: Life, asked_at: UnixSeconds, limits: LifeLimits, now: UnixSeconds) -> bool:
    """Return whether it did other work while the canary waited, and not long ago either."""
    silent_since = now - limits.canary_interval_seconds
    return max(asked_at, silent_since) < life.proved_at <= now


def death_of(seen: Seen) -> str:
    """Return how a worker died."""
    if seen.exit_code is None:
        how = "its process is gone"
    elif seen.exit_code < 0:
        how = f"its process was ended by signal {-seen.exit_code}"
    else:
        how = f"its process ended with status {seen.exit_code}"
    return f"{how} {seen.detail}".rstrip()


def awaited(worker: str, life: Life) -> str:
    """Return what is awaited of a worker that is not as wished; of one given up, a person."""
    line = f"{worker}: {life.reason or life.phase.value}"
    return f"a person: {line}" if life.phase is WorkerPhase.QUARANTINED else line
