"""What pure code may ask of the world. Everything else is passed in as a value."""

from __future__ import annotations

from typing import Protocol, TypeAlias

UnixSeconds: TypeAlias = float
"""An instant: seconds since 1970-01-01T00:00:00Z. Named `…_at`; spans are named `…_seconds`."""


class Clock(Protocol):
    """Where time comes from; injected, never read in the middle of logic."""

    def now(self) -> UnixSeconds:
        """Return the wall-clock instant."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        ...
