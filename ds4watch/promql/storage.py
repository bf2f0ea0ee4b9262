"""The narrow port through which expressions see samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, Labels


class MatchOp(StrEnum):
    """Label matching operators."""

    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher; regexes are RE2, fully anchored. An absent label equals ""."""

    name: str
    op: MatchOp
    value: str


class SeriesWindow(NamedTuple):
    """Samples of one series, oldest first. `labels` include `__name__`.

    times, values: float64, shape (samples,); values may hold staleness markers.
    failed: the last scrape of the series' target failed.
    """

    labels: Labels
    times: FloatArray
    values: FloatArray
    failed: bool = False


class Storage(Protocol):
    """Where samples come from."""

    def select(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> list[SeriesWindow]:
        """Return the matching series' samples in the left-open window (start, end].

        Series without a sample in the window are returned only if `failed` (with empty arrays).
        """
        ...
