"""Weeks of a fleet's hours made from recorded requests, with incidents. Knows no detector.

An hour is made of minutes drawn from a recorded hour, as many as its place in day and week asks
for; so prompts, answers and bursts are recorded ones. On top of that comes noise, see `Noise`.
The engine is a line: prefill and decode each take their time of a worker, an autoscaler keeps
workers at 60 % of it.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MONDAY_AT = 1_767_571_200 - 1_767_571_200 % 604_800 + 345_600
"""A Monday, 0:00 UTC."""
HOUR_SECONDS = 3600
HOURS_A_WEEK = 168
WARM_UP_WEEKS = 2
LEAST_GAP_HOURS = 6
BLOCK_TOKENS = 512
CACHE_BLOCKS = 20_000
PREFILL_TOKENS_PER_SECOND = 6_000.0
DECODE_TOKENS_PER_SECOND = 900.0
"""Of a worker that does nothing else."""
TARGET_UTILISATION = 0.6
TIMES = 6
"""A fleet serves so many crowds like the recorded one, each with its own bursts."""
LEAST_WORKERS = 4
PRICE = 2.5
"""Of an hour of the workers that are always there; those beyond cost 1.3 times that."""

Floats = NDArray[np.float64]


class Kind(StrEnum):
    """What happens; each moves one measure."""

    MISSES = "miss ratio up"
    PROMPTS = "prompt length creep"
    RETRIES = "retry storm"
    AUTOSCALER = "stuck autoscaler"
    PRICE = "price change"
    TRAFFIC = "half the traffic lost"


@dataclass(frozen=True, slots=True)
class Incident:
    """From hour `first` on, `hours` long. change: of its measure, 0.25 to 1, or below 0."""

    kind: Kind
    first: int
    hours: int
    change: float

    def at(self, hour: int) -> float:
        """Return the change in an hour; a creep begins at 25 % and grows to all of it."""
        if self.kind is not Kind.PROMPTS or self.hours == 1:
            return self.change
        return 0.25 + (self.change - 0.25) * (hour - self.first) / (self.hours - 1)


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations in logarithms. `slow` wanders over about a day, `fast` is an hour's."""

    traffic_slow: float = 0.07
    traffic_fast: float = 0.04
    trend_a_week: float = 0.02
    prompt_slow: float = 0.03
    prompt_fast: float = 0.015
    miss_slow: float = 0.04
    miss_fast: float = 0.02
    retries_slow: float = 0.5
    stage: float = 0.02
    unwatched_ratio: float = 0.01
    """Share of hours of which the daemon saw only a part."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded hour by minute: requests, prompt tokens, cached of them, answer tokens.

    weekend, night: how much of a weekday's, and of the day's peak, is left then.
    """

    name: str
    minutes: Floats
    weekend: float
    night: float


@dataclass(frozen=True, slots=True)
class Hour:
    """What is counted in an hour. Money in units of the currency."""

    at: int
    watched_seconds: float
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    retries: int
    worker_seconds: float
    spent: float
    used: float
    prefill: float
    """Money of prefill, of `used`."""


@dataclass(frozen=True, slots=True)
class Weeks:
    """A fleet's hours, the first WARM_UP_WEEKS without incidents."""

    name: str
    hours: Sequence[Hour]
    incidents: Sequence[Incident]
    by_hour: Mapping[int, Incident] = field(default_factory=dict)


def traces(folder: Path) -> list[Trace]:
    """Read the three recorded hours."""
    talks = _mooncake(folder / "mooncake-conversation.jsonl")
    hit_ratios = talks[:, 2] / np.maximum(1.0, talks[:, 1])
    # Azure's have no ids of blocks: their cached share moves from minute to minute as Mooncake's.
    relative = hit_ratios / hit_ratios.mean()
    return [
        Trace("azure-code", _azure(folder / "azure-2023-code.csv", 0.55 * relative), 0.35, 0.15),
        Trace("azure-conv", _azure(folder / "azure-2023-conv.csv", 0.5 * relative), 0.7, 0.3),
        Trace("mooncake", talks, 0.8, 0.4),
    ]


def _azure(path: Path, hit_ratios: Floats) -> Floats:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    begun = datetime.fromisoformat(rows[0]["TIMESTAMP"][:19])
    found = np.zeros((60, 4))
    for row in rows:
        after = datetime.fromisoformat(row["TIMESTAMP"][:19]) - begun
        minute = min(59, int(after.total_seconds() // 60))
        found[minute] += (1, int(row["ContextTokens"]), 0, int(row["GeneratedTokens"]))
    found = _whole(found)
    found[:, 2] = found[:, 1] * np.clip(np.resize(hit_ratios, len(found)), 0.0, 0.9)
    return found


def _mooncake(path: Path) -> Floats:
    """Read the trace; what is cached comes of going twice through it with a cache of blocks."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    cache: dict[tuple[bool, int], None] = {}
    found = np.zeros((60, 4))
    for second_time in (False, True):
        for row in rows:
            hits = _look_up(cache, [(second_time, it) for it in row["hash_ids"]])
            cached = min(hits * BLOCK_TOKENS, row["input_length"] - 1)
            if second_time:
                minute = min(59, int(row["timestamp"] // 60_000))
                found[minute] += (1, row["input_length"], cached, row["output_length"])
    return _whole(found)


def _whole(minutes: Floats) -> Floats:
    """Return what was recorded without its last minute, which is a part; idle ones stay."""
    return minutes[: np.flatnonzero(minutes[:, 0])[-1]]


def _look_up(cache: dict[tuple[bool, int], None], blocks: Sequence[tuple[bool, int]]) -> int:
    """Return how many leading blocks are there; then all are, the oldest being dropped."""
    hits = next((at for at, block in enumerate(blocks) if block not in cache), len(blocks))
    for block in blocks:
        cache.pop(block, None)
        cache[block] = None
    while len(cache) > CACHE_BLOCKS:
        del cache[next(iter(cache))]
    return hits


def drawn(trace: Trace, dice: np.random.Generator, count: int, hours: int) -> list[Incident]:
    """Return incidents of all kinds in turn, at places drawn, not closer than some hours."""
    misses = 1 - trace.minutes[:, 2].sum() / trace.minutes[:, 1].sum()
    found: list[Incident] = []
    kinds = list(Kind)
    taken = np.zeros(hours, dtype=bool)
    taken[: WARM_UP_WEEKS * HOURS_A_WEEK] = True
    while len(found) < count:
        kind = kinds[len(found) % len(kinds)]
        long = int(dice.integers(1, 7))
        first = int(dice.integers(0, hours - long))
        if taken[max(0, first - LEAST_GAP_HOURS) : first + long + LEAST_GAP_HOURS].any():
            continue
        taken[first : first + long] = True
        found.append(Incident(kind, first, long, _change(kind, float(misses), dice)))
    return sorted(found, key=lambda it: it.first)


def _change(kind: Kind, misses: float, dice: np.random.Generator) -> float:
    if kind is Kind.MISSES:  # more than everything cannot miss
        return float(dice.uniform(0.25, min(1.0, 0.95 / misses - 1)))
    change = float(dice.uniform(0.25, 1.0))
    if kind is Kind.TRAFFIC:
        return -float(dice.uniform(0.25, 0.75))
    if kind is Kind.PRICE and dice.random() < 0.3:
        return -float(dice.uniform(0.25, 0.6))
    return change


def weeks(
    trace: Trace, count: int, incidents: Sequence[Incident], seed: int, noise: Noise
) -> Weeks:
    """Return `count` weeks of a fleet that serves what the trace has, peaks as recorded."""
    dice = np.random.default_rng(seed)
    hours = count * HOURS_A_WEEK
    by_hour = {at: it for it in incidents for at in range(it.first, it.first + it.hours)}
    loads = _loads(trace, hours, by_hour, dice, noise)
    return Weeks(trace.name, _served(loads, by_hour, dice, noise), incidents, by_hour)


def _loads(
    trace: Trace,
    hours: int,
    by_hour: Mapping[int, Incident],
    dice: np.random.Generator,
    noise: Noise,
) -> Floats:
    """Return requests, prompt tokens, cached, answer tokens and retries of each hour."""
    traffic = _wander(hours, noise.traffic_slow, noise.traffic_fast, dice)
    traffic += np.arange(hours) / HOURS_A_WEEK * dice.normal(0.0, noise.trend_a_week)
    prompts = np.exp(_wander(hours, noise.prompt_slow, noise.prompt_fast, dice))
    misses = np.exp(_wander(hours, noise.miss_slow, noise.miss_fast, dice))
    retries = 0.01 * np.exp(_wander(hours, noise.retries_slow, 0.3, dice))
    found = np.zeros((hours, 5))
    for at in range(hours):
        incident = by_hour.get(at)
        changed = {incident.kind: incident.at(at)} if incident is not None else {}
        shape = _shape(trace, at) * math.exp(traffic[at]) * (1 + changed.get(Kind.TRAFFIC, 0.0))
        minutes = trace.minutes[
            dice.integers(0, len(trace.minutes), dice.poisson(60 * TIMES * shape))
        ]
        requests, prompt, cached, answer = minutes.sum(axis=0)
        prompt_ratio = prompts[at] * (1 + changed.get(Kind.PROMPTS, 0.0))
        miss = (1 - cached / max(1.0, prompt)) * misses[at]
        miss = min(0.98, miss * (1 + changed.get(Kind.MISSES, 0.0)))
        again = dice.poisson(requests * (retries[at] + changed.get(Kind.RETRIES, 0.0)))
        prompt *= prompt_ratio
        found[at] = requests, prompt, prompt * (1 - miss), answer, again
    return found


def _served(
    loads: Floats, by_hour: Mapping[int, Incident], dice: np.random.Generator, noise: Noise
) -> list[Hour]:
    """Return the hours with workers and money."""
    prefill = (loads[:, 1] - loads[:, 2]) / PREFILL_TOKENS_PER_SECOND
    work = prefill + loads[:, 3] / DECODE_TOKENS_PER_SECOND
    again = 1 + loads[:, 4] / np.maximum(1.0, loads[:, 0])
    needed = work * again / HOUR_SECONDS / TARGET_UTILISATION
    always = max(LEAST_WORKERS, int(np.median(needed)))
    found = []
    for at, (requests, prompt, cached, answer, retries) in enumerate(loads):
        incident = by_hour.get(at)
        changed = {incident.kind: incident.at(at)} if incident is not None else {}
        # It follows within the hour, half of it late.
        asked = 0.5 * needed[at] + 0.5 * needed[max(0, at - 1)]
        workers = max(LEAST_WORKERS, math.ceil(max(asked, needed[at])))
        held = math.ceil(workers * (1 + changed.get(Kind.AUTOSCALER, 0.0)))
        price = PRICE * (1 + changed.get(Kind.PRICE, 0.0))
        spent = price * (min(held, always) + 1.3 * max(0, held - always))
        load = needed[at] * TARGET_UTILISATION / held
        used = spent * (1 - math.exp(-4 * load))
        share = prefill[at] / work[at] if work[at] else 0.0
        seen = float(dice.uniform(0, 0.9)) if dice.random() < noise.unwatched_ratio else 1.0
        found.append(
            Hour(
                MONDAY_AT + at * HOUR_SECONDS,
                seen * HOUR_SECONDS,
                int(requests * seen),
                int(prompt * seen),
                int(cached * seen),
                int(answer * seen),
                int(retries * seen),
                held * seen * HOUR_SECONDS,
                spent * seen,
                used * seen,
                used * seen * min(1.0, share * math.exp(dice.normal(0.0, noise.stage))),
            )
        )
    return found


def _shape(trace: Trace, at: int) -> float:
    """Return an hour's share of the peak: low at 4:00, a plateau over the working day."""
    day, hour = divmod(at % HOURS_A_WEEK, 24)
    wave: float = 0.5 - 0.5 * math.cos((hour - 4) / 24 * 2 * math.pi)
    share = trace.night + (1 - trace.night) * math.pow(wave, 0.8)
    weekday = (0.96, 1.0, 1.02, 1.0, 0.92)
    return share * (weekday[day] if day < 5 else trace.weekend)


def _wander(hours: int, slow: float, fast: float, dice: np.random.Generator) -> Floats:
    """Return noise that forgets a day's way in a day, and on top of it an hour's own."""
    kept = math.exp(-1 / 24)
    steps = dice.normal(0.0, slow * math.sqrt(1 - kept * kept), hours)
    found = np.empty(hours)
    level = dice.normal(0.0, slow)
    for at, step in enumerate(steps):
        level = kept * level + step
        found[at] = level
    return found + dice.normal(0.0, fast, hours)
