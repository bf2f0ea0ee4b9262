"""One request while it is under way, and what is booked of it in the end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted

from ds4watch.gateway import headers as names
from ds4watch.gateway.admitted import Admitted
from ds4watch.gateway.http.message import Stream, header_line
from ds4watch.gateway.prefix_window import NO_TURN, Turn
from ds4watch.model.usage import RequestOutcome, RetryReason, Usage

_USUAL_FIELDS = (
    *("status", "outcome", "stream", "estimated", "level", "degraded", "choices"),
    *("gateway", "key", "path", "model_asked", "model_served", "worker", "profile"),
    *("work_class", "filter"),
)
_CLIENT_GONE_STATUS = 499
"""nginx's number for a client that closed before its answer; never sent, only booked."""


@dataclass(slots=True)
class Call:
    """Facts about a request, noted as they become known. Instants are monotonic seconds."""

    id: str
    path: str
    started_at: float
    key: str = ""
    model_asked: str = ""
    model_served: str = ""
    worker: str = ""
    profile: str = ""
    work_class: str = ""
    filter: str = ""
    choices: int = 1
    first_tried_at: float | None = None
    tried_at: float | None = None
    attempts: int = 0
    status: int = 500
    outcome: RequestOutcome = RequestOutcome.UPSTREAM_ERROR
    stream: bool = False
    first_byte_at: float | None = None
    usage: Usage | None = None
    estimated: bool = False
    session: int | None = None
    conversation: int | None = None
    has_many_turns: bool = False
    is_long: bool = False
    level: int = 0
    priority: int = 5
    prompt_tokens: int = 0
    """Estimated from bytes."""
    rate_headers: dict[str, str] | None = None
    entry: Admitted | None = None
    """Once it has been let in."""
    degraded: tuple[str, ...] = ()
    retries: list[tuple[str, RetryReason]] = field(default_factory=list)
    turn: Turn = NO_TURN
    response: Stream | None = None
    """Set once headers have gone to the client; from then on nothing can be tried anew."""

    def end(self, status: int, outcome: RequestOutcome) -> None:
        """Note how it ended."""
        self.status = status
        self.outcome = outcome

    def gone(self) -> None:
        """Note that the client left before its answer was whole; what it got stays booked."""
        self.end(_CLIENT_GONE_STATUS, RequestOutcome.CLIENT_GONE)

    def own_lines(self) -> bytes:
        """Return the headers that every answer carries; no worker where none was tried."""
        usual = _usual_lines(self.attempts, self.worker, self.degraded)
        lines = b"x-request-id: %b\r\n%b" % (self.id.encode("ascii"), usual)
        if self.rate_headers:
            lines += b"".join(header_line(*header) for header in self.rate_headers.items())
        return lines

    def line(self, *, gateway: str, seq: int, now: float, ended_at: float) -> bytes:
        """Return the line for the books, a `RequestRecord` in JSON; `now` is monotonic.

        Put together by hand: an object and an encoder for each request cost three times as much.
        Instants and spans are told to the microsecond.
        """
        since, usage = self.started_at, self.usage
        first, queue, tried = self.first_byte_at, self.first_tried_at, self.tried_at
        return (
            f'{{"id":{_quoted(self.id)},"seq":{seq},"ended_at":{ended_at:.6f},'
            f'"duration_seconds":{now - since:.6f},'
            f'"queue_seconds":{"null" if queue is None else f"{queue - since:.6f}"},'
            f'"tried_seconds":{"null" if tried is None else f"{tried - since:.6f}"},'
            f'"first_byte_seconds":{"null" if first is None else f"{first - since:.6f}"},'
            f'"usage":{"null" if usage is None else _usage_in_json(usage)},'
            f'"conversation":{"null" if self.conversation is None else self.conversation},'
            f'"retries":{json.dumps(self.retries) if self.retries else "[]"},'
            f"{self._usual_fields(gateway)}}}\n"
        ).encode()

    def _usual_fields(self, gateway: str) -> str:
        return _fields_of(
            self.status,
            self.outcome,
            self.stream,
            self.estimated,
            self.level,
            self.degraded,
            self.choices,
            gateway,
            self.key,
            self.path,
            self.model_asked,
            self.model_served,
            self.worker,
            self.profile,
            self.work_class,
            self.filter,
        )


def _usage_in_json(usage: Usage) -> str:
    return f'{{"prompt":{usage.prompt},"cached":{usage.cached},"completion":{usage.completion}}}'


@lru_cache(maxsize=1024)
def _fields_of(*values: str | int | tuple[str, ...]) -> str:
    """Return the fields that are the same in many lines."""
    told = dict(zip(_USUAL_FIELDS, values, strict=True))
    return json.dumps(told, separators=(",", ":"))[1:-1]


@lru_cache(maxsize=1024)
def _usual_lines(attempts: int, worker: str, degraded: tuple[str, ...]) -> bytes:
    lines = header_line(names.ATTEMPTS, str(attempts))
    if worker:
        lines += header_line(names.WORKER, worker)
    if degraded:
        lines += header_line(names.DEGRADED, ";".join(degraded))
    return lines
