"""Whether a worker is the model that its profile was before: greedy tokens and log-probabilities.

A checksum over rounded numbers would flip where a value lies next to a rounding step, so the
numbers themselves are kept (to three places) and compared with a tolerance. A greedy answer may
turn off at a near tie, and from there on the two are about different texts: what follows is not
compared. A turn where the first choice led by more than the tolerance is no tie.

What good starts differ by is learnt (`Noise`): most machines repeat themselves far better than the
tolerance, and then small damage stands out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
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
_LEAST_VALUES = 4
_PLACES = 3
_LEAST_STARTS = 3
"""After so many good starts what they differ by is known."""
_MOST_STARTS = 8
"""Later ones teach nothing: what drifts in small steps is not to widen the bound for ever."""
_TIMES_NOISE = 4.0
_LEAST_NATS = 0.002
"""What is kept is rounded, which alone is a quarter of a thousandth on average."""


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


@dataclass(frozen=True, slots=True)
class Noise:
    """What `distance` was of good starts: of how many, and at most."""

    starts: int = 0
    nats: float = 0.0

    @property
    def bound_nats(self) -> float | None:
        """What is more is another model; None while too few starts are known."""
        if self.starts < _LEAST_STARTS:
            return None
        return max(_LEAST_NATS, _TIMES_NOISE * self.nats)

    def learnt(self, *distances: float | None) -> Noise:
        """Return it with one more good start."""
        if self.starts >= _MOST_STARTS:
            return self
        known = (it for it in distances if it is not None)
        return Noise(self.starts + 1, max((self.nats, *known)))


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


def distance(before: Fingerprint, now: Fingerprint) -> float | None:
    """Return the mean |Δ log p| of the likely tokens that both tell, up to where answers part.

    The place where they part counts: up to there both continue the same text. None if there is too
    little to compare.
    """
    moved = [
        nats
        for old, new in zip(before, now, strict=False)
        for mine, theirs in _same_text(old, new)
        for nats in _moves(mine, theirs)
    ]
    return sum(moved) / len(moved) if len(moved) >= _LEAST_VALUES else None


def unlike(before: Fingerprint, now: Fingerprint, noise: Noise | None = None) -> Unlike | None:
    """Return how a worker differs from what its profile gave before; None if it does not.

    noise: what good starts differ by.
    """
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
    if noise is not None:
        found += _beyond(noise, distance(before, now))
    return next((it for it in found if it.is_certain), found[0] if found else None)


def _beyond(noise: Noise, nats: float | None) -> Iterator[Unlike]:
    bound = noise.bound_nats
    if bound is not None and nats is not None and nats > bound:
        told = (
            f"log-probabilities differ by {nats:.4f} nats on average, those of "
            f"{noise.starts} good starts by {noise.nats:.4f} at most"
        )
        yield Unlike(told, nats > max(MEAN_TOLERANCE_NATS, CERTAIN * bound))


def _turned(old: Sequence[Step], new: Sequence[Step], deltas: list[float]) -> Unlike | None:
    """Return what is wrong with one answer; add the differences up to where they part."""
    for place, (mine, theirs) in enumerate(zip(old, new, strict=False), start=1):
        if mine.token != theirs.token:
            lead = _lead(mine, theirs.token)
            if lead <= TOLERANCE_NATS:
                return None
            told = f"token {place} is {theirs.token!r}, it was {mine.token!r} by {lead:.2f} nats"
            return Unlike(told, lead > CERTAIN * TOLERANCE_NATS)
        moved = max(_moves(mine, theirs), default=0.0)
        if moved > CERTAIN * TOLERANCE_NATS:
            told = f"token {place}: a log-probability moved by {moved:.2f} nats"
            return Unlike(told, is_certain=True)
        if mine.token in mine.top and mine.token in theirs.top:
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


def _same_text(old: Sequence[Step], new: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Yield the places up to where two answers part, that one too."""
    for mine, theirs in zip(old, new, strict=False):
        yield mine, theirs
        if mine.token != theirs.token:
            return


def _moves(mine: Step, theirs: Step) -> Iterator[float]:
    """Yield by how much the log-probabilities moved of tokens that are likely in either."""
    for name in mine.top.keys() & theirs.top.keys():
        one, other = mine.top[name], theirs.top[name]
        if max(one, other) > _LIKELY_NATS:
            yield abs(one - other)
