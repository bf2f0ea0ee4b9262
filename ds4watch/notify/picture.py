"""Small pictures as PNG, by numpy and zlib alone: a line with its threshold, bars beside bars."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
Pixels = NDArray[np.uint8]

_WHITE: Colour = (255, 255, 255)
_GRID: Colour = (225, 229, 234)
_LINE: Colour = (25, 118, 210)
_FILL: Colour = (227, 240, 253)
_LIMIT: Colour = (198, 40, 40)
_BEFORE: Colour = (176, 190, 197)
_AFTER: Colour = (25, 118, 210)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MARGIN = 12


def png(pixels: Pixels) -> bytes:
    """Return an RGB image as a PNG file."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, width * 3 + 1), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def sparkline(
    points: Sequence[tuple[float, float]],
    *,
    threshold: float | None = None,
    width: int = 640,
    height: int = 160,
) -> bytes | None:
    """Return a picture of values over time, oldest first; None if fewer than two are finite."""
    found = np.array([it for it in points if np.isfinite(it[1])], float).reshape(-1, 2)
    if len(found) < 2:
        return None
    shown = found[:, 1] if threshold is None else np.append(found[:, 1], threshold)
    low, high = min(float(shown.min()), 0.0), float(shown.max())
    pixels = _blank(width, height)
    times = np.linspace(found[0, 0], found[-1, 0], width - 2 * _MARGIN)
    values = np.interp(times, found[:, 0], found[:, 1])
    rows = _rows(values, low, high, height)
    base = int(_rows(np.zeros(1), low, high, height)[0])
    for column, row in enumerate(rows, start=_MARGIN):
        pixels[min(row, base) : max(row, base), column] = _FILL
    for column, (row, after) in enumerate(zip(rows, [*rows[1:], rows[-1]], strict=True), _MARGIN):
        top, bottom = min(row, after), max(row, after)
        pixels[max(0, top - 1) : bottom + 2, column] = _LINE
    if threshold is not None:
        row = int(_rows(np.array([threshold]), low, high, height)[0])
        for start in range(_MARGIN, width - _MARGIN, 12):
            pixels[max(0, row - 1) : row + 1, start : min(start + 7, width - _MARGIN)] = _LIMIT
    return png(pixels)


def bars(
    before: Sequence[float], after: Sequence[float], *, width: int = 720, height: int = 240
) -> bytes:
    """Return pairs of bars, earlier beside later: the i-th of each are one day or hour."""
    pixels = _blank(width, height)
    count = max(len(before), len(after), 1)
    high = max([it for it in (*before, *after) if np.isfinite(it)], default=0.0)
    slot = (width - 2 * _MARGIN) / count
    for index in range(count):
        left = _MARGIN + index * slot
        for values, colour, share in ((before, _BEFORE, 0.08), (after, _AFTER, 0.5)):
            if index < len(values) and np.isfinite(values[index]):
                begin, end = int(left + share * slot), int(left + (share + 0.42) * slot)
                row = int(_rows(np.array([values[index]]), 0.0, high, height)[0])
                pixels[row : height - _MARGIN, begin : max(begin + 1, end)] = colour
    return png(pixels)


def _blank(width: int, height: int) -> Pixels:
    pixels = np.full((height, width, 3), _WHITE, np.uint8)
    for row in np.linspace(_MARGIN, height - _MARGIN - 1, 4).astype(int):
        pixels[row, _MARGIN : width - _MARGIN] = _GRID
    return pixels


def _rows(values: NDArray[np.float64], low: float, high: float, height: int) -> NDArray[np.int64]:
    span = high - low or 1.0
    share = np.clip((values - low) / span, 0.0, 1.0)
    rows: NDArray[np.int64] = (height - _MARGIN - 1 - share * (height - 2 * _MARGIN - 1)).astype(
        np.int64
    )
    return rows
