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
CERTAIN = 4
"""So many times the tolerance is no noise of any kernel; less may be."""
_LIKELY_NATS = -4.0
"""Rounded sums move the logarithm of what is next to impossible by far: it is not looked at."""
_LEAST_STEPS = 8
_PLACES = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token, and the log-probabilities of the likeliest ones in its place."""

    token: str
    top: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Unlike:
    """How a worker differs from what its profile gave before. is_certain: no noise explains it."""

    told: str
    is_certain: bool


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


def unlike(before: Fingerprint, now: Fingerprint) -> Unlike | None:
    """Return how a worker differs from what its profile gave before; None if it does not."""
    if len(before) != len(now):
        return None  # other prompts were asked then: there is nothing to compare
    deltas: list[float] = []
    found: list[Unlike] = []
    for number, (old, new) in enumerate(zip(before, now, strict=True), start=1):
        one = _turned(old, new, deltas)
        if one is not None:
            found.append(Unlike(f"prompt {number}: {one.told}", one.is_certain))
    mean = sum(deltas) / len(deltas) if deltas else 0.0
    if len(deltas) >= _LEAST_STEPS and mean > MEAN_TOLERANCE_NATS:
        told = f"log-probabilities of the same tokens differ by {mean:.3f} nats on average"
        found.append(Unlike(told, mean > CERTAIN * MEAN_TOLERANCE_NATS))
    return next((it for it in found if it.is_certain), found[0] if found else None)


def _turned(old: Sequence[Step], new: Sequence[Step], deltas: list[float]) -> Unlike | None:
    """Return what is wrong with one answer; add the differences up to where they part."""
    for place, (mine, theirs) in enumerate(zip(old, new, strict=False), start=1):
        if mine.token != theirs.token:
            lead = _lead(mine, theirs.token)
            if lead <= TOLERANCE_NATS:
                return None
            told = f"token {place} is {theirs.token!r}, it was {mine.token!r} by {lead:.2f} nats"
            return Unlike(told, lead > CERTAIN * TOLERANCE_NATS)
        both = mine.top.keys() & theirs.top.keys()
        moved = max((_moved(mine, theirs, name) for name in both), default=0.0)
        if moved > CERTAIN * TOLERANCE_NATS:
            told = f"token {place}: a log-probability moved by {moved:.2f} nats"
            return Unlike(told, is_certain=True)
        if mine.token in both:
            deltas.append(abs(mine.top[mine.token] - theirs.top[mine.token]))
    if len(old) != len(new) and min(len(old), len(new)) < _LEAST_STEPS:
        # Where an answer ends is a choice as well, of which nobody says by how much it led.
        return Unlike(f"the answer has {len(new)} tokens, it had {len(old)}", is_certain=False)
    return None


def _lead(step: Step, other: str) -> float:
    """Return by how much a step's token led another, at least: of the likeliest the last is known.

    Where all are about as likely, one that was not among them may be first by noise alone.
    """
    least = min(step.top.values(), default=0.0)
    return step.top.get(step.token, least) - step.top.get(other, least)


def _moved(mine: Step, theirs: Step, name: str) -> float:
    """Return by how much a token's log-probability moved, if it is likely in either."""
    one, other = mine.top[name], theirs.top[name]
    return abs(one - other) if max(one, other) > _LIKELY_NATS else 0.0
