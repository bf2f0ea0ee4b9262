"""Whether the new is worse than the old: one-sided tests over requests and prompts. Pure.

Times are compared with those of the old in the same moments: a machine that is slow for both says
nothing of a version. Where no old one is left, only with what it took before, by wider margins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

TAIL_RATIO = 0.05
"""What is compared of latencies is their 95th percentile."""
SLICE_REQUESTS = 3
"""So many requests of the new, one after the other, are compared with the old's meanwhile."""
_LASTING_RATIO = 0.25
APART_FACTOR = 3.0
"""What was measured at another time was measured under another load: margins are so much wider."""
_MOSTLY = 0.5
_MOSTLY_FAILURES = 5


Timed = tuple[float, float]
"""When a request ended, and what it took."""
Slice = tuple[int, int, int, int]
"""Slow ones and all of the new, slow ones and all of the old."""
_FIRST = "time to first token"


@dataclass(frozen=True, slots=True)
class Answered:
    """One request that a worker was given. first_byte_seconds: of streamed ones."""

    at: float
    ok: bool
    duration_seconds: float = 0.0
    first_byte_seconds: float | None = None


_TIMES: tuple[tuple[str, Callable[[Answered], float | None]], ...] = (
    ("latency", attrgetter("duration_seconds")),
    (_FIRST, attrgetter("first_byte_seconds")),
)


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of requests; durations are of those that went well."""

    total: int = 0
    failures: int = 0
    durations: tuple[float, ...] = ()
    first_bytes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """What of a tally outlives it. p95: None without requests that went well."""

    total: int = 0
    failures: int = 0
    answers: int = 0
    p95_seconds: float | None = None
    first_bytes: int = 0
    p95_first_byte_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    """Deviation from the reference by prompt, in nats, of new and old; without old: of the old."""

    new: tuple[float, ...] = ()
    old: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured of the new and the old. quality: None as long as it is not known.

    new_times, old_times: the answers of both from the same time on. was_starved: we ourselves did
    not get to run for a good part of it.
    """

    new: Tally = Tally()
    old: Baseline = Baseline()
    quality: Quality | None = None
    new_times: tuple[Answered, ...] = ()
    old_times: tuple[Answered, ...] = ()
    was_starved: bool = False


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is called worse: certain to `significance`, and by more than the margins."""

    significance: float = 0.001
    error_margin_ratio: float = 0.01
    latency_margin_ratio: float = 0.5
    quality_margin_nats: float = 0.1


def tally(answers: Iterable[Answered]) -> Tally:
    """Count requests."""
    found = list(answers)
    went_well = [it for it in found if it.ok]
    return Tally(
        total=len(found),
        failures=len(found) - len(went_well),
        durations=tuple(it.duration_seconds for it in went_well),
        first_bytes=tuple(
            it.first_byte_seconds for it in went_well if it.first_byte_seconds is not None
        ),
    )


def baseline(counted: Tally) -> Baseline:
    """Return what the new is compared with."""
    return Baseline(
        total=counted.total,
        failures=counted.failures,
        answers=len(counted.durations),
        p95_seconds=_p95(counted.durations),
        first_bytes=len(counted.first_bytes),
        p95_first_byte_seconds=_p95(counted.first_bytes),
    )


def why_worse(found: Evidence, allowed: Tolerance) -> str:
    """Return in what the new is worse, with the numbers; empty if it is not."""
    return (
        why_failing(found, allowed)
        or _slower_beside(found, allowed)
        or _slower_than_before(found, allowed)
        or _poorer(found.quality, allowed)
    )


def why_failing(found: Evidence, allowed: Tolerance) -> str:
    """Return by how much more often the new fails, with the numbers; empty if it does not."""
    return _failing(found.new, found.old, allowed)


def fisher(bad: int, total: int, other_bad: int, other_total: int) -> float:
    """Return Fisher's exact one-sided p: as many bad ones or more by chance, if both are alike."""
    all_bad, everything = bad + other_bad, total + other_total
    highest = min(total, all_bad)
    whole = _log_choose(everything, all_bad)
    chances = (
        math.exp(_log_choose(total, k) + _log_choose(other_total, all_bad - k) - whole)
        for k in range(bad, highest + 1)
        if all_bad - k <= other_total
    )
    return min(1.0, math.fsum(chances))


def _failing(new: Tally, old: Baseline, allowed: Tolerance) -> str:
    if not new.total:
        return ""
    ratio = new.failures / new.total
    told = f"{new.failures} of {new.total} requests failed"
    if old.total:
        old_ratio = old.failures / old.total
        by_far = ratio - old_ratio > allowed.error_margin_ratio
        chance = fisher(new.failures, new.total, old.failures, old.total)
        if by_far and chance < allowed.significance:
            return f"{told}, against {old.failures} of {old.total} on the old (p = {chance:.1g})"
    elif new.failures >= _MOSTLY_FAILURES and ratio > _MOSTLY:
        return f"{told}, and there is no old one to compare with"
    return ""


def sliced(new: Sequence[Timed], old: Sequence[Timed], limit: float) -> list[Slice]:
    """Return, by moments of some requests of the new each, how many of both took over `limit`.

    What ended before the first of the new began, or after the last, was at another time.
    """
    ordered = sorted(new)
    parts = [ordered[at : at + SLICE_REQUESTS] for at in range(0, len(ordered), SLICE_REQUESTS)]
    ends = [part[-1][0] for part in parts]
    starts = [min((at - took for at, took in new), default=0.0), *ends[:-1]]
    found = []
    for part, start, end in zip(parts, starts, ends, strict=True):
        beside = [value for at, value in old if start < at <= end]
        beyond = sum(value > limit for _, value in part)
        found.append((beyond, len(part), sum(value > limit for value in beside), len(beside)))
    return found


def stratified(slices: Iterable[Slice]) -> float:
    """Return the exact one-sided p over slices of time: as many of the new's or more by chance.

    Within a slice all are alike; from one to the next anything may change. For one slice it is
    Fisher's; the sum of such counts over slices has the convolution of their distributions.
    """
    spread, seen = np.ones(1), 0
    for bad, total, other_bad, other_total in slices:
        all_bad, everything = bad + other_bad, total + other_total
        whole = _log_choose(everything, all_bad)
        chances = [
            math.exp(_log_choose(total, k) + _log_choose(other_total, all_bad - k) - whole)
            if 0 <= all_bad - k <= other_total
            else 0.0
            for k in range(total + 1)
        ]
        spread, seen = np.convolve(spread, chances), seen + bad
    return min(1.0, float(spread[seen:].sum()))


def _slower_beside(found: Evidence, allowed: Tolerance) -> str:
    """Return in what the new was slower than the old at the same time."""
    for what, time_of in _TIMES:
        new, old = _timed(found.new_times, time_of), _timed(found.old_times, time_of)
        p95 = _p95([value for _, value in old])
        if p95 is None or not new:
            continue
        limit = p95 * (1 + allowed.latency_margin_ratio)
        beyond = sum(value > limit for _, value in new)
        if beyond <= TAIL_RATIO * len(new):
            continue
        slices = sliced(new, old, limit)
        chance = stratified(slices)
        if chance < allowed.significance and _is_lasting(slices):
            return _told(what, beyond, len(new), limit, p95, chance)
    return ""


def _is_lasting(slices: Sequence[Slice]) -> bool:
    """Return whether the new was slower more than once: one hitch makes many requests late."""
    slower = sum(bad * others > other_bad * count for bad, count, other_bad, others in slices)
    return slower >= min(len(slices), max(2, _LASTING_RATIO * len(slices)))


def _slower_than_before(found: Evidence, allowed: Tolerance) -> str:
    """Return in what the new is slower than the old was, where none is left to compare with."""
    if found.old_times or found.was_starved:
        return ""
    new, old = found.new, found.old
    first = (new.first_bytes, old.first_bytes, old.p95_first_byte_seconds)
    slow = (("latency", new.durations, old.answers, old.p95_seconds), (_FIRST, *first))
    for what, times, old_count, p95 in slow:
        if p95 is None or not times:
            continue
        limit = p95 * (1 + APART_FACTOR * allowed.latency_margin_ratio)
        beyond = sum(it > limit for it in times)
        if beyond <= TAIL_RATIO * len(times):
            continue
        chance = fisher(beyond, len(times), math.ceil(TAIL_RATIO * old_count), old_count)
        if chance < allowed.significance:
            return _told(what, beyond, len(times), limit, p95, chance)
    return ""


def _told(what: str, beyond: int, count: int, limit: float, p95: float, chance: float) -> str:
    return (
        f"{what}: {beyond} of {count} took over {limit:.3g} s, where 95 % of the old took "
        f"{p95:.3g} s or less (p = {chance:.1g})"
    )


def _timed(answers: Iterable[Answered], time_of: Callable[[Answered], float | None]) -> list[Timed]:
    found = ((it.at, time_of(it)) for it in answers if it.ok)
    return [(at, value) for at, value in found if value is not None]


def _poorer(found: Quality | None, allowed: Tolerance) -> str:
    if found is None or not found.new:
        return ""
    new = math.fsum(found.new) / len(found.new)
    old = math.fsum(found.old) / len(found.old) if found.old else 0.0
    if new <= old + allowed.quality_margin_nats:
        return ""
    if found.old:
        pairs = list(zip(found.new, found.old, strict=True))
        chance = _sign_test(sum(mine > theirs for mine, theirs in pairs), len(pairs))
        if chance >= _SIGN_SIGNIFICANCE:
            return ""
    beside = f"the old's {old:.3g}" if found.old else "what the old says"
    return f"quality: log-probabilities are off by {new:.3g} nats, against {beside}"


_SIGN_SIGNIFICANCE = 0.05
"""Eight prompts cannot give much less: seven of eight, or all."""


def _sign_test(worse: int, pairs: int) -> float:
    return sum(math.comb(pairs, k) for k in range(worse, pairs + 1)) / float(2**pairs)


def _p95(values: Sequence[float]) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return float(ordered[math.ceil((1 - TAIL_RATIO) * len(ordered)) - 1])


def _log_choose(total: int, count: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
