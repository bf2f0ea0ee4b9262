"""Floats as integers, and integers as bytes, for columns that are packed. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import FloatArray

BoolArray = NDArray[np.bool_]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

AS_BITS = 255
"""Kind of a column kept as bits; the others are kept as value times ten to the kind."""
_MOST_DIGITS = 9
_PROBES = 16


def as_integers(bits: Ints) -> tuple[Ints, Bytes]:
    """Return integers that stand for the values, and the kind of each line."""
    kinds = np.full(len(bits), AS_BITS, dtype=np.uint8)
    values = bits.view(np.float64)
    numbers, exact = _scaled(values, 0)
    kinds[exact] = 0
    rest = np.flatnonzero(~exact)
    numbers[rest] = bits[rest]
    for digits in range(1, _MOST_DIGITS + 1):
        if not rest.size:
            break
        probes = values[rest, :: max(1, values.shape[1] // _PROBES)]
        likely = rest[_scaled(probes, digits)[1]]
        scaled, exact = _scaled(values[likely], digits)
        numbers[likely[exact]] = scaled[exact]
        kinds[likely[exact]] = digits
        rest = rest[kinds[rest] == AS_BITS]
    return numbers, kinds


def _scaled(values: FloatArray, digits: int) -> tuple[Ints, BoolArray]:
    """Return values times a power of ten, and which lines come back from that bit for bit."""
    with np.errstate(all="ignore"):
        scaled = (np.rint(values * 10.0**digits) if digits else values).astype(np.int64)
    back = from_scaled(scaled, digits)
    exact: BoolArray = (back.view(np.int64) == values.view(np.int64)).all(axis=1)
    return scaled, exact


def from_scaled(scaled: Ints, digits: int) -> FloatArray:
    """Return the values that integers of a kind stand for."""
    values: FloatArray = scaled.astype(np.float64)
    if digits:
        # Division rounds as reading the decimal text does; multiplying by 0.1 does not.
        values /= 10.0**digits
    return values


def to_zigzag(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers with the sign in the lowest bit: small ones, of either sign, are small."""
    bits = 8 * numbers.itemsize
    return ((numbers << 1) ^ (numbers >> (bits - 1))).view(f"u{numbers.itemsize}")


def from_zigzag(numbers: NDArray[np.uint64]) -> Ints:
    """Invert `to_zigzag`."""
    return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)


def planes(numbers: NDArray[Any], width: int) -> bytes:
    """Return integers with their lowest bytes first, then their second ones, …."""
    return numbers.reshape(-1).view(np.uint8).reshape(-1, width).T.tobytes()


def joined(planes: Bytes, width: int) -> NDArray[np.uint64]:
    """Put bytes, of shape (width, …), together to integers."""
    if width == 1:
        alone: NDArray[np.uint64] = planes[0].astype(np.uint64)
        return alone
    whole = np.ascontiguousarray(planes.transpose(*range(1, planes.ndim), 0)).view(f"<u{width}")
    return whole[..., 0].astype(np.uint64)
