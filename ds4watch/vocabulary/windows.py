"""Ratios and rates over the last minute, of a whole wave at once, from counters that may restart.

For each worker the counters' totals are kept, freed from restarts, at each of its scrapes of the
last minute. What was gained over the window is then the difference of two points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import STALE_NAN, FloatArray
from ds4watch.vocabulary.engines import (
    CACHED,
    DECODE_SECONDS,
    GENERATED,
    PREFILL,
    PREFILL_SECONDS,
    PROMPT,
)
from ds4watch.vocabulary.plan import IntArray

WINDOW_SECONDS = 60.0
STALE_AFTER_SECONDS = 60.0

COUNTERS = (PROMPT, PREFILL, CACHED, GENERATED, PREFILL_SECONDS, DECODE_SECONDS)
"""The columns of `counters`."""

RATIOS = (
    ("ds4_cache_miss_ratio", "", (PROMPT, CACHED)),
    ("ds4_prefill_token_ratio", "", (PREFILL, GENERATED)),
    ("ds4_prefill_time_ratio", "", (PREFILL_SECONDS, DECODE_SECONDS)),
    ("ds4_tokens_per_second", "prompt", (PROMPT,)),
    ("ds4_tokens_per_second", "generated", (GENERATED,)),
)
"""The columns of what `Windows.advance` returns: signal, its kind, the counters it needs."""

PREFILL_TIME = [name for name, _, _ in RATIOS].index("ds4_prefill_time_ratio")

_PROMPT, _PREFILL, _CACHED, _GENERATED, _PREFILL_SECONDS, _DECODE_SECONDS = range(len(COUNTERS))
_TELL_A_RESTART = [_PROMPT, _GENERATED]
_PARTS = [_CACHED, _PREFILL, _PREFILL_SECONDS, _PROMPT, _GENERATED]
_RESTART_SHARE = 0.5
_FEWEST_SLOTS = 64
_MOST_SLOTS = 512
_LONG_AGO = -np.inf


_COUNTED, _TOTAL, _UNKNOWN_AT = range(3)
"""Of the counters is kept: as last seen, freed from restarts, last scrape before one unknown."""
_NOTHING_KEPT = np.array([np.nan, 0.0, _LONG_AGO])[:, None]


class Windows:
    """What is remembered of each worker, by the row it was given. For one thread."""

    def __init__(self) -> None:
        self._slots = _FEWEST_SLOTS
        self._times = np.full((0, self._slots), _LONG_AGO)
        self._totals = np.zeros((0, self._slots, len(COUNTERS)))
        self._head = np.zeros(0, dtype=np.intp)
        self._last_at = np.zeros(0)
        self._refused_at = np.zeros(0)
        self._kept = np.zeros((0, len(_NOTHING_KEPT), len(COUNTERS)))
        self._sources = np.zeros((0, len(COUNTERS)), dtype=np.intp)

    def clear(self, rows: IntArray) -> None:
        """Begin anew with `rows`, making room for them."""
        if not len(rows):
            return
        self._make_room(int(rows.max()) + 1)
        self._times[rows] = _LONG_AGO
        self._last_at[rows] = _LONG_AGO
        self._refused_at[rows] = np.inf
        self._kept[rows] = _NOTHING_KEPT

    def advance(
        self, rows: IntArray, at: FloatArray, counters: FloatArray, sources: IntArray
    ) -> FloatArray:
        """Take in one scrape of each of `rows`, which differ; return RATIOS of the window.

        counters: NaN is "not reported". sources: under which names they were found; under others
        than at the last scrape, they are not compared. A scrape that is not newer than the last
        is left out; a second one, newer than that, shows that the clock was set back.
        """
        fresh = at > self._last_at[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            if np.count_nonzero(fresh) == len(rows):
                return self._advance(rows, at, counters, sources)
            return self._advance_some(fresh, rows, at, counters, sources)

    def _advance_some(
        self,
        fresh: NDArray[np.bool_],
        rows: IntArray,
        at: FloatArray,
        counters: FloatArray,
        sources: IntArray,
    ) -> FloatArray:
        set_back = ~fresh & (at > self._refused_at[rows])
        self.clear(rows[set_back])
        fresh = fresh | set_back
        self._refused_at[rows[~fresh]] = at[~fresh]
        ratios = np.full((len(rows), len(RATIOS)), STALE_NAN)
        ratios[fresh] = self._advance(rows[fresh], at[fresh], counters[fresh], sources)
        return ratios

    def _advance(
        self, rows: IntArray, at: FloatArray, counters: FloatArray, sources: IntArray
    ) -> FloatArray:
        kept = self._count(rows, counters, sources)
        totals = kept[:, _TOTAL]
        start = (at - WINDOW_SECONDS)[:, None]
        head = self._next_slots(rows, start)
        self._times[rows, head] = at
        self._totals[rows, head] = totals
        self._head[rows] = head
        self._last_at[rows] = at
        self._refused_at[rows] = np.inf
        times = self._times[rows]
        first = np.where(times >= start, times, np.inf).argmin(axis=1)
        since = self._times[rows, first]
        gained = totals - self._totals[rows, first]
        np.copyto(gained, np.nan, where=kept[:, _UNKNOWN_AT] >= since[:, None])
        return _ratios(gained, at - since)

    def _count(self, rows: IntArray, counters: FloatArray, sources: IntArray) -> FloatArray:
        """Add what was gained since the last scrape; return what is kept of `rows`.

        All counters of an engine restart together: a fall of the prompt or generated tokens below
        half is a restart of all. A lesser fall, or one of another counter, is noise (vLLM at times
        counts down), and counts as no gain. Where a counter is unknown, so are windows over it.
        """
        kept = self._kept[rows]
        before = kept[:, _COUNTED]
        gained = np.maximum(counters - before, 0.0)
        fell = (counters < before * _RESTART_SHARE).take(_TELL_A_RESTART, axis=1)
        if np.count_nonzero(fell):
            restarted = fell.any(axis=1)
            gained[restarted] = counters[restarted]
        renamed = self._sources[rows] != sources
        if np.count_nonzero(renamed):
            gained[renamed] = np.nan
            self._sources[rows] = sources
        unknown = np.isnan(gained)
        if np.count_nonzero(unknown):
            np.copyto(kept[:, _UNKNOWN_AT], self._last_at[rows][:, None], where=unknown)
            gained[unknown] = 0.0
        kept[:, _TOTAL] += gained
        kept[:, _COUNTED] = counters
        self._kept[rows] = kept
        return kept

    def _next_slots(self, rows: IntArray, start: FloatArray) -> IntArray:
        head: IntArray = (self._head[rows] + 1) % self._slots
        full = self._times[rows, head] >= start[:, 0]
        if self._slots < _MOST_SLOTS and np.count_nonzero(full):
            self._widen()
            return self._next_slots(rows, start)
        return head

    def _widen(self) -> None:
        """Double the slots, with each ring unrolled so that its newest comes last."""
        order = (self._head[:, None] + 1 + np.arange(self._slots)) % self._slots
        every = np.arange(len(self._head))[:, None]
        times, totals = self._times[every, order], self._totals[every, order]
        self._times = np.concatenate([np.full_like(times, _LONG_AGO), times], axis=1)
        self._totals = np.concatenate([np.zeros_like(totals), totals], axis=1)
        self._slots *= 2
        self._head[:] = self._slots - 1

    def _make_room(self, count: int) -> None:
        more = max(count, 2 * len(self._head)) - len(self._head)
        if count <= len(self._head):
            return
        self._times = grown(self._times, more, _LONG_AGO)
        self._totals = grown(self._totals, more, 0.0)
        self._head = grown(self._head, more, 0)
        self._last_at = grown(self._last_at, more, _LONG_AGO)
        self._refused_at = grown(self._refused_at, more, np.inf)
        self._kept = grown(self._kept, more, np.nan)
        self._sources = grown(self._sources, more, 0)


class Heartbeats:
    """When each worker's engine last did something, by the row it was given.

    Kept of each: its progress, and when that last changed.
    """

    def __init__(self) -> None:
        self._kept = np.zeros((0, 2))

    def clear(self, rows: IntArray) -> None:
        """Begin anew with `rows`, making room for them."""
        if not len(rows):
            return
        more = int(rows.max()) + 1 - len(self._kept)
        if more > 0:
            self._kept = grown(self._kept, max(more, len(self._kept)), np.nan)
        self._kept[rows] = (np.nan, np.inf)

    def note(
        self,
        rows: IntArray,
        at: FloatArray,
        progress: FloatArray,
        busy: FloatArray,
        still_seconds: FloatArray,
    ) -> FloatArray:
        """Return for each of `rows` 1 if it was busy and without progress for long, else 0.

        progress: a sum of counters; without it the answer is absent. busy: requests in the engine.
        still_seconds: for how long canaries of our own are all that moved it, where that is known;
        NaN elsewhere.
        """
        kept = self._kept[rows]
        moved_at = np.where(progress != kept[:, 0], at, np.minimum(kept[:, 1], at))
        kept[:, 0] = progress
        kept[:, 1] = moved_at
        self._kept[rows] = kept
        unmoved = np.where(np.isnan(still_seconds), at - moved_at, still_seconds)
        stale = (busy > 0) & (unmoved >= STALE_AFTER_SECONDS)
        return np.where(np.isnan(progress), STALE_NAN, stale)


def grown(array: np.ndarray, more: int, filler: float) -> np.ndarray:
    """Return an array with `more` rows, full of `filler`."""
    return np.concatenate([array, np.full((more, *array.shape[1:]), filler, dtype=array.dtype)])


def _ratios(gained: FloatArray, span: FloatArray) -> FloatArray:
    """Return RATIOS; absent is "no traffic" or "not reported", never 0.

    With Δ for what was gained over the window:
    cache_miss_ratio = 1 - Δcached / Δprompt, kept within 0…1: in some versions a page counts hits
    a moment before it counts their prompt
    prefill_token_ratio = Δprefill / (Δprefill + Δgenerated)
    prefill_time_ratio = Δprefill_seconds / (Δprefill_seconds + Δdecode_seconds)
    """
    parts = gained.take(_PARTS, axis=1)
    wholes = np.empty_like(parts)
    wholes[:, 0] = gained[:, _PROMPT]
    wholes[:, 1] = gained[:, _PREFILL] + gained[:, _GENERATED]
    wholes[:, 2] = gained[:, _PREFILL_SECONDS] + gained[:, _DECODE_SECONDS]
    traffic = np.fmax(gained[:, _PROMPT], 0.0) + np.fmax(gained[:, _GENERATED], 0.0) > 0
    wholes[:, 3:] = (span * traffic)[:, None]
    wholes[~(wholes > 0)] = np.nan
    wholes[~(span > 0)] = np.nan
    parts /= wholes
    parts[:, 0] = np.maximum(1.0 - parts[:, 0], 0.0)
    np.copyto(parts, STALE_NAN, where=np.isnan(parts))
    return parts
