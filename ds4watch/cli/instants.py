"""Instants as people type them: ISO 8601, unix seconds, or an age such as 2h."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import typer

from ds4watch.model.ports import UnixSeconds

_UNITS_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def instant(text: str, now: UnixSeconds) -> UnixSeconds:
    """Read an instant. Raises typer.BadParameter, which says what can be written."""
    age = _AGE.fullmatch(text)
    if age:
        return now - float(age[1]) * _UNITS_SECONDS[age[2]]
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is no instant: write 2026-11-30T12:00, unix seconds, or an age as 2h"
        raise typer.BadParameter(message) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
