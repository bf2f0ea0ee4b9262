"""How long workers of a profile took from process start to their first answered canary. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

KEPT = 10
"""So many of the last starts count."""
_MARGIN = 3.0
_SLOW = 0.95


class StartTimes:
    """Learned start-up times by profile, in seconds."""

    def __init__(self, known: Mapping[str, Iterable[float]] | None = None) -> None:
        """Go on from `known`: a profile's last starts, oldest first."""
        self._took = {profile: tuple(took)[-KEPT:] for profile, took in (known or {}).items()}

    def note(self, profile: str, took_seconds: float) -> None:
        """Take in a start."""
        self._took[profile] = (*self._took.get(profile, ()), took_seconds)[-KEPT:]

    def seconds(self, profile: str) -> float | None:
        """Return the median of the last starts; None before the first."""
        took = self._took.get(profile)
        return median(took) if took else None

    def slow_seconds(self, profile: str) -> float | None:
        """Return the 95th percentile of the last starts; None before the first."""
        took = sorted(self._took.get(profile, ()))
        if not took:
            return None
        place = _SLOW * (len(took) - 1)
        under = int(place)
        over = min(under + 1, len(took) - 1)
        return took[under] + (took[over] - took[under]) * (place - under)

    def timeout_seconds(
        self, profile: str, configured: float, expected: float | None = None
    ) -> float:
        """Return the time a start may take: as configured, and never under 3 times the usual.

        expected: what counts as usual before the first.
        """
        usual = self.seconds(profile) or expected
        return configured if usual is None else max(configured, _MARGIN * usual)

    def all(self) -> dict[str, float]:
        """Return the median of each profile that was started."""
        return {name: median(took) for name, took in sorted(self._took.items()) if took}
