"""Functions over time, one series after another, as plainly as can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

Points = Sequence[tuple[float, float]]
"""(time, value), oldest first, at least one."""
Reference = Callable[[Points, float, float], float | None]
"""(points, start, end) -> the value, or None for no result."""


def growth(points: Points, start: float, end: float, *, counter: bool) -> float | None:
    if len(points) < 2:
        return None
    (first_at, first), (last_at, last) = points[0], points[-1]
    grown = last - first
    if counter:
        grown += sum(before for (_, before), (_, after) in pairwise(points) if after < before)
    sampled = last_at - first_at
    spacing = sampled / (len(points) - 1)
    to_start, to_end = first_at - start, end - last_at
    to_start = spacing / 2 if to_start >= 1.1 * spacing else to_start
    to_end = spacing / 2 if to_end >= 1.1 * spacing else to_end
    if counter and grown > 0 and first >= 0:
        to_start = min(to_start, sampled * first / grown)
    return grown * (sampled + to_start + to_end) / sampled


def rate(points: Points, start: float, end: float) -> float | None:
    grown = growth(points, start, end, counter=True)
    return None if grown is None else grown / (end - start)


def irate(points: Points, _start: float, _end: float) -> float | None:
    if len(points) < 2:
        return None
    (before_at, before), (last_at, last) = points[-2:]
    return (last if last < before else last - before) / (last_at - before_at)


def idelta(points: Points, _start: float, _end: float) -> float | None:
    return points[-1][1] - points[-2][1] if len(points) > 1 else None


def changes(points: Points, _start: float, _end: float) -> float:
    return sum(
        a != b and not (math.isnan(a) and math.isnan(b)) for (_, a), (_, b) in pairwise(points)
    )


def resets(points: Points, _start: float, _end: float) -> float:
    return sum(after < before for (_, before), (_, after) in pairwise(points))


def total(numbers: Sequence[float]) -> float:
    if all(map(math.isfinite, numbers)):
        return math.fsum(numbers)
    return sum(numbers)


def mean(numbers: Sequence[float]) -> float:
    return total(numbers) / len(numbers)


def variance(numbers: Sequence[float]) -> float:
    return mean([(number - mean(numbers)) ** 2 for number in numbers])


def quantile(q: float, numbers: Sequence[float]) -> float:
    ordered = sorted(numbers, key=lambda number: (not math.isnan(number), number))
    rank = q * (len(ordered) - 1)
    lower = math.floor(rank)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] * (1 - (rank - lower)) + ordered[upper] * (rank - lower)


def deviation_from_median(numbers: Sequence[float]) -> float:
    if any(map(math.isnan, numbers)):
        return math.nan
    median = quantile(0.5, numbers)
    return quantile(0.5, [abs(number - median) for number in numbers])


def line(points: Points, origin: float) -> tuple[float, float]:
    """Slope, and value at the origin, of the least-squares line."""
    numbers = [value for _, value in points]
    if all(number == numbers[0] for number in numbers):
        return (0.0, numbers[0]) if math.isfinite(numbers[0]) else (math.nan, math.nan)
    times = [at - origin for at, _ in points]
    n = len(points)
    products = [at * number for at, number in zip(times, numbers, strict=True)]
    covariance = total(products) - total(times) * total(numbers) / n
    slope = covariance / (total([at * at for at in times]) - total(times) ** 2 / n)
    return slope, total(numbers) / n - slope * total(times) / n


def deriv(points: Points, _start: float, _end: float) -> float | None:
    return line(points, points[0][0])[0] if len(points) > 1 else None


def predicted(points: Points, _start: float, end: float) -> float | None:
    if len(points) < 2:
        return None
    slope, now = line(points, end)
    return slope * 60 + now


def least(numbers: Sequence[float]) -> float:
    return min((number for number in numbers if not math.isnan(number)), default=math.nan)


def most(numbers: Sequence[float]) -> float:
    return max((number for number in numbers if not math.isnan(number)), default=math.nan)


def last_time_of(best: Callable[[Sequence[float]], float]) -> Reference:
    def when(points: Points, _start: float, _end: float) -> float:
        wanted = best([value for _, value in points])
        return [at for at, value in points if value == wanted or math.isnan(wanted)][-1]

    return when


def of_values(reduce: Callable[[Sequence[float]], float]) -> Reference:
    return lambda points, _start, _end: reduce([value for _, value in points])


OVER_TIME: dict[str, Reference] = {
    "rate(m[{w}])": rate,
    "increase(m[{w}])": lambda points, start, end: growth(points, start, end, counter=True),
    "delta(m[{w}])": lambda points, start, end: growth(points, start, end, counter=False),
    "irate(m[{w}])": irate,
    "idelta(m[{w}])": idelta,
    "changes(m[{w}])": changes,
    "resets(m[{w}])": resets,
    "deriv(m[{w}])": deriv,
    "predict_linear(m[{w}], 60)": predicted,
    "sum_over_time(m[{w}])": of_values(total),
    "avg_over_time(m[{w}])": of_values(mean),
    "min_over_time(m[{w}])": of_values(least),
    "max_over_time(m[{w}])": of_values(most),
    "count_over_time(m[{w}])": of_values(len),
    "first_over_time(m[{w}])": of_values(lambda numbers: numbers[0]),
    "last_over_time(m[{w}])": of_values(lambda numbers: numbers[-1]),
    "present_over_time(m[{w}])": of_values(lambda _numbers: 1.0),
    "stdvar_over_time(m[{w}])": of_values(variance),
    "stddev_over_time(m[{w}])": of_values(lambda numbers: variance(numbers) ** 0.5),
    "quantile_over_time(0.3, m[{w}])": of_values(lambda numbers: quantile(0.3, numbers)),
    "mad_over_time(m[{w}])": of_values(deviation_from_median),
    "ts_of_min_over_time(m[{w}])": last_time_of(least),
    "ts_of_max_over_time(m[{w}])": last_time_of(most),
    "ts_of_first_over_time(m[{w}])": lambda points, _start, _end: points[0][0],
    "ts_of_last_over_time(m[{w}])": lambda points, _start, _end: points[-1][0],
}

AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "avg": mean,
    "min": least,
    "max": most,
    "count": len,
    "group": lambda _numbers: 1.0,
    "stdvar": variance,
    "stddev": lambda numbers: variance(numbers) ** 0.5,
}
