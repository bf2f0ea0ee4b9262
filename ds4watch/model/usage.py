"""What a request used, as the gateway books it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

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
    UNAUTHORIZED = "unauthorized"
    """The worker takes our API key for none of its own."""


PROMPT_WEIGHT: Final = 2
ANSWER_WEIGHT: Final = 5
"""A token of an answer is as much work as two and a half of a prompt that are computed.

The one weighting by which money is shared out by tokens: OpenCost's, where times are not known.
The view requests_cost_hourly has it too.
"""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `cached` is the part of `prompt` that came from the prefix cache."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0

    @property
    def computed(self) -> int:
        """Tokens of the prompt that the cache did not have."""
        return max(0, self.prompt - self.cached)

    @property
    def work(self) -> int:
        """What it took, in halves of a prompt's token; cached ones are none."""
        return PROMPT_WEIGHT * self.computed + ANSWER_WEIGHT * self.completion


@dataclass(frozen=True, slots=True)
class Stages:
    """Where the time of a request went; the five add up to its duration.

    queue: before the first attempt. lost: at workers that did not answer. prefill, decode: of a
    stream, up to the first byte and from it on. unsplit: at the worker of an answer that came as
    one, where nothing tells these two apart.
    """

    queue_seconds: float = 0.0
    lost_seconds: float = 0.0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    unsplit_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One line of a gateway's spool: everything that is booked about a request.

    `retries` lists (worker given up, reason) in order. `usage` is None where it is unknown.
    queue_seconds, tried_seconds, first_byte_seconds: from its arrival to the first attempt, to the
    last one, and to the answer's first byte (or all of it, if it came as one).
    work_class: of its key, or asked for and known to the gateway. filter: what was done to the
    answer. choices: answers to each prompt (`n`); `usage` has the prompt once, vLLM's counter has
    it with each.
    conversation: what its requests have in common, as a number; None: not known.
    again_tokens: of the prompt, computed although an earlier request of the conversation had been
    served with them; filled in by the daemon.
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
    queue_seconds: float | None = None
    tried_seconds: float | None = None
    first_byte_seconds: float | None = None
    usage: Usage | None = None
    estimated: bool = False
    level: int = 0
    degraded: tuple[str, ...] = ()
    retries: tuple[tuple[str, RetryReason], ...] = field(default_factory=tuple)
    profile: str = ""
    work_class: str = ""
    filter: str = ""
    choices: int = 1
    conversation: int | None = None
    again_tokens: int = 0

    def stages(self) -> Stages:
        """Return where its time went."""
        queue, tried = self.queue_seconds, self.tried_seconds
        if queue is None or tried is None:
            return Stages(queue_seconds=self.duration_seconds)
        first = self.first_byte_seconds
        if first is None:
            return Stages(queue, self.duration_seconds - queue)
        if not self.stream:
            return Stages(queue, tried - queue, unsplit_seconds=self.duration_seconds - tried)
        return Stages(queue, tried - queue, first - tried, self.duration_seconds - first)

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
        values = {name: data[name] for name in _RECORD_FIELDS if name in data}
        values["outcome"] = RequestOutcome(values["outcome"])
        values["usage"] = Usage(**values["usage"]) if values.get("usage") else None
        values["degraded"] = tuple(values.get("degraded", ()))
        values["retries"] = tuple(
            (str(worker), RetryReason(reason)) for worker, reason in values.get("retries", ())
        )
        return cls(**values)


_RECORD_FIELDS = tuple(item.name for item in fields(RequestRecord) if item.name != "again_tokens")
"""Of a line: the daemon's own field is none of it."""
_USAGE_FIELDS = tuple(item.name for item in fields(Usage))
