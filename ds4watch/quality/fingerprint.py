"""Whether a worker is the model that its profile was before: greedy tokens and log-probabilities.

A checksum over rounded numbers would flip where a value lies next to a rounding step, so the
numbers themselves are kept (to three places) and compared with a tolerance. A greedy answer may
turn off at a near tie, and from there on the two are about different texts: what follows is not
compared. A turn where the first choice led by more than the tolerance is no tie.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOLERANCE_NATS = 0.25
"""One log-probability may move so far: twice what batching, kernels and bf16 sums do at most."""
MEAN_TOLERANCE_NATS = 0.05
_LEAST_STEPS = 8
_PLACES = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token, and the log-probabilities of the likeliest ones in its place."""

    token: str
    top: Mapping[str, float]


Fingerprint = tuple[tuple[Step, ...], ...]
"""The steps of each of the fixed prompts."""


def as_document(steps: Fingerprint) -> list[Any]:
    """Return it JSON-ready, rounded."""
    return [
        [[step.token, {name: round(value, _PLACES) for name, value in step.top.items()}]
         for step in prompt]
        for prompt in steps
    ]  # fmt: skip


def from_document(document: Any) -> Fingerprint | None:
    """Read what `as_document` wrote; None for anything else."""
    try:
        return tuple(
            tuple(Step(str(token), {str(k): float(v) for k, v in top.items()}) for token, top in it)
            for it in document
        )
    except (TypeError, ValueError, AttributeError):
        return None


def checksum(steps: Fingerprint) -> str:
    """Return a short name for it, for people: the same name is the same values, rounded."""
    text = json.dumps(as_document(steps), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unlike(before: Fingerprint, now: Fingerprint) -> str:
    """Return how a worker differs from what its profile gave before; empty if it does not."""
    if len(before) != len(now):
        return ""  # other prompts were asked then: there is nothing to compare
    deltas: list[float] = []
    for number, (old, new) in enumerate(zip(before, now, strict=True), start=1):
        told = _turned(old, new, deltas)
        if told:
            return f"prompt {number}: {told}"
    mean = sum(deltas) / len(deltas) if deltas else 0.0
    if len(deltas) >= _LEAST_STEPS and mean > MEAN_TOLERANCE_NATS:
        return f"log-probabilities of the same tokens differ by {mean:.3f} nats on average"
    return ""


def _turned(old: Sequence[Step], new: Sequence[Step], deltas: list[float]) -> str:
    """Return what is wrong with one answer; add the differences up to where they part."""
    for place, (mine, theirs) in enumerate(zip(old, new, strict=False), start=1):
        both = mine.top.keys() & theirs.top.keys()
        if mine.token != theirs.token:
            lead = mine.top.get(mine.token, 0.0) - mine.top.get(theirs.token, float("-inf"))
            if lead > TOLERANCE_NATS:
                return f"token {place} is {theirs.token!r}, it was {mine.token!r} by far"
            return ""
        for name in both:
            delta = abs(mine.top[name] - theirs.top[name])
            if delta > 4 * TOLERANCE_NATS:
                return f"token {place}: a log-probability moved by {delta:.2f} nats"
        own = mine.token
        if own in both:
            deltas.append(abs(mine.top[own] - theirs.top[own]))
    if len(old) != len(new) and min(len(old), len(new)) < _LEAST_STEPS:
        return f"the answer has {len(new)} tokens, it had {len(old)}"
    return ""
