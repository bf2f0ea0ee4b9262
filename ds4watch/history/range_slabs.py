"""Stored scrapes, decoded: for chosen series of one target, kept from one query to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ds4watch.history.chunk_codec import Scrapes
from ds4watch.history.live_shelf import SCRAPE_SERIES
from ds4watch.model.series import STALE_NAN, FloatArray, Schema


class Segment(NamedTuple):
    """Scrapes of one page: `times` (m,), `values` (picked series, m), `own` (SCRAPE_SERIES, m).

    `own` is (0, m) where none of them is asked for. Where a scrape failed, `values` are staleness
    markers.
    """

    schema: Schema
    times: FloatArray
    values: FloatArray
    own: FloatArray


class Piece(NamedTuple):
    """A part of a target's past: its slab of chunks, None for what is not folded yet."""

    target_id: int
    slot: int | None
    version: Hashable


Slab = tuple[Segment, ...]
Version = Hashable
"""Of what a slab was made: equal as long as nothing of it has changed on disk."""


class SlabCache:
    """Slabs by key, the ones used longest ago given up beyond `budget_bytes`."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._used_bytes = 0
        self._slabs: OrderedDict[Hashable, tuple[Version, Slab]] = OrderedDict()

    def get(self, key: Hashable, version: Version) -> Slab | None:
        """Return the slab of a version, None where it is not there."""
        kept = self._slabs.get(key)
        if kept is None or kept[0] != version:
            return None
        self._slabs.move_to_end(key)
        return kept[1]

    def keep(self, key: Hashable, version: Version, slab: Slab) -> None:
        """Keep a slab, in the place of any other version."""
        kept = self._slabs.pop(key, None)
        if kept is not None:
            self._used_bytes -= _bytes_of(kept[1])
        self._slabs[key] = (version, slab)
        self._used_bytes += _bytes_of(slab)
        while self._used_bytes > self._budget_bytes and self._slabs:
            _, (_, oldest) = self._slabs.popitem(last=False)
            self._used_bytes -= _bytes_of(oldest)

    def clear(self) -> None:
        """Forget all."""
        self._slabs.clear()
        self._used_bytes = 0


def slab_of(parts: Iterable[tuple[Schema, Scrapes]], *, own: bool) -> Slab:
    """Return scrapes as segments, neighbours of one page as one; `own` if SCRAPE_SERIES count."""
    joined: list[list[Segment]] = []
    for schema, scrapes in parts:
        segment = _segment(schema, scrapes, own=own)
        if joined and joined[-1][0].schema is schema:
            joined[-1].append(segment)
        else:
            joined.append([segment])
    return tuple(_joined(segments) for segments in joined)


def _segment(schema: Schema, scrapes: Scrapes, *, own: bool) -> Segment:
    count = len(scrapes.times_ms)
    values = scrapes.values.T
    if scrapes.failures:
        spread = np.full((len(values), count), STALE_NAN)
        spread[:, scrapes.good] = values
        values = spread
    told = _own(schema, scrapes) if own else np.empty((0, count))
    return Segment(schema, scrapes.times_ms / 1000, values, told)


def _own(schema: Schema, scrapes: Scrapes) -> FloatArray:
    own = np.zeros((len(SCRAPE_SERIES), len(scrapes.times_ms)))
    good = scrapes.good
    own[0, good] = 1.0
    own[1] = scrapes.took_ms / 1000
    own[2, good] = _samples(schema, scrapes)[good]
    return own


def _samples(schema: Schema, scrapes: Scrapes) -> FloatArray:
    return np.where(scrapes.page_samples < 0, len(schema.series), scrapes.page_samples).astype(
        np.float64
    )


def _joined(segments: Sequence[Segment]) -> Segment:
    if len(segments) == 1:
        return segments[0]
    schemas, times, values, own = zip(*segments, strict=True)
    return Segment(
        schemas[0],
        np.concatenate(times),
        np.concatenate(values, axis=1),
        np.concatenate(own, axis=1),
    )


def _bytes_of(slab: Slab) -> int:
    return 512 + sum(one.times.nbytes + one.values.nbytes + one.own.nbytes for one in slab)
