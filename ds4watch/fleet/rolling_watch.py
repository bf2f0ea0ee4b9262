"""Whether the new is worse than the old: one-sided tests over requests and prompts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TAIL_RATIO = 0.05
"""What is compared of latencies is their 95th percentile."""
_MOSTLY = 0.5
_MOSTLY_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Answered:
    """One request that a worker was given. first_byte_seconds: of streamed ones."""

    at: float
    ok: bool
    duration_seconds: float = 0.0
    first_byte_seconds: float | None = None


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
    """What was measured of the new and the old. quality: None as long as it is not known."""

    new: Tally = Tally()
    old: Baseline = Baseline()
    quality: Quality | None = None


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
    new, old = found.new, found.old
    slow = (
        ("latency", new.durations, old.answers, old.p95_seconds),
        ("time to first token", new.first_bytes, old.first_bytes, old.p95_first_byte_seconds),
    )
    return (
        why_failing(found, allowed)
        or next((why for it in slow if (why := _slower(*it, allowed))), "")
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


def _slower(
    what: str, new: Sequence[float], old_count: int, p95: float | None, allowed: Tolerance
) -> str:
    if p95 is None or not new:
        return ""
    limit = p95 * (1 + allowed.latency_margin_ratio)
    beyond = sum(it > limit for it in new)
    if beyond <= TAIL_RATIO * len(new):
        return ""
    chance = fisher(beyond, len(new), math.ceil(TAIL_RATIO * old_count), old_count)
    if chance >= allowed.significance:
        return ""
    return (
        f"{what}: {beyond} of {len(new)} took over {limit:.3g} s, where 95 % of the old took "
        f"{p95:.3g} s or less (p = {chance:.1g})"
    )


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
