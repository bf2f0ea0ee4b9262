"""What a request used, as the gateway books it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from ds4watch.model.ports import UnixSeconds


class RequestOutcome(StrEnum):
    """How a request ended, from the client's side."""

    OK = "ok"
    CLIENT_ERROR = "client_error"
    UPSTREAM_ERROR = "upstream_error"
    SHED = "shed"
    CLIENT_GONE = "client_gone"


class RetryReason(StrEnum):
    """Why an attempt was given up for another worker."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    STATUS_5XX = "status_5xx"
    BUSY = "busy"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `cached` is the part of `prompt` that came from the prefix cache."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One line of a gateway's spool: everything that is booked about a request.

    `retries` lists (worker given up, reason) in order. `usage` is None where it is unknown.
    """

    id: str
    gateway: str
    seq: int
    ended_at: UnixSeconds
    key: str
    path: str
    model_asked: str
    model_served: str
    worker: str
    status: int
    outcome: RequestOutcome
    stream: bool
    duration_seconds: float
    first_byte_seconds: float | None = None
    usage: Usage | None = None
    estimated: bool = False
    level: int = 0
    degraded: tuple[str, ...] = ()
    retries: tuple[tuple[str, RetryReason], ...] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse. Written once for each request."""
        record = {name: getattr(self, name) for name in _RECORD_FIELDS}
        usage = self.usage
        if usage is not None:
            record["usage"] = {name: getattr(usage, name) for name in _USAGE_FIELDS}
        return record

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestRecord:
        """Read what `as_json` wrote; unknown keys are ignored. Raises KeyError or ValueError."""
        known = {item.name for item in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        values["outcome"] = RequestOutcome(values["outcome"])
        values["usage"] = Usage(**values["usage"]) if values.get("usage") else None
        values["degraded"] = tuple(values.get("degraded", ()))
        values["retries"] = tuple(
            (str(worker), RetryReason(reason)) for worker, reason in values.get("retries", ())
        )
        return cls(**values)


_RECORD_FIELDS = tuple(item.name for item in fields(RequestRecord))
_USAGE_FIELDS = tuple(item.name for item in fields(Usage))
