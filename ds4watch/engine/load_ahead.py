"""What is known of the load ahead of each profile, and how long it takes to be ready for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.cost.forecast import BIN_SECONDS, Forecast, Point, forecast
from ds4watch.engine.arrivals import Arrivals, arrived, restored
from ds4watch.fleet.start_times import StartTimes
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestRecord
from ds4watch.policy.provision import Decision, Move, Standing, Unit

_LEAST_BINS = 3
_SLOWEST_SECONDS = 3600.0
_USUAL_START_SECONDS = 300.0
_USUAL_WAKE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ProfileFacts:
    """What is known of a profile's workers beforehand; slots: requests that one runs at once."""

    slots: float
    start_seconds: float = _USUAL_START_SECONDS


class LoadAhead:
    """Counts arrivals, learns wake-up times, forecasts."""

    def __init__(
        self,
        profiles: Mapping[str, ProfileFacts],
        start_times: StartTimes,
        kept: Mapping[str, Any],
        *,
        coverage: float,
    ) -> None:
        self._profiles = profiles
        self._starts = start_times
        self._wakes = StartTimes()
        self._woken_at: dict[str, UnixSeconds] = {}
        self._arrivals = restored(kept)
        self._made: dict[str, tuple[int, int, Forecast | None]] = {}
        self._coverage = coverage

    def note(
        self,
        records: Iterable[RequestRecord],
        profile_of: Callable[[RequestRecord], str | None],
        is_crowded: Callable[[str], bool],
    ) -> None:
        """Count requests by when they arrived; of those that waited for nobody learn the time."""
        for profile, at, took in arrived(records, profile_of):
            counts = self.arrivals(profile)
            counts.add(at)
            if took is not None and not is_crowded(profile):
                counts.learn(took)

    def arrivals(self, profile: str) -> Arrivals:
        """Return the counts of a profile."""
        return self._arrivals.setdefault(profile, Arrivals())

    def note_wakes(
        self, profile: str, units: Sequence[Unit], decision: Decision, now: UnixSeconds
    ) -> None:
        """Learn how long sleepers take from the call to ready."""
        standing = {it.id: it.standing for it in units}
        for name in [it for it in self._woken_at if standing.get(it) is Standing.HOT]:
            self._wakes.note(profile, now - self._woken_at.pop(name))
        for it in decision.steps:
            if it.move is Move.CALL and standing.get(it.worker) is Standing.ASLEEP:
                self._woken_at[it.worker] = now
            elif it.move is not Move.CALL:
                self._woken_at.pop(it.worker, None)

    def lead(
        self, profile: str, units: Sequence[Unit], now: UnixSeconds
    ) -> tuple[float, Point | None]:
        """Return how long before its need a worker has to be called, and the peak until then.

        Waking is enough while there are sleepers alone to be called.
        """
        known = self._profiles.get(profile)
        usual = known.start_seconds if known is not None else _USUAL_START_SECONDS
        starts = min(self._starts.slow_seconds(profile) or usual, _SLOWEST_SECONDS)
        # Never over a start: once woken, a worker would be let go for being early.
        wakes = min(self._wakes.slow_seconds(profile) or _USUAL_WAKE_SECONDS, starts)
        free = {it.standing for it in units if it.is_ours}
        lead = wakes if Standing.ASLEEP in free and Standing.AWAY not in free else starts
        bins = max(_LEAST_BINS, int(lead / BIN_SECONDS) + 2)
        ahead = self.forecast(profile, now, bins)
        return lead, ahead.peak(now, now + lead) if ahead is not None else None

    def forecast(self, profile: str, now: UnixSeconds, bins: int) -> Forecast | None:
        """Return the forecast of at least so many bins, made once for each bin that is over."""
        over = int(now // BIN_SECONDS)
        made_at, length, found = self._made.get(profile, (-1, 0, None))
        if made_at == over and length >= bins:
            return found
        history = self.arrivals(profile).history(now)
        found = None
        if history is not None:
            found = forecast(history, bins, coverage=self._coverage)
        self._made[profile] = over, bins, found
        return found

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is to be kept, with the names to keep it under."""
        for profile, counts in self._arrivals.items():
            yield from counts.rows(profile)
