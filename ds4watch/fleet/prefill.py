"""How long a busy engine may stand still before it is asked whether it still works. Pure.

    longest prefill = max(15 s, 2 · max_model_len / prefill rate)

The rate is measured in prompt tokens computed a second of prefill, over the requests that finished
between two readings; the slowest of the last readings counts, for others share the batch. Without
`max_model_len` or a measured rate nothing is known, and only the canaries' own pace holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SAFETY = 2.0
_FEWEST_TOKENS = 512
"""Fewer tokens between two readings measure the engine's overhead, not its rate."""
_READINGS = 20


def longest_prefill_seconds(
    max_model_len: int | None, tokens_per_second: float | None, *, floor_seconds: float
) -> float:
    """Return the longest that an engine may work without a step to show; infinite if not known."""
    if max_model_len is None or not tokens_per_second or tokens_per_second <= 0:
        return math.inf
    return max(floor_seconds, _SAFETY * max_model_len / tokens_per_second)


@dataclass(slots=True)
class PrefillRates:
    """Measured prefill rates, from pairs of counters: tokens computed, seconds of prefill."""

    _last: dict[str, tuple[float, float]] = field(default_factory=dict)
    _rates: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def note(self, counters: Mapping[str, tuple[float, float]]) -> None:
        """Take in the counters of workers; too little since the last time waits for more."""
        for name, (tokens, seconds) in counters.items():
            before = self._last.get(name)
            if before is None or tokens < before[0] or seconds < before[1]:
                self._last[name] = (tokens, seconds)
                continue
            done, took = tokens - before[0], seconds - before[1]
            if done >= _FEWEST_TOKENS and took > 0:
                self._rates[name] = (*self._rates.get(name, ()), done / took)[-_READINGS:]
                self._last[name] = (tokens, seconds)

    def rate(self, name: str) -> float | None:
        """Return the slowest of a worker's last rates, in tokens a second; None if not measured."""
        return min(self._rates.get(name, ()), default=None)

    def forget_all_but(self, names: Sequence[str]) -> None:
        """Drop workers that are gone."""
        for kept in (self._last, self._rates):
            for name in kept.keys() - set(names):
                del kept[name]
