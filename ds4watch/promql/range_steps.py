"""The steps of a range query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray

MAX_STEPS = 11_000
"""From one instant to the next, as Prometheus counts them."""


def steps_of(start: UnixSeconds, end: UnixSeconds, step: float) -> FloatArray:
    """Return start, start + step, … up to end. Raises QueryError where that cannot be."""
    if not step > 0:
        raise QueryError("the step of a range query must be greater than 0")
    if end < start:
        raise QueryError("a range query must not end before it starts")
    steps = math.floor(round((end - start) / step, 6))
    if steps > MAX_STEPS:
        raise QueryError(
            f"a range query of {steps} steps, {MAX_STEPS} are allowed: take a longer step"
        )
    return micro(start + step * np.arange(steps + 1))


def micro(instants: NDArray[np.floating[Any]]) -> FloatArray:
    """Rid computed instants of float noise, lest a sample on a window's edge change sides."""
    return np.round(instants, 6).astype(np.float64, copy=False)
