"""Instants and steps as people type them: ISO 8601, unix seconds, an age such as 2h; 15s, 0.5."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ds4watch.alerting.durations import parse_duration
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.ports import UnixSeconds

_UNITS_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SHORTEST_STEP_SECONDS = 0.001
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)
_SECONDS = re.compile(r"\d{9,10}(?:\.\d+)?", re.ASCII)
"""From 1973 to 2286: shorter ones are years or days, longer ones milliseconds."""


def instant(text: str, now: UnixSeconds, *, option: str) -> UnixSeconds:
    """Read an instant; what has no zone is in UTC. Raises ConfigError, with what can be written."""
    age = _AGE.fullmatch(text)
    if age:
        return max(0.0, now - float(age[1]) * _UNITS_SECONDS[age[2]])
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        at = datetime.fromisoformat(text)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise ConfigError(_finding(text, option)) from None


def step_seconds(text: str) -> float:
    """Read `--step`: seconds, or a duration. Raises ConfigError, with what can be written."""
    try:
        seconds = float(text) if _NUMBER.fullmatch(text) else parse_duration(text)
    except ValueError as error:
        raise ConfigError(Located(str(error), field="--step")) from None
    if seconds < SHORTEST_STEP_SECONDS:
        message = f"must be {SHORTEST_STEP_SECONDS} s or more, got {text!r}"
        raise ConfigError(Located(message, field="--step"))
    return seconds


def _finding(text: str, option: str) -> Located:
    message = (
        "must be a time such as 2026-11-30T12:00Z, unix seconds, or an age such as 2h, "
        f"got {text!r}"
    )
    return Located(message, field=option)
