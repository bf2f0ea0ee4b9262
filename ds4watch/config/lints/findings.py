"""What a lint says, before and after it has a place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ds4watch.config.document import Path
from ds4watch.model.errors import Located

GIB: Final = 1 << 30
MIB: Final = 1 << 20


class Severity(StrEnum):
    """Whether the worker will fail or mislead, or only do worse than it could."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Advice:
    """What is to be said about one key of a profile, and how to mend it."""

    path: Path
    message: str
    mend: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True)
class Lint:
    """An advice with its file and line."""

    severity: Severity
    found: Located


def warn(path: Path, message: str, mend: str) -> Advice:
    """Return an advice that is no error."""
    return Advice(path, message, mend, Severity.WARNING)


def gib(size_bytes: float) -> str:
    """Return a size as people read it: `14.2 GiB`; below one GiB in MiB."""
    if abs(size_bytes) < GIB:
        return f"{size_bytes / MIB:.0f} MiB"
    return f"{size_bytes / GIB:.1f} GiB"
