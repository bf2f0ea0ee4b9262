"""One request while it is under way, and what is booked of it in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from ds4watch.gateway import headers as names
from ds4watch.gateway.http.message import Stream, header_line
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage

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
    attempts: int = 0
    status: int = 500
    outcome: RequestOutcome = RequestOutcome.UPSTREAM_ERROR
    stream: bool = False
    first_byte_at: float | None = None
    usage: Usage | None = None
    estimated: bool = False
    level: int = 0
    degraded: tuple[str, ...] = ()
    retries: list[tuple[str, RetryReason]] = field(default_factory=list)
    response: Stream | None = None
    """Set once headers have gone to the client; from then on nothing can be tried anew."""

    def end(self, status: int, outcome: RequestOutcome) -> None:
        """Note how it ended."""
        self.status = status
        self.outcome = outcome

    def gone(self) -> None:
        """Note that the client left before its answer was whole; what it got stays booked."""
        self.end(_CLIENT_GONE_STATUS, RequestOutcome.CLIENT_GONE)

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that every answer carries; no worker where none was tried."""
        own = [
            header_line(names.REQUEST_ID, self.id),
            header_line(names.ATTEMPTS, str(self.attempts)),
        ]
        if self.worker:
            own.append(header_line(names.WORKER, self.worker))
        if self.degraded:
            own.append(header_line(names.DEGRADED, ";".join(self.degraded)))
        return own

    def record(self, *, gateway: str, seq: int, now: float, ended_at: float) -> RequestRecord:
        """Return the line for the books; `now` is monotonic, `ended_at` the wall clock's."""
        first = self.first_byte_at
        return RequestRecord(
            id=self.id,
            gateway=gateway,
            seq=seq,
            ended_at=ended_at,
            key=self.key,
            path=self.path,
            model_asked=self.model_asked,
            model_served=self.model_served,
            worker=self.worker,
            status=self.status,
            outcome=self.outcome,
            stream=self.stream,
            duration_seconds=now - self.started_at,
            first_byte_seconds=None if first is None else first - self.started_at,
            usage=self.usage,
            estimated=self.estimated,
            level=self.level,
            degraded=self.degraded,
            retries=tuple(self.retries),
        )
