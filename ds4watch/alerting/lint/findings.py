"""What a check says, and what it has to know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Check(StrEnum):
    """The kinds of finding."""

    UNGUARDED_RATIO = "unguarded-ratio"
    SILENT_WHEN_ABSENT = "silent-when-absent"
    NO_TRAFFIC_GUARD = "no-traffic-guard"
    UNKNOWN_METRIC = "unknown-metric"
    UNIT = "unit"
    CHANGING_LABEL = "changing-label"
    UNREACHABLE_TIER = "unreachable-tier"
    NO_RUNBOOK = "no-runbook"
    SHORT_FOR = "short-for"


@dataclass(frozen=True, slots=True)
class Advice:
    """What a check has to say of a rule: what it found, why that is bad, how to mend it."""

    check: Check
    what: str
    why: str
    mend: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Advice with its place."""

    advice: Advice
    rule: str
    file: str
    line: int | None

    def __str__(self) -> str:
        """Render as one line: `file:line: Rule: what: why (mend) [check]`."""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        said = self.advice
        return f"{where}: {self.rule}: {said.what}: {said.why} ({said.mend}) [{said.check}]"


class Metrics(Protocol):
    """What is known of a series by its name."""

    def is_known(self, name: str) -> bool:
        """Return whether a series of that name can be there."""
        ...

    def nearest(self, name: str) -> str | None:
        """Return the known name that is most like it, if one is."""
        ...

    def is_share(self, name: str) -> bool:
        """Return whether its values lie from 0 to 1."""
        ...

    def is_percent(self, name: str) -> bool:
        """Return whether its values lie from 0 to 100."""
        ...

    def is_share_of_traffic(self, name: str) -> bool:
        """Return whether it is a share of requests or tokens."""
        ...
