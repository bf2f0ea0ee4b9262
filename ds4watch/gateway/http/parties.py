"""Whom a client's connection deals with, and the bounds that it keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ds4watch.gateway.http.message import Request, Response, Stream

if TYPE_CHECKING:
    from ds4watch.gateway.http.connection import ClientConnection

Handler = Callable[[Request], Awaitable[Response | Stream]]


class Refuser(Protocol):
    """Words what is answered to no request at all."""

    def __call__(self, status: int, message: str, code: str) -> Response:
        """Return the answer."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What clients may take: bytes of a body, seconds for its head, for its body, and idle.

    stalled_seconds: without taking anything of an answer that waits for it.
    """

    max_body_bytes: int
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    stalled_seconds: float = 120.0
    max_connections: int = 10_000


class Owner(Protocol):
    """Who keeps the connections."""

    date: bytes
    is_draining: bool

    def opened(self, connection: ClientConnection) -> None:
        """Take a connection in."""

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection."""
