"""The life of one worker: a pure machine from what is seen and wished to phase and deed.

    ABSENT → STARTING → LOADING → WARMING → READY → DRAINING → STOPPING → ABSENT
      ↑         └──────────┴─────────┴────────┴────────┤
      └──(back-off)── FAILED ←─────────────────────────┘        DRAINING → ASLEEP → WARMING
                        └──(one too many)──→ QUARANTINED ──(a person)──→ ABSENT
                                    WARMING ──(another model)──→ QUARANTINED

A green /health says nothing about generation, so READY is a canary that was answered, and a ready
worker without progress has to answer one again; two failures in a row, asked an interval apart,
and it is started anew. One is enough for who has work and stood still longer than its longest
prefill takes. Scrapes are no proof of death: who cannot be scraped is asked, like anyone else
without progress, and a canary that stands in a queue which moves is not held against it.
"""

from __future__ import annotations

from dataclasses import replace

from ds4watch.fleet.life import (
    NO_WORK_KNOWN,
    Deed,
    Life,
    LifeLimits,
    Seen,
    Work,
    death_of,
    died,
    failed,
    go,
    is_no_witness,
    progressed,
    proved,
    tried_anew,
    worked_on,
)
from ds4watch.fleet.wish import AS_SET, Wanted, Wish
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase

CANARY_FAILURES_ALLOWED = 2
QUIET_SECONDS = 3.0
"""Engines tell their load late, so who drains has to be seen idle for so long."""
SILENT_LOAD_SECONDS = 60.0
"""Who says nothing for so long while it loads makes no progress."""
LONGEST_LOAD = 3.0
"""So many times the time for a start are the end, whatever is said."""
_IS_COMING = (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)
MAY_DIE = (*_IS_COMING, WorkerPhase.READY, WorkerPhase.DRAINING, WorkerPhase.ASLEEP)


def deed(
    life: Life,
    limits: LifeLimits,
    now: UnixSeconds,
    wanted: Wanted = AS_SET,
    work: Work = NO_WORK_KNOWN,
) -> Deed:
    """Return what to do for a worker that stands so."""
    if life.phase is WorkerPhase.STOPPING or life.has_remains:
        return Deed.STOP
    goal = _goal(life, wanted, limits, now)
    match life.phase:
        case WorkerPhase.ABSENT | WorkerPhase.FAILED:
            # drained is loaded, also if it died before this daemon came
            is_due = now >= life.retry_at and goal is not Wish.STOPPED
            todo = Deed.START if is_due or limits.is_foreign else Deed.NOTHING
        case WorkerPhase.STARTING | WorkerPhase.LOADING:
            todo = Deed.PROBE
        case WorkerPhase.WARMING:
            todo = Deed.WARM_UP if _is_cold(life, limits) else Deed.CANARY
        case WorkerPhase.UNKNOWN:
            todo = Deed.CANARY if now >= life.retry_at else Deed.NOTHING
        case WorkerPhase.READY:
            todo = Deed.CANARY if _is_canary_due(life, limits, now, work) else Deed.NOTHING
        case WorkerPhase.DRAINING:
            is_over = goal is Wish.ASLEEP and _is_drained(life, limits, now, work)
            todo = Deed.SLEEP if is_over else Deed.NOTHING
        case WorkerPhase.ASLEEP:
            todo = _deed_asleep(life, goal, limits, now)
        case _:
            todo = Deed.NOTHING
    return todo


def wished(
    life: Life,
    wanted: Wanted,
    limits: LifeLimits,
    now: UnixSeconds,
    work: Work = NO_WORK_KNOWN,
) -> Life:
    """Return where the worker stands once it is on its way to what is wished."""
    goal = _goal(life, wanted, limits, now)
    has_to_go = goal is Wish.STOPPED or _is_restart_due(life, wanted, limits, now)
    why = wanted.why or f"wanted {goal.value}"
    match life.phase:
        case WorkerPhase.QUARANTINED if wanted.pardon_at > life.since and not life.has_remains:
            pardoned = go(life, WorkerPhase.ABSENT, f"quarantine lifted: {why}", now)
            return replace(pardoned, failures=0, failed_at=(), retry_at=0.0)
        case WorkerPhase.FAILED if goal is Wish.STOPPED and not life.has_remains:
            return go(life, WorkerPhase.ABSENT, why, now)
        case WorkerPhase.FAILED if life.since < wanted.pardon_at <= now:
            return replace(life, failures=0, failed_at=(), retry_at=min(life.retry_at, now))
        case _ if life.phase in (*_IS_COMING, WorkerPhase.ASLEEP) and has_to_go:
            return go(life, WorkerPhase.STOPPING, why, now)
        case WorkerPhase.READY if has_to_go or goal is not Wish.READY:
            return go(life, WorkerPhase.DRAINING, why, now)
        case WorkerPhase.DRAINING if has_to_go and _is_drained(life, limits, now, work):
            return go(life, WorkerPhase.STOPPING, why, now)
        case WorkerPhase.DRAINING if not has_to_go and goal is Wish.READY:
            return tried_anew(life, "wanted again; waiting for an answer", now)
        case _:
            return life


def is_as_wished(life: Life, wanted: Wanted, limits: LifeLimits, now: UnixSeconds) -> bool:
    """Return whether nothing is awaited of a worker: it stands where it is to stand."""
    rests_in = {
        Wish.READY: WorkerPhase.READY,
        Wish.ASLEEP: WorkerPhase.ASLEEP,
        Wish.DRAINED: WorkerPhase.DRAINING,
        Wish.STOPPED: WorkerPhase.ABSENT,
    }
    is_there = life.phase is rests_in[_goal(life, wanted, limits, now)]
    return is_there and (
        life.phase is WorkerPhase.ABSENT or not _is_restart_due(life, wanted, limits, now)
    )


def served(life: Life, at: UnixSeconds) -> Life:
    """Return the life of a worker that answered a request to its end: proof for who is not seen."""
    return progressed(life, at) if at > max(life.since, life.proved_at) else life


def advance(
    life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds, work: Work = NO_WORK_KNOWN
) -> Life:
    """Return where the worker stands after a look at it."""
    if seen.gone is not None:
        return _after_stop(life, seen, now)
    if life.phase in MAY_DIE and not seen.alive:
        return died(life, death_of(seen), limits, now, remedy=seen.remedy)
    if is_no_witness(life, seen):
        return replace(life, pardons=life.pardons + 1, asked_at=seen.asked_at)
    match life.phase:
        case WorkerPhase.STARTING | WorkerPhase.LOADING:
            life = _starting(life, seen, limits, now)
        case WorkerPhase.WARMING:
            life = _warming(life, seen, limits, now)
        case WorkerPhase.READY:
            life = _ready(life, seen, limits, now, work)
        case WorkerPhase.UNKNOWN:
            life = _unknown(life, seen, limits, now)
        case WorkerPhase.DRAINING if seen.slept is not None:
            life = _after_sleep(life, seen, limits, now)
        case WorkerPhase.ASLEEP:
            life = _asleep(life, seen, limits, now)
    return life


def _deed_asleep(life: Life, goal: Wish, limits: LifeLimits, now: UnixSeconds) -> Deed:
    if goal is not Wish.ASLEEP:
        return Deed.WAKE
    due = not life.proved_at <= now < life.proved_at + limits.canary_interval_seconds
    return Deed.ASK_ASLEEP if due else Deed.NOTHING


def _goal(life: Life, wanted: Wanted, limits: LifeLimits, now: UnixSeconds) -> Wish:
    """Return what can be had of what is wished."""
    match wanted.wish or Wish.READY:
        case Wish.ASLEEP if not limits.can_sleep or now < life.no_sleep_before:
            return Wish.READY
        case Wish.STOPPED if limits.is_foreign:
            return Wish.DRAINED
        case wish:
            return wish


def _is_restart_due(life: Life, wanted: Wanted, limits: LifeLimits, now: UnixSeconds) -> bool:
    return not limits.is_foreign and life.started_at < wanted.restart_at <= now


def _is_drained(life: Life, limits: LifeLimits, now: UnixSeconds, work: Work) -> bool:
    if now - life.since >= limits.drain_seconds:
        return True
    if work.quiet_since is None or work.quiet_until is None:
        return False
    return work.quiet_until - max(work.quiet_since, life.since) >= QUIET_SECONDS


def _is_canary_due(life: Life, limits: LifeLimits, now: UnixSeconds, work: Work) -> bool:
    last = max(life.proved_at, life.asked_at)
    wait = limits.canary_interval_seconds
    if work.is_busy:
        wait = min(wait, limits.stall_seconds)
    return not last <= now < last + wait  # a clock that was set back does not put it off


def _after_stop(life: Life, seen: Seen, now: UnixSeconds) -> Life:
    if not seen.gone:
        return replace(life, reason=f"something of it survives SIGKILL: {seen.detail}")
    life = replace(life, has_remains=False)
    if life.phase is not WorkerPhase.STOPPING:
        return life
    stopped = go(life, WorkerPhase.ABSENT, "stopped", now)
    return replace(stopped, retry_at=0.0)


def _starting(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.healthy and seen.sleeping:
        return replace(go(life, WorkerPhase.ASLEEP, "it sleeps", now), proved_at=now)
    if seen.healthy:
        return go(life, WorkerPhase.WARMING, "its port answers; waiting for a first answer", now)
    if limits.is_foreign:
        return failed(life, "it cannot be reached", limits, now)
    if now - life.tried_at > limits.start_timeout_seconds:
        return _late(life, seen, limits, now)
    if life.phase is WorkerPhase.STARTING:
        return go(life, WorkerPhase.LOADING, "loading the model", now)
    return life


def _late(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    """Return what becomes of a start that takes too long: one that still loads has longer."""
    usual, waited = limits.start_timeout_seconds, now - life.tried_at
    loads_on = 0 <= now - seen.said_at <= SILENT_LOAD_SECONDS
    if loads_on and waited <= LONGEST_LOAD * usual:
        return replace(life, reason=f"loading the model, over {usual:g} s: its log still grows")
    why = f"not healthy within {waited if loads_on else usual:.0f} s"
    silent = "" if loads_on or not seen.said_at else f", silent for {now - seen.said_at:.0f} s"
    return failed(life, f"{why}{silent}", limits, now)


def _warming(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.unfit:
        return replace(go(life, WorkerPhase.QUARANTINED, seen.unfit, now), has_remains=True)
    if seen.warmed:
        return _made_ready(replace(life, is_warm=True), now, "answered a canary, warmed up")
    if seen.warmed is False:  # once is enough; whether it still answers is for a canary to say
        return replace(life, is_warm=True, proved_at=0.0, reason=f"not warm: {seen.detail}")
    if seen.canary_ok:
        life = replace(life, proved_at=now)
        if not _is_cold(life, limits):
            return _made_ready(life, now)
        return replace(life, reason="it answered a canary; being warmed up")
    if seen.sleeping:
        return replace(go(life, WorkerPhase.ASLEEP, "it sleeps", now), proved_at=now)
    if now - life.tried_at > limits.start_timeout_seconds:
        return failed(life, f"no answer to a canary: {seen.detail}", limits, now)
    return life


def _is_cold(life: Life, limits: LifeLimits) -> bool:
    """Return whether it answered a canary since it was set about, and is to be warmed up."""
    return limits.warms_up and not life.is_warm and life.proved_at >= life.tried_at


def _made_ready(life: Life, now: UnixSeconds, why: str = "answered a canary") -> Life:
    ready = go(life, WorkerPhase.READY, why, now)
    return replace(ready, proved_at=now, asked_at=0.0, canary_failures=0, pardons=0)


def _ready(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds, work: Work) -> Life:
    if seen.canary_ok:
        return proved(life, now)
    if seen.canary_ok is None or worked_on(life, seen.asked_at, limits, now):
        return life
    if seen.sleeping:
        return replace(go(life, WorkerPhase.ASLEEP, "it sleeps, unasked", now), proved_at=now)
    failures = life.canary_failures + 1
    still_seconds = now - life.proved_at
    life = replace(life, canary_failures=failures, asked_at=seen.asked_at)
    if work.is_busy and still_seconds >= limits.stall_seconds:
        told = f"generation hangs: no step for {still_seconds:.0f} s with work in it"
        return failed(life, f"{told}, and no answer to a canary ({seen.detail})", limits, now)
    if failures < CANARY_FAILURES_ALLOWED:
        return life
    reason = f"generation hangs: {failures} canaries unanswered ({seen.detail})"
    return failed(life, reason, limits, now)


def _unknown(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.canary_ok:
        return _made_ready(life, now)
    if seen.canary_ok is None:
        return life
    again = failed(life, f"no answer to a canary: {seen.detail}", limits, now)
    return replace(again, since=life.since)


def _after_sleep(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.slept:
        asleep = go(life, WorkerPhase.ASLEEP, "put to sleep", now)
        return replace(asleep, proved_at=now, is_warm=False)
    refused = tried_anew(life, f"it would not sleep: {seen.detail}", now)
    return replace(refused, no_sleep_before=now + limits.backoff_max_seconds)


def _asleep(life: Life, seen: Seen, limits: LifeLimits, now: UnixSeconds) -> Life:
    if seen.woke or seen.sleeping is False:
        return tried_anew(life, "awake; waiting for an answer", now)
    if seen.sleeping:
        return replace(life, proved_at=now)
    if seen.woke is None:
        return life
    failures = life.canary_failures + 1
    if failures < CANARY_FAILURES_ALLOWED:
        return replace(life, canary_failures=failures)
    return failed(life, f"it cannot be woken: {seen.detail}", limits, now)
