"""Periodic care: who wears is drained and reset or started anew, one at a time. Pure.

    idle ──(interval over, somebody wears)──→ round: one after another, each at most once
                                               │  begins only while it is quiet, nobody holds it,
                                               │  and `min_hot` others stay ready
                                               ├─ RESET: drained, prefix cache emptied, wanted again
                                               └─ RESTART: drained, stopped, started, ready again
    A worker that does not come back ends the round; nobody else is touched in it.

In a dry run a round only tells what it would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ds4watch.fleet.wish import Wanted, Wish
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase

PATIENCE_SECONDS = 3600.0
REST_SECONDS = 6 * 3600.0
"""A worker is left alone for so long after care: what did not help once is not done all day."""
_LOST = (WorkerPhase.FAILED, WorkerPhase.QUARANTINED, WorkerPhase.UNKNOWN)


class Cure(StrEnum):
    """What is done to a worker."""

    RESET = "reset"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Patient:
    """A worker as care sees it.

    why: what is amiss; empty if nothing is. cure: what helps. is_idle: nothing runs or waits in
    it. held: a person's hold is on it, or somebody else wishes something of it.
    """

    worker: str
    phase: WorkerPhase
    since: UnixSeconds
    models: tuple[str, ...] = ()
    why: str = ""
    cure: Cure = Cure.RESTART
    is_idle: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class CareLimits:
    """What care goes by. min_hot: ready workers that have to stay, and one for each model."""

    interval_seconds: float = 1800.0
    min_hot: int = 2
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Treatment:
    """A worker under care since `at`."""

    worker: str
    cure: Cure
    why: str
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class Care:
    """Where care stands. queue: who is still to be seen in this round."""

    round_at: UnixSeconds | None = None
    queue: tuple[str, ...] = ()
    under: Treatment | None = None
    treated_at: Mapping[str, UnixSeconds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """A line for the audit. is_dry: it was not done."""

    worker: str
    summary: str
    is_dry: bool = False


def step(
    care: Care, patients: Sequence[Patient], limits: CareLimits, now: UnixSeconds, *, quiet: bool
) -> tuple[Care, tuple[Told, ...]]:
    """Return where care stands after a look, and what is to be told.

    quiet: the fleet has next to nothing to do.
    """
    if care.under is not None:
        return _watched(care, care.under, patients, now)
    care = _opened(care, patients, limits, now)
    if not quiet:
        return care, ()
    by_name = {patient.worker: patient for patient in patients}
    told: list[Told] = []
    while care.queue and care.under is None:
        patient = by_name.get(care.queue[0])
        if patient is None or not patient.why:
            care = replace(care, queue=care.queue[1:])
        elif not may_leave(patient, patients, limits.min_hot):
            break
        else:
            care, line = _begun(care, patient, limits, now)
            told.append(line)
    return care, tuple(told)


def may_leave(patient: Patient, patients: Sequence[Patient], min_hot: int) -> bool:
    """Return whether a worker can be spared: enough others are ready, one for each of its models.

    Who is on the way out for any other reason does not count as ready.
    """
    if patient.phase is not WorkerPhase.READY or patient.held:
        return False
    others = [
        it for it in patients if it.phase is WorkerPhase.READY and it.worker != patient.worker
    ]
    covered = {model for other in others for model in other.models}
    return len(others) >= max(1, min_hot) and covered.issuperset(patient.models)


def wishes(care: Care) -> dict[str, Wanted]:
    """Return what care wishes of the worker that is under it."""
    under = care.under
    if under is None:
        return {}
    why = f"care: {under.why}"
    if under.cure is Cure.RESET:
        return {under.worker: Wanted(Wish.DRAINED, why=why)}
    return {under.worker: Wanted(restart_at=under.at, why=why)}


def is_reset_due(care: Care, patients: Sequence[Patient]) -> bool:
    """Return whether the worker under care is drained, so that its cache can be emptied."""
    under = care.under
    return (
        under is not None
        and under.cure is Cure.RESET
        and any(
            it.worker == under.worker and it.phase is WorkerPhase.DRAINING and it.is_idle
            for it in patients
        )
    )


def was_reset(care: Care, now: UnixSeconds) -> Care:
    """Return where care stands once the cache is empty, or could not be emptied."""
    return _ended(care, now)


def _opened(care: Care, patients: Sequence[Patient], limits: CareLimits, now: UnixSeconds) -> Care:
    """Begin a round if one is due: who is waited for since the last round is looked at anew."""
    if care.round_at is None:
        return replace(care, round_at=now)  # nothing wears at the start
    if care.round_at <= now < care.round_at + limits.interval_seconds:
        return care
    in_need = tuple(
        patient.worker
        for patient in patients
        if patient.why and not _rests(care, patient.worker, now)
    )
    return replace(care, round_at=now, queue=in_need)


def _rests(care: Care, worker: str, now: UnixSeconds) -> bool:
    at = care.treated_at.get(worker)
    return at is not None and at <= now < at + REST_SECONDS


def _begun(care: Care, patient: Patient, limits: CareLimits, now: UnixSeconds) -> tuple[Care, Told]:
    treatment = Treatment(patient.worker, patient.cure, patient.why, now)
    left = replace(care, queue=care.queue[1:])
    what = f"{patient.cure} of {patient.worker} when drained: {patient.why}"
    if limits.dry_run:
        seen = {**care.treated_at, patient.worker: now}
        return replace(left, treated_at=seen), Told(patient.worker, f"would: {what}", is_dry=True)
    return replace(left, under=treatment), Told(patient.worker, what)


def _watched(
    care: Care, under: Treatment, patients: Sequence[Patient], now: UnixSeconds
) -> tuple[Care, tuple[Told, ...]]:
    patient = next((it for it in patients if it.worker == under.worker), None)
    if patient is None:
        return _ended(care, now), ()
    is_back = patient.phase is WorkerPhase.READY and patient.since > under.at
    if under.cure is Cure.RESTART and is_back:
        took = patient.since - under.at
        return _ended(care, now), (Told(under.worker, f"care is over: ready after {took:.0f} s"),)
    if patient.phase in _LOST or not under.at <= now < under.at + PATIENCE_SECONDS:
        told = f"care ended without success: it is {patient.phase}; this round goes no further"
        return replace(_ended(care, now), queue=()), (Told(under.worker, told),)
    return care, ()


def _ended(care: Care, now: UnixSeconds) -> Care:
    if care.under is None:
        return care
    return replace(care, under=None, treated_at={**care.treated_at, care.under.worker: now})
