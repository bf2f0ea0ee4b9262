"""The error tree.

Ds4watchError
├── ConfigError        bad input by a person: one line, where, and how to mend it (exit code 2)
├── ScrapeError        a target that did not answer as it should
├── SourceError        a remote Prometheus that did not answer as it should
├── StoreError         the database
├── WorkerError        a worker process or its HTTP API
│   └── NoNumberError      log-probabilities that are no numbers: no model gives that rightly
├── NotifyError        a channel
├── UpstreamError      the gateway's way to a worker
└── QueryError         an expression that cannot be parsed or evaluated
    ├── BadQueryError      not a query at all, whatever is stored
    └── QueryTimeoutError  it took too long, or would not have had its turn
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ds4watchError(Exception):
    """Root of all errors that ds4watch raises on purpose."""


@dataclass(frozen=True, slots=True)
class Located:
    """One finding about something a person wrote: what, where, and how to mend it."""

    message: str
    file: str | None = None
    line: int | None = None
    field: str | None = None
    mend: str | None = None

    def __str__(self) -> str:
        """Render as `file:line: field: message (mend)`, leaving out what is unknown."""
        where = self.file or ""
        if self.file and self.line is not None:
            where = f"{self.file}:{self.line}"
        parts = [part for part in (where, self.field, self.message) if part]
        text = ": ".join(parts)
        return f"{text} ({self.mend})" if self.mend else text


class ConfigError(Ds4watchError):
    """Bad input by a person. `findings` has one entry, hence one printed line, for each fault."""

    def __init__(self, *findings: Located) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = findings


class EdgeReason(StrEnum):
    """Why an outside system failed us; bounded, so that it can be a metric label."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    STATUS = "status"
    BODY = "body"
    TOO_LARGE = "too_large"
    PARSE = "parse"
    REFUSED = "refused"
    GONE = "gone"
    FULL = "full"
    LOCKED = "locked"
    OTHER = "other"


class EdgeError(Ds4watchError):
    """An outside system failed; `retryable` says whether the same call may succeed later."""

    def __init__(self, message: str, *, reason: EdgeReason, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable


class ScrapeError(EdgeError):
    """A target did not answer as it should."""


class SourceError(EdgeError):
    """A remote Prometheus did not answer as it should. It may say how long to wait."""

    def __init__(
        self,
        message: str,
        *,
        reason: EdgeReason,
        retryable: bool = False,
        wait_seconds: float = 0.0,
    ) -> None:
        super().__init__(message, reason=reason, retryable=retryable)
        self.wait_seconds = wait_seconds


class StoreError(EdgeError):
    """The database failed."""


class WorkerError(EdgeError):
    """A worker process or its HTTP API failed."""


class NoNumberError(WorkerError):
    """A worker's log-probabilities are no numbers, as of weights that are damaged."""


class NotifyError(EdgeError):
    """A notification channel failed."""


class UpstreamError(EdgeError):
    """The gateway could not get an answer from a worker."""


class RefusedError(Ds4watchError):
    """What a person asked for cannot be; the message says why, in one line."""


class QueryError(Ds4watchError):
    """An expression cannot be parsed or evaluated; `position` is a character offset, if known."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class BadQueryError(QueryError):
    """What is asked is malformed, whatever is stored."""


class QueryTimeoutError(QueryError):
    """A query took too long, or too many wait before it."""
