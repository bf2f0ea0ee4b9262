"""Weeks of arrivals made of a trace of an hour: its own gaps, under a daily and a weekly shape.

The gaps of the trace, in blocks drawn by chance, run on a clock that goes as fast as the rate of
the moment: what comes in bunches there comes in bunches here. Days differ in height (lognormal)
and in when they begin, the rate wanders within a day, and once there is a burst of ten times the
rate, at an instant drawn by chance.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DAY = 86_400
_BLOCK = 200
_PEAK_PER_SECOND = 10.0
_SECONDS_PER_TOKEN = 0.03
_PREFILL_SECONDS = 0.3
_DAY_NOISE = 0.10
_BEGIN_NOISE_SECONDS = 240.0
_WANDER = 0.06
_WANDER_SECONDS = 3600.0
BURST_RATIO = 10.0
_WORKDAY = (
    (0.0, 0.12),
    (2.0, 0.12),
    (2.02, 0.60),
    (2.75, 0.60),
    (2.77, 0.12),
    (6.0, 0.12),
    (8.5, 0.25),
    (9.0, 0.90),
    (10.5, 1.00),
    (12.0, 0.95),
    (12.5, 0.60),
    (13.5, 0.60),
    (13.75, 0.95),
    (16.5, 0.95),
    (18.0, 0.45),
    (22.0, 0.30),
    (24.0, 0.12),
)
_WEEKEND = (
    (0.0, 0.10),
    (2.0, 0.10),
    (2.02, 0.60),
    (2.75, 0.60),
    (2.77, 0.10),
    (8.0, 0.12),
    (11.0, 0.30),
    (20.0, 0.35),
    (24.0, 0.10),
)
"""Hour of the day and share of the peak.

A batch at night comes at once, people within half an hour in the morning, from lunch sooner.
"""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Load:
    """Arrivals by second; the first day is a Monday. service_seconds: mean time in a slot."""

    per_second: Floats
    service_seconds: float
    burst_at: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Gaps between arrivals in units of their mean, and the mean time that a request runs."""

    gaps: Floats
    service_seconds: float


def read_trace(path: Path) -> Trace:
    """Read a trace of arrivals with token counts."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    at = np.array([datetime.fromisoformat(it["TIMESTAMP"][:26]).timestamp() for it in rows])
    tokens = np.array([float(it["GeneratedTokens"]) for it in rows])
    gaps = np.diff(np.sort(at))
    return Trace(gaps / gaps.mean(), _PREFILL_SECONDS + float(tokens.mean()) * _SECONDS_PER_TOKEN)


def made(trace: Trace, days: int, seed: int, *, burst_after_day: int) -> Load:
    """Return so many days of arrivals; the burst is after the given day, in 1 to 2 minutes."""
    chance = np.random.default_rng(seed)
    rate = np.concatenate([_day(number, chance) for number in range(days)])
    steps = days * DAY // 60
    wander = _wander(steps, chance).repeat(60)
    rate *= wander * _PEAK_PER_SECOND
    burst_at = int(chance.integers(burst_after_day * DAY, days * DAY - 600))
    rate[burst_at : burst_at + int(chance.integers(60, 121))] *= BURST_RATIO
    counts = [
        _arrivals(rate[at : at + DAY], trace.gaps, chance) for at in range(0, days * DAY, DAY)
    ]
    return Load(np.concatenate(counts), trace.service_seconds, burst_at)


def _day(number: int, chance: np.random.Generator) -> Floats:
    shape = np.array(_WEEKEND if number % 7 >= 5 else _WORKDAY)
    late = chance.normal(0, _BEGIN_NOISE_SECONDS)
    height = chance.lognormal(0, _DAY_NOISE)
    seconds = np.arange(DAY, dtype=np.float64)
    rate: Floats = np.interp(seconds - late, shape[:, 0] * 3600, shape[:, 1]) * height
    return rate


def _wander(steps: int, chance: np.random.Generator) -> Floats:
    keep = np.exp(-60 / _WANDER_SECONDS)
    noise = chance.normal(0, _WANDER * np.sqrt(1 - keep**2), steps)
    found = np.empty(steps)
    value = 0.0
    for each, by in enumerate(noise.tolist()):
        value = value * keep + by
        found[each] = value
    return np.exp(found)


def _arrivals(rate: Floats, gaps: Floats, chance: np.random.Generator) -> Floats:
    """Return arrivals by second: the trace's gaps on a clock that goes as fast as the rate."""
    clock = np.cumsum(rate)
    blocks = int(clock[-1] / _BLOCK * 1.2) + 10
    first = chance.integers(0, len(gaps) - _BLOCK, blocks)
    drawn = gaps[(first[:, None] + np.arange(_BLOCK)).ravel()]
    at = np.cumsum(drawn)
    seconds = np.searchsorted(clock, at[at < clock[-1]])
    return np.bincount(seconds, minlength=len(rate)).astype(np.float64)
