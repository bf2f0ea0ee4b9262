"""Ratios and rates over the last minute, of a whole wave at once, from counters that may restart.

For each worker the counters' totals are kept, freed from restarts, at each of its scrapes of the
last minute. What was gained over the window is then the difference of two points.
"""

from __future__ import annotations

import numpy as np

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

_TELL_A_RESTART = [COUNTERS.index(PROMPT), COUNTERS.index(GENERATED)]
_RESTART_SHARE = 0.5
_FEWEST_SLOTS = 64
_MOST_SLOTS = 512
_LONG_AGO = -np.inf


class Windows:
    """What is remembered of each worker, by the row it was given. For one thread."""

    def __init__(self) -> None:
        self._slots = _FEWEST_SLOTS
        self._times = np.full((0, self._slots), _LONG_AGO)
        self._totals = np.zeros((0, self._slots, len(COUNTERS)))
        self._head = np.zeros(0, dtype=np.intp)
        self._last_at = np.zeros(0)
        self._refused_at = np.zeros(0)
        self._counted = np.zeros((0, len(COUNTERS)))
        self._total = np.zeros((0, len(COUNTERS)))
        self._unknown_at = np.zeros((0, len(COUNTERS)))
        self._sources = np.zeros((0, len(COUNTERS)), dtype=np.intp)

    def clear(self, rows: IntArray) -> None:
        """Begin anew with `rows`, making room for them."""
        if not len(rows):
            return
        self._make_room(int(rows.max()) + 1)
        self._times[rows] = _LONG_AGO
        self._last_at[rows] = _LONG_AGO
        self._refused_at[rows] = np.inf
        self._counted[rows] = np.nan
        self._unknown_at[rows] = _LONG_AGO

    def advance(
        self, rows: IntArray, at: FloatArray, counters: FloatArray, sources: IntArray
    ) -> FloatArray:
        """Take in one scrape of each of `rows`, which differ; return RATIOS of the window.

        counters: NaN is "not reported". sources: under which names they were found; under others
        than at the last scrape, they are not compared. A scrape that is not newer than the last
        is left out; a second one, newer than that, shows that the clock was set back.
        """
        fresh = at > self._last_at[rows]
        if fresh.all():
            return self._advance(rows, at, counters, sources)
        set_back = ~fresh & (at > self._refused_at[rows])
        self.clear(rows[set_back])
        fresh |= set_back
        self._refused_at[rows[~fresh]] = at[~fresh]
        ratios = np.full((len(rows), len(RATIOS)), STALE_NAN)
        ratios[fresh] = self._advance(rows[fresh], at[fresh], counters[fresh], sources)
        return ratios

    def _advance(
        self, rows: IntArray, at: FloatArray, counters: FloatArray, sources: IntArray
    ) -> FloatArray:
        totals = self._count(rows, counters, sources)
        start = (at - WINDOW_SECONDS)[:, None]
        head = self._next_slots(rows, start)
        self._times[rows, head] = at
        self._totals[rows, head] = totals
        self._head[rows] = head
        self._last_at[rows] = at
        self._refused_at[rows] = np.inf
        times = self._times[rows]
        first = np.where(times >= start, times, np.inf).argmin(axis=1)
        since = times[np.arange(len(rows)), first]
        gained = totals - self._totals[rows, first]
        gained[self._unknown_at[rows] >= since[:, None]] = np.nan
        return _ratios(gained, at - since)

    def _count(self, rows: IntArray, counters: FloatArray, sources: IntArray) -> FloatArray:
        """Add what was gained since the last scrape.

        All counters of an engine restart together: a fall of the prompt or generated tokens below
        half is a restart of all. A lesser fall, or one of another counter, is noise (vLLM at times
        counts down), and counts as no gain. Where a counter is unknown, so are windows over it.
        """
        before = self._counted[rows]
        with np.errstate(invalid="ignore"):
            gained = np.maximum(counters - before, 0.0)
            fell = counters[:, _TELL_A_RESTART] < before[:, _TELL_A_RESTART] * _RESTART_SHARE
        restarted = fell.any(axis=1)
        if restarted.any():
            gained[restarted] = counters[restarted]
        renamed = self._sources[rows] != sources
        if renamed.any():
            gained[renamed] = np.nan
            self._sources[rows] = sources
        unknown = np.isnan(gained)
        if unknown.any():
            last_at = np.broadcast_to(self._last_at[rows][:, None], unknown.shape)
            self._unknown_at[rows] = np.where(unknown, last_at, self._unknown_at[rows])
            gained[unknown] = 0.0
        totals: FloatArray = self._total[rows] + gained
        self._total[rows] = totals
        self._counted[rows] = counters
        return totals

    def _next_slots(self, rows: IntArray, start: FloatArray) -> IntArray:
        head: IntArray = (self._head[rows] + 1) % self._slots
        if self._slots < _MOST_SLOTS and (self._times[rows, head] >= start[:, 0]).any():
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
        self._counted = grown(self._counted, more, np.nan)
        self._total = grown(self._total, more, 0.0)
        self._unknown_at = grown(self._unknown_at, more, _LONG_AGO)
        self._sources = grown(self._sources, more, 0)


class Heartbeats:
    """When each worker's engine last did something, by the row it was given."""

    def __init__(self) -> None:
        self._progress = np.zeros(0)
        self._moved_at = np.zeros(0)

    def clear(self, rows: IntArray) -> None:
        """Begin anew with `rows`, making room for them."""
        if not len(rows):
            return
        more = int(rows.max()) + 1 - len(self._progress)
        if more > 0:
            more = max(more, len(self._progress))
            self._progress = grown(self._progress, more, np.nan)
            self._moved_at = grown(self._moved_at, more, np.inf)
        self._progress[rows] = np.nan
        self._moved_at[rows] = np.inf

    def note(
        self, rows: IntArray, at: FloatArray, progress: FloatArray, busy: FloatArray
    ) -> FloatArray:
        """Return for each of `rows` 1 if it was busy and without progress for long, else 0.

        progress: a sum of counters; without it the answer is absent. busy: requests in the engine.
        """
        moved = progress != self._progress[rows]
        moved_at = np.where(moved, at, np.minimum(self._moved_at[rows], at))
        self._progress[rows] = progress
        self._moved_at[rows] = moved_at
        stale = (busy > 0) & (at - moved_at >= STALE_AFTER_SECONDS)
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
    prompt, prefill, cached, generated, prefill_seconds, decode_seconds = gained.T
    ratios = np.empty((len(gained), len(RATIOS)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios[:, 0] = np.clip(1.0 - cached / prompt, 0.0, 1.0)
        ratios[:, 1] = prefill / (prefill + generated)
        ratios[:, 2] = prefill_seconds / (prefill_seconds + decode_seconds)
        traffic = np.fmax(prompt, 0.0) + np.fmax(generated, 0.0) > 0
        seconds = np.where(traffic, span, np.nan)
        ratios[:, 3] = prompt / seconds
        ratios[:, 4] = generated / seconds
    ratios[:, 0][~(prompt > 0)] = np.nan
    ratios[~(span > 0)] = np.nan
    ratios[np.isnan(ratios)] = STALE_NAN
    return ratios
