"""The life of one worker: a pure machine from what is seen to the next phase and the next deed.

    ABSENT → STARTING → LOADING → WARMING → READY
      ↑         └──────────┴─────────┴────────┴──→ FAILED ──(back-off)──→ ABSENT
    DRAINING → STOPPING → ABSENT on a wanted stop.

A green /health says nothing about generation, so READY is a canary that was answered, and a ready
worker without progress has to answer one again; two failures in a row, asked an interval apart,
and it is started anew. Scrapes are no proof of death: who cannot be scraped is asked, like anyone
else without progress, and a canary that stands in a queue which moves is not held against it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase

CANARY_FAILURES_ALLOWED = 2
_NOTHING_TO_SEE = (
    WorkerPhase.DRAINING,
    WorkerPhase.STOPPING,
    WorkerPhase.ABSENT,
    WorkerPhase.FAILED,  # that it is not alive is no new failure, and must not put off its start
)
SETTLED_SECONDS = 60.0
"""Ready for so long, a worker's earlier failures are forgotten: a crash loop backs off."""


class Deed(StrEnum):
    """What the supervisor is to do next for a worker."""

    NOTHING = "nothing"
    START = "start"
    PROBE = "probe"
    CANARY = "canary"


@dataclass(frozen=True, slots=True)
class LifeLimits:
    """Times that the machine goes by, in seconds."""

    start_timeout_seconds: float
    canary_interval_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a worker in one look; None is "not looked at".

    asked_at: when the canary was sent.
    """

    alive: bool
    asked_at: UnixSeconds = 0.0
    exit_code: int | None = None
    healthy: bool | None = None
    canary_ok: bool | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """Where a worker stands."""

    phase: WorkerPhase = WorkerPhase.ABSENT
    since: UnixSeconds = 0.0
    reason: str = ""
    started_at: UnixSeconds = 0.0
    proved_at: UnixSeconds = 0.0
    """When it last answered a canary, moved a counter, or answered a request to its end."""
    asked_at: UnixSeconds = 0.0
    """When the last unanswered canary was sent."""
    canary_failures: int = 0
    failures: int = 0
    """Failed starts and deaths since it was last ready for a while."""
    retry_at: UnixSeconds = 0.0


def backoff_seconds(failures: int, limits: LifeLimits) -> float:
    """Return the wait after that many failures in a row: doubling, bounded."""
    if failures <= 0:
        return 0.0
    return float(
        min(limits.backoff_max_seconds, limits.backoff_seconds * 2 ** min(failures - 1, 30))
    )


def deed(life: Life, limits: LifeLimits, now: UnixSeconds) -> Deed:
    """Return what to do for a worker that stands so."""
    match life.phase:
        case WorkerPhase.ABSENT:
            return Deed.START
        case WorkerPhase.FAILED:
            return Deed.START if now >= life.retry_at else Deed.NOTHING
        case WorkerPhase.STARTING | WorkerPhase.LOADING:
            return Deed.PROBE
        case WorkerPhase.WARMING:
            return Deed.CANARY
        case WorkerPhase.READY:
            last = max(life.proved_at, life.asked_at)
            # A clock that was set back does not put it off.
            due = not last <= now < last + limits.canary_interval_seconds
            return Deed.CANARY if due else Deed.NOTHING
        case _:
            return Deed.NOTHING


def started(life: Life, now: UnixSeconds) -> Life:
    """Return the life of a worker whose process was just started."""
    return replace(
        life,
        phase=WorkerPhase.STARTING,
        since=now,
        started_at=now,
        reason="process started",
        canary_failures=0,
    )


def could_not_start(life: Life, why: str, limits: LifeLimits, now: UnixSeconds) -> Life:
    """Return the life of a worker for which not even a process could be started."""
    return _failed(life, why, limits, now)


def adopted(started_at: UnixSeconds, now: UnixSeconds) -> Life:
    """Return the life of a worker that an earlier daemon started and that still runs."""
    return Life(
        phase=WorkerPhase.LOADING,
        since=now,
        started_at=max(started_at, now - 1.0),
        reason="adopted: it was running when the daemon came",
    )


def still_ready(life: Life, since: UnixSeconds) -> Life:
    """Return the life of a worker that was ready under the last daemon too: it serves on.

    Its proof is not of our time, so it has to answer a canary at the first look.
    """
    return replace(
        life, phase=WorkerPhase.READY, since=since, reason="adopted: it was ready before"
    )


def progressed(life: Life, now: UnixSeconds) -> Life:
    """Return the life of a worker that moved a counter: proof like a canary's."""
    return _proved(life, now) if life.phase is WorkerPhase.READY else life


def served(life: Life, at: UnixSeconds) -> Life:
    """Return the life of a worker that answered a request to its end: proof for who is not seen."""
    return progressed(life, at) if at > max(life.since, life.proved_at) else life


def advance(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    """Return where the worker stands after a look at it."""
    if life.phase in _NOTHING_TO_SEE:
        return life
    if not seen.alive:
        return _failed(life, _death(seen), limits, now)
    match life.phase:
        case WorkerPhase.STARTING | WorkerPhase.LOADING:
            return _starting(life, seen, limits, now)
        case WorkerPhase.WARMING:
            return _warming(life, seen, limits, now)
        case WorkerPhase.READY:
            return _ready(life, seen, limits, now)
        case _:
            return life


def _starting(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.healthy:
        return _go(life, WorkerPhase.WARMING, "its port answers; waiting for a first answer", now)
    if now - life.started_at > limits.start_timeout_seconds:
        waited = f"not healthy within {limits.start_timeout_seconds:g} s"
        return _failed(life, waited, limits, now)
    if life.phase is WorkerPhase.STARTING:
        return _go(life, WorkerPhase.LOADING, "loading the model", now)
    return life


def _warming(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.canary_ok:
        ready = _go(life, WorkerPhase.READY, "answered a canary", now)
        return replace(ready, proved_at=now, canary_failures=0)
    if now - life.started_at > limits.start_timeout_seconds:
        return _failed(life, f"no answer to a canary: {seen.detail}", limits, now)
    return life


def _ready(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.canary_ok:
        return _proved(life, now)
    if seen.canary_ok is None or _worked_on(life, seen.asked_at, limits, now):
        return life
    failures = life.canary_failures + 1
    life = replace(life, canary_failures=failures, asked_at=seen.asked_at)
    if failures < CANARY_FAILURES_ALLOWED:
        return life
    reason = f"generation hangs: {failures} canaries unanswered ({seen.detail})"
    return _failed(life, reason, limits, now)


def _worked_on(life: Life, asked_at: UnixSeconds, limits: LifeLimits, now: UnixSeconds) -> bool:
    """Return whether it did other work while the canary waited, and not long ago either."""
    silent_since = now - limits.canary_interval_seconds
    return max(asked_at, silent_since) < life.proved_at <= now


def _proved(life: Life, now: UnixSeconds) -> Life:
    settled = now - life.since >= SETTLED_SECONDS
    failures = 0 if settled else life.failures
    return replace(life, proved_at=now, canary_failures=0, failures=failures)


def _death(seen: Seen) -> str:
    if seen.exit_code is None:
        how = "its process is gone"
    elif seen.exit_code < 0:
        how = f"its process was ended by signal {-seen.exit_code}"
    else:
        how = f"its process ended with status {seen.exit_code}"
    return f"{how} {seen.detail}".rstrip()


def _failed(life: Life, reason: str, limits: LifeLimits, now: UnixSeconds) -> Life:
    failures = life.failures + 1
    failed = _go(life, WorkerPhase.FAILED, reason, now)
    return replace(failed, failures=failures, retry_at=now + backoff_seconds(failures, limits))


def _go(life: Life, phase: WorkerPhase, reason: str, now: UnixSeconds) -> Life:
    return replace(life, phase=phase, since=now, reason=reason)
