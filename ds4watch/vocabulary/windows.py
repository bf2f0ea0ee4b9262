"""Ratios and rates over the last minute, from counters that may start anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, Sample, labels_of

WINDOW_SECONDS = 60.0


class CounterPoint(NamedTuple):
    """Counters of one worker at one instant; None is "not reported"."""

    at: UnixSeconds
    prompt: float | None = None
    prefill: float | None = None
    cached: float | None = None
    generated: float | None = None
    prefill_seconds: float | None = None
    decode_seconds: float | None = None


_TELL_A_RESTART = [0, 3]
"""Places of `prompt` and `generated` among the counters of a point."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What the counters say of the window; None is "no traffic" or "not reported", never 0.

    With Δ for the increase over the window:
    cache_miss_ratio = 1 - Δcached / Δprompt
    prefill_token_ratio = Δprefill / (Δprefill + Δgenerated)
    prefill_time_ratio = Δprefill_seconds / (Δprefill_seconds + Δdecode_seconds)
    """

    cache_miss_ratio: float | None = None
    prefill_token_ratio: float | None = None
    prefill_time_ratio: float | None = None
    prompt_tokens_per_second: float | None = None
    generated_tokens_per_second: float | None = None


def derive(points: Sequence[CounterPoint], *, window_seconds: float = WINDOW_SECONDS) -> Derived:
    """Derive ratios from the points, oldest first, of the window that ends at the last one.

    Counters are compared point by point, so that a restart within the window costs what was
    counted between its last scrape and its end, and nothing else.
    """
    if not points:
        return Derived()
    recent = [point for point in points if point.at >= points[-1].at - window_seconds]
    span = recent[-1].at - recent[0].at
    if span <= 0:
        return Derived()
    gained = _increase(recent)
    prompt, generated = gained.prompt, gained.generated
    traffic = (prompt or 0.0) + (generated or 0.0) > 0
    return Derived(
        cache_miss_ratio=_miss_ratio(cached=gained.cached, prompt=prompt),
        prefill_token_ratio=_share(gained.prefill, generated),
        prefill_time_ratio=_share(gained.prefill_seconds, gained.decode_seconds),
        prompt_tokens_per_second=prompt / span if traffic and prompt is not None else None,
        generated_tokens_per_second=generated / span if traffic and generated is not None else None,
    )


def derived_signals(derived: Derived, labels: Labels) -> list[Sample]:
    """Return the ds4_* signals of what is not None, each with `labels`."""
    speeds = (
        ("prompt", derived.prompt_tokens_per_second),
        ("generated", derived.generated_tokens_per_second),
    )
    ratios = (
        ("ds4_cache_miss_ratio", derived.cache_miss_ratio),
        ("ds4_prefill_token_ratio", derived.prefill_token_ratio),
        ("ds4_prefill_time_ratio", derived.prefill_time_ratio),
    )
    samples = [Sample(name, labels, value) for name, value in ratios if value is not None]
    return samples + [
        Sample("ds4_tokens_per_second", labels_of({**dict(labels), "kind": kind}), value)
        for kind, value in speeds
        if value is not None
    ]


def _increase(points: Sequence[CounterPoint]) -> CounterPoint:
    """Return each counter's increase; None where it was not reported throughout.

    All counters of an engine start anew together. So a fall of the prompt or generated tokens is a
    restart of all; a lone fall of another counter is noise, and counts as no increase.
    """
    counted = np.array([point[1:] for point in points], dtype=np.float64)
    steps = np.diff(counted, axis=0)
    restarted = np.any(steps[:, _TELL_A_RESTART] < 0, axis=1, keepdims=True)
    gained = np.where(restarted, counted[1:], np.maximum(steps, 0.0)).sum(axis=0)
    known = (None if math.isnan(value) else value for value in gained.tolist())
    return CounterPoint(points[-1].at, *known)


def _share(part: float | None, rest: float | None) -> float | None:
    if part is None or rest is None or part + rest <= 0:
        return None
    return part / (part + rest)


def _miss_ratio(*, cached: float | None, prompt: float | None) -> float | None:
    """Clamp to 0…1: in some versions a page counts hits a moment before it counts their prompt."""
    if cached is None or prompt is None or prompt <= 0:
        return None
    return min(1.0, max(0.0, 1.0 - cached / prompt))
