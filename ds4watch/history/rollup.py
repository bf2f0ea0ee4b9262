"""Roll-ups: what is left of each series for a minute, an hour. Pure.

A sample that is NaN (the staleness marker is one) does not count. The increase of a bucket goes
from the last sample before it, in whatever bucket that was, to its own last one, and a fall is a
counter that began anew at nothing: so the increases of all buckets add up to that of the whole.
A series' very first sample increases nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ds4watch.history.column_codec import pack_columns, unpack_columns
from ds4watch.model.series import STALE_NAN, FloatArray

IndexArray = NDArray[np.intp]
TimesMs = NDArray[np.int64]

_FIELDS = 6
"""Order on disk: beside each other stands what is alike, for the column before to tell of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Equal spans of time, oldest first: `starts_ms` (buckets,), all else (buckets, series).

    Where `count` is 0, `increase` is 0, `total` 0, and the rest the staleness marker.
    """

    starts_ms: TimesMs
    minimum: FloatArray
    maximum: FloatArray
    last: FloatArray
    total: FloatArray
    count: FloatArray
    increase: FloatArray


def summarise(
    times_ms: TimesMs, values: FloatArray, before: FloatArray, bucket_ms: int
) -> tuple[Buckets, FloatArray]:
    """Return the buckets of samples, and the last value of each series for the next call.

    `before` has the last values so far, NaN for a series without one.
    """
    order = np.argsort(times_ms, kind="stable")
    starts, begins = _groups(times_ms[order] // bucket_ms * bucket_ms)
    samples = np.take(values, order, axis=0) if (np.diff(order) < 0).any() else values
    moving = _moving(samples, before)
    buckets = _still(samples, starts, begins)
    if moving.size:
        _fill(buckets, moving, samples[:, moving], before[moving], begins)
    return buckets, last_values(buckets, before)


def last_values(buckets: Buckets, before: FloatArray) -> FloatArray:
    """Return the last value of each series, that of `before` where there is none."""
    lines = np.arange(len(buckets.last))[:, None]
    newest = np.where(buckets.count > 0, lines, -1).max(axis=0)
    values = np.take_along_axis(buckets.last, np.maximum(newest, 0)[None, :], axis=0)[0]
    return np.where(newest >= 0, values, before)


def merge(parts: Sequence[Buckets], bucket_ms: int) -> Buckets:
    """Return the buckets of consecutive parts as wider ones; equal ones become one."""
    starts_ms = np.concatenate([part.starts_ms for part in parts])
    order = np.argsort(starts_ms, kind="stable")
    starts, begins = _groups(starts_ms[order] // bucket_ms * bucket_ms)
    minimum, maximum, last, total, count, increase = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("minimum", "maximum", "last", "total", "count", "increase")
    )
    lines = np.arange(len(order))[:, None]
    newest = np.maximum.reduceat(np.where(count > 0, lines, -1), begins, axis=0)
    newest_last = np.take_along_axis(last, np.maximum(newest, 0), axis=0)
    with np.errstate(all="ignore"):  # +Inf and -Inf make a NaN
        total = np.add.reduceat(total, begins, axis=0)
        increase = np.add.reduceat(increase, begins, axis=0)
    return Buckets(
        starts,
        minimum=_least(minimum, begins),
        maximum=_most(maximum, begins),
        last=np.where(newest < 0, STALE_NAN, newest_last),
        total=total,
        count=np.add.reduceat(count, begins, axis=0),
        increase=increase,
    )


def pack_buckets(buckets: Buckets) -> bytes:
    """Return buckets as bytes."""
    fields = (
        buckets.minimum,
        buckets.maximum,
        buckets.last,
        buckets.total,
        buckets.count,
        buckets.increase,
    )
    table = np.stack(fields, axis=2).reshape(len(buckets.starts_ms), -1)
    return pack_columns(np.column_stack([buckets.starts_ms.astype(np.float64), table]))


def unpack_buckets(payload: bytes, columns: IndexArray | None = None) -> Buckets:
    """Return all series, or the chosen ones, of packed buckets. Raises ValueError on rubbish."""
    wanted = None
    if columns is not None:
        places = 1 + _FIELDS * columns[:, None] + np.arange(_FIELDS)
        wanted = np.concatenate([[0], places.reshape(-1)])
    table = unpack_columns(payload, wanted)
    rows, width = table.shape
    if width % _FIELDS != 1:
        message = f"a roll-up of {width} columns"
        raise ValueError(message)
    fields = table[:, 1:].reshape(rows, -1, _FIELDS)
    return Buckets(table[:, 0].astype(np.int64), *np.moveaxis(fields, 2, 0))


def _groups(starts: TimesMs) -> tuple[TimesMs, IndexArray]:
    """Return each start once, and where it begins."""
    begins = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    return starts[begins], begins


def _moving(samples: FloatArray, before: FloatArray) -> IndexArray:
    """Return the series that do not keep one value, or have samples missing."""
    first = samples[0]
    still = (samples == first).all(axis=0) & ((before == first) | np.isnan(before))
    moving: IndexArray = np.flatnonzero(~still)
    return moving


def _still(samples: FloatArray, starts: TimesMs, begins: IndexArray) -> Buckets:
    """Return buckets as if no series ever changed."""
    sizes = np.diff(begins, append=len(samples)).astype(np.float64)[:, None]
    value = np.repeat(samples[:1], len(starts), axis=0)
    return Buckets(
        starts,
        minimum=value,
        maximum=value.copy(),
        last=value.copy(),
        total=_product(value, sizes),
        count=np.repeat(sizes, samples.shape[1], axis=1),
        increase=np.zeros_like(value),
    )


def _product(value: FloatArray, sizes: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        product: FloatArray = value * sizes
    return product


def _fill(
    buckets: Buckets,
    moving: IndexArray,
    samples: FloatArray,
    before: FloatArray,
    begins: IndexArray,
) -> None:
    absent = np.isnan(samples)
    count = np.add.reduceat(~absent, begins, axis=0, dtype=np.float64)
    lines = np.where(absent, 0, np.arange(1, len(samples) + 1)[:, None])
    known = np.concatenate([before[None, :], samples])
    before_each = np.maximum.accumulate(np.concatenate([np.zeros_like(lines[:1]), lines]), axis=0)
    previous = np.take_along_axis(known, before_each[:-1], axis=0)
    newest = np.take_along_axis(known, np.maximum.reduceat(lines, begins, axis=0), axis=0)
    with np.errstate(all="ignore"):
        steps = np.where(samples >= previous, samples - previous, samples)
        steps[np.isnan(steps) | absent | np.isnan(previous)] = 0.0
        total = np.add.reduceat(np.where(absent, 0.0, samples), begins, axis=0)
        buckets.increase[:, moving] = np.add.reduceat(steps, begins, axis=0)
    buckets.count[:, moving] = count
    buckets.total[:, moving] = total
    buckets.minimum[:, moving] = _least(samples, begins)
    buckets.maximum[:, moving] = _most(samples, begins)
    buckets.last[:, moving] = np.where(count > 0, newest, STALE_NAN)


def _least(values: FloatArray, begins: IndexArray) -> FloatArray:
    # np.fmin passes over a quiet NaN, but not over a signalling one, which the marker is.
    absent = np.isnan(values)
    least = np.minimum.reduceat(np.where(absent, np.inf, values), begins, axis=0)
    return np.where(np.logical_and.reduceat(absent, begins, axis=0), STALE_NAN, least)


def _most(values: FloatArray, begins: IndexArray) -> FloatArray:
    absent = np.isnan(values)
    most = np.maximum.reduceat(np.where(absent, -np.inf, values), begins, axis=0)
    return np.where(np.logical_and.reduceat(absent, begins, axis=0), STALE_NAN, most)
