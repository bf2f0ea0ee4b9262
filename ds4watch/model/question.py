"""A question to the history as the Prometheus HTTP API puts it; its answer is a body of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ds4watch.model.ports import UnixSeconds


class Asked(StrEnum):
    """What is wanted."""

    INSTANT = "instant"
    RANGE = "range"
    SERIES = "series"
    LABEL_NAMES = "label_names"
    LABEL_VALUES = "label_values"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how it is to be answered.

    start, end: both the instant of an instant query. query: the expression of queries. selectors:
    of series and labels, any of which may match. label: whose values are wanted. limit: elements
    at most, 0 for all. timeout_seconds: less than what is allowed anyway, if that. compressed: the
    answer is to be gzip.
    """

    asked: Asked
    start: UnixSeconds
    end: UnixSeconds
    query: str = ""
    step_seconds: float = 0.0
    selectors: tuple[str, ...] = ()
    label: str = ""
    lookback_seconds: float | None = None
    limit: int = 0
    timeout_seconds: float | None = None
    compressed: bool = False
