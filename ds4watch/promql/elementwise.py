"""Functions that turn each value of an instant vector into another."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.promql.vectors import EMPTY, Vector, drop_names, one

Elementwise: TypeAlias = Callable[..., FloatArray]
"""(values, *scalars) -> values of the same shape."""


def _round(values: FloatArray, to_nearest: float = 1.0) -> FloatArray:
    """Round half up, to a multiple of `to_nearest` (by its inverse, as Prometheus does)."""
    inverse = 1.0 / to_nearest if to_nearest else math.inf
    return np.floor(values * inverse + 0.5) / inverse


def _clamp(values: FloatArray, low: float, high: float) -> FloatArray:
    return np.maximum(low, np.minimum(high, values))


def _calendar(read: Callable[[datetime], int]) -> Elementwise:
    def one(value: float) -> float:
        try:
            return float(read(datetime.fromtimestamp(int(value), UTC)))
        except (ValueError, OverflowError, OSError):  # NaN, infinite, or outside of years 1-9999
            return math.nan

    def every(values: FloatArray) -> FloatArray:
        return np.array([one(value) for value in values], dtype=np.float64)

    return every


CALENDAR: dict[str, Elementwise] = {
    "minute": _calendar(lambda when: when.minute),
    "hour": _calendar(lambda when: when.hour),
    "day_of_month": _calendar(lambda when: when.day),
    "day_of_week": _calendar(lambda when: when.isoweekday() % 7),
    "day_of_year": _calendar(lambda when: when.timetuple().tm_yday),
    "days_in_month": _calendar(lambda when: calendar.monthrange(when.year, when.month)[1]),
    "month": _calendar(lambda when: when.month),
    "year": _calendar(lambda when: when.year),
}
"""UTC calendar functions; without an argument they are of the evaluation's instant."""

ELEMENTWISE: dict[str, Elementwise] = CALENDAR | {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "ln": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sgn": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "deg": np.degrees,
    "rad": np.radians,
    "round": _round,
    "clamp": _clamp,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
}


def elementwise(name: str, args: Sequence[object], at: UnixSeconds) -> Vector:
    """Return what a function makes of each element; without arguments, of the instant."""
    vector = args[0] if args else one(at)
    assert isinstance(vector, Vector)
    if name == "clamp" and float(args[1]) > float(args[2]):  # type: ignore[arg-type]
        return EMPTY
    values = ELEMENTWISE[name](vector.values, *args[1:])
    return drop_names(Vector(vector.labels, values))
