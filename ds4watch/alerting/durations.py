"""Durations as Prometheus writes them: 5m, 1h30m, 250ms, 0."""

from __future__ import annotations

import re

_UNITS = {
    "y": 365 * 86400.0,
    "w": 7 * 86400.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 0.001,
}
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>\d+){unit})?" for unit in _UNITS), re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `1h30m`. Raises ValueError on anything else."""
    match = _DURATION.fullmatch(text)
    if text == "0":
        return 0.0
    if not text or match is None:
        raise ValueError(f"must be a duration such as 30s, 5m or 1h30m, got {text!r}")
    return sum(int(count) * _UNITS[unit] for unit, count in match.groupdict().items() if count)


def format_duration(seconds: float) -> str:
    """Return `seconds` in the same notation, with whole units only: `90.0` is `1m30s`."""
    rest = round(seconds * 1000)
    parts = []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, round(size * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
