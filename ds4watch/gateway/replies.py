"""Answers of the gateway's own, in OpenAI's shape."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from ds4watch.gateway.http.message import Response, header_line
from ds4watch.model.errors import Ds4watchError
from ds4watch.model.usage import RequestOutcome

RETRY_AFTER_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """An error as the client reads it."""

    status: int
    message: str
    code: str
    kind: str = "invalid_request_error"
    param: str | None = None
    retry_after_seconds: int = RETRY_AFTER_SECONDS
    """Told with a 429 or a 503."""

    def body(self) -> dict[str, Any]:
        """Return the JSON body."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def event(self) -> bytes:
        """Return the server-sent events that end a stream whose 200 is out already."""
        return f"data: {json.dumps(self.body())}\n\ndata: [DONE]\n\n".encode()

    def response(self, lines: bytes) -> Response:
        """Return the HTTP response; `lines` are headers that it has too."""
        if self.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            lines += header_line("Retry-After", str(self.retry_after_seconds))
        if self.status == HTTPStatus.UNAUTHORIZED:
            lines += header_line("WWW-Authenticate", "Bearer")
        return json_response(self.body(), status=self.status, lines=lines)


class RefusedError(Ds4watchError):
    """A request is not forwarded; the client is told why."""

    def __init__(
        self, reply: Reply, *, outcome: RequestOutcome = RequestOutcome.CLIENT_ERROR
    ) -> None:
        super().__init__(reply.message)
        self.reply = reply
        self.outcome = outcome


def unavailable(
    message: str, *, code: str, retry_after_seconds: int = RETRY_AFTER_SECONDS
) -> Reply:
    """Return a 503: nothing is wrong with the request, and later it may be served."""
    return Reply(
        503,
        message,
        code,
        kind="service_unavailable_error",
        retry_after_seconds=retry_after_seconds,
    )


def json_response(body: dict[str, Any], *, status: int = 200, lines: bytes = b"") -> Response:
    """Return a response of ours in JSON, with `lines` for further headers."""
    kind = header_line("Content-Type", "application/json; charset=utf-8")
    return Response(status, json.dumps(body).encode(), kind + lines)
