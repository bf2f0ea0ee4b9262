"""The parameters of the Prometheus HTTP API, from the address or a form, in its own words."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from ds4watch.alerting.durations import parse_duration
from ds4watch.model.errors import BadQueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.question import Asked, Question
from ds4watch.promql.range_steps import MAX_STEPS

_MOST_FIELDS: Final = 1000
_FORM = "application/x-www-form-urlencoded"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_MOST_SECONDS: Final = 253_402_300_799.0
"""The year 9999, beyond which nothing can be written down."""


class Fields:
    """What was sent, by name: of the form first, then of the address."""

    def __init__(self, values: dict[str, list[str]]) -> None:
        self._values = values

    @classmethod
    async def of(cls, request: Request) -> Fields:
        """Read a request. Raises BadQueryError where there are too many fields."""
        texts = [str(request.url.query)]
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind == _FORM:
            texts.insert(0, (await request.body()).decode("utf-8", errors="replace"))
        found: dict[str, list[str]] = {}
        for text in texts:
            try:
                told = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
            except ValueError as error:
                message = f"over {_MOST_FIELDS} parameters"
                raise BadQueryError(message) from error
            for name, values in told.items():
                found.setdefault(name, []).extend(values)
        return cls(found)

    def text(self, name: str) -> str:
        """Return a parameter; empty where it was not sent."""
        return self._values.get(name, [""])[0]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter that may be sent more than once."""
        return tuple(self._values.get(name, ()))

    def instant(self, name: str, default: UnixSeconds | None = None) -> UnixSeconds:
        """Return an instant: unix seconds or RFC 3339. Without a default it has to be there."""
        text = self.text(name)
        if not text and default is not None:
            return default
        at = _instant(text)
        if at is None:
            # In its words; it has others where an instant may be left out.
            told = "" if default is None else f"Invalid time value for '{name}': "
            raise _invalid(name, f'{told}cannot parse "{text}" to a valid timestamp')
        return at

    def seconds(self, name: str) -> float | None:
        """Return a duration: seconds, or as `5m`; None where it was not sent."""
        text = self.text(name)
        return self.duration(name) if text else None

    def duration(self, name: str) -> float:
        """Return a duration that has to be there."""
        text = self.text(name)
        seconds = _seconds(text)
        if seconds is None:
            raise _invalid(name, f'cannot parse "{text}" to a valid duration')
        return seconds

    def number(self, name: str) -> int | None:
        """Return a whole number; None where it was not sent."""
        text = self.text(name)
        if not text:
            return None
        if not _WHOLE.fullmatch(text):
            message = f"{name} must be a number"
            raise BadQueryError(message)
        return int(text)

    def count(self, name: str) -> int:
        """Return a number of things, 0 where it was not sent."""
        found = self.number(name) or 0
        if found < 0:
            raise _invalid(name, f"{name} must be non-negative")
        return found


def instant_question(fields: Fields, now: UnixSeconds, *, compressed: bool) -> Question:
    """Return what `/query` asks. Raises BadQueryError."""
    limit, at = fields.count("limit"), fields.instant("time", now)
    timeout, lookback = fields.seconds("timeout"), fields.seconds("lookback_delta")
    return Question(
        Asked.INSTANT,
        at,
        at,
        query=fields.text("query"),
        lookback_seconds=_positive(lookback),
        limit=limit,
        timeout_seconds=_positive(timeout),
        compressed=compressed,
    )


def range_question(fields: Fields, *, compressed: bool) -> Question:
    """Return what `/query_range` asks. Raises BadQueryError."""
    limit = fields.count("limit")
    start, end = fields.instant("start"), fields.instant("end")
    if end < start:
        raise _invalid("end", "end timestamp must not be before start time")
    step = fields.duration("step")
    if step <= 0:
        message = "zero or negative query resolution step widths are not accepted. "
        raise _invalid("step", message + "Try a positive integer")
    if (end - start) / step > MAX_STEPS:
        message = (
            f"exceeded maximum resolution of {MAX_STEPS:,} points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        )
        raise BadQueryError(message)
    timeout, lookback = fields.seconds("timeout"), fields.seconds("lookback_delta")
    return Question(
        Asked.RANGE,
        start,
        end,
        query=fields.text("query"),
        step_seconds=step,
        lookback_seconds=_positive(lookback),
        limit=limit,
        timeout_seconds=_positive(timeout),
        compressed=compressed,
    )


def series_question(fields: Fields, asked: Asked, *, compressed: bool, label: str = "") -> Question:
    """Return what `/series`, `/labels` or `/label/…/values` asks. Raises BadQueryError."""
    limit, selectors = fields.count("limit"), fields.texts("match[]")
    if asked is Asked.LABEL_VALUES and not _LABEL.fullmatch(label):
        message = f'invalid label name: "{label}"'
        raise BadQueryError(message)
    if asked is Asked.SERIES and not selectors:
        message = "no match[] parameter provided"
        raise BadQueryError(message)
    return Question(
        asked,
        fields.instant("start", 0.0),
        fields.instant("end", _MOST_SECONDS),
        selectors=selectors,
        label=label,
        limit=limit,
        compressed=compressed,
    )


def _instant(text: str) -> UnixSeconds | None:
    if _NUMBER.fullmatch(text):
        at = float(text)
        return at if abs(at) <= _MOST_SECONDS else None
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(match[1] + match[3])
        return whole.astimezone(UTC).timestamp() + float(match[2] or 0)
    except (ValueError, OverflowError):
        return None


def _seconds(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        seconds = float(text)
        return seconds if math.isfinite(seconds) and abs(seconds) < 9e9 else None
    try:
        return parse_duration(text)
    except ValueError:
        return None


def _positive(seconds: float | None) -> float | None:
    return seconds if seconds is not None and seconds > 0 else None


def _invalid(name: str, why: str) -> BadQueryError:
    return BadQueryError(f'invalid parameter "{name}": {why}')
