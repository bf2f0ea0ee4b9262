"""The listening side: every client's connection, looked after together."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from email.utils import formatdate

from ds4watch.gateway.http.connection import ClientConnection
from ds4watch.gateway.http.errors import BadRequestError
from ds4watch.gateway.http.parties import Bounds, Handler, Refuser

_BACKLOG = 1024
_LOOK_SECONDS = 0.25
_MAX_PARTING = 256
"""Connections over the bound that are told so; those beyond are closed without a word."""


class HttpServer:
    """Serves one handler on one address."""

    def __init__(
        self, handler: Handler, refuse: Refuser, bounds: Bounds, turned_away: Callable[[], None]
    ) -> None:
        """`turned_away` is called for each connection that is one too many."""
        self._handler = handler
        self._refuse = refuse
        self._bounds = bounds
        self._turned_away = turned_away
        self._loop = asyncio.get_running_loop()
        self._connections: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._look_at = self._loop.time()
        self.is_draining = False
        """Answers now end their connections."""
        self.date = b""

    async def start(self, host: str, port: int) -> int:
        """Listen, with others on the same port; return the port. Raises OSError."""
        self._look_at = self._loop.time()
        self._look()
        self._server = await self._loop.create_server(
            lambda: ClientConnection(self, self._handler, self._refuse, self._bounds),
            host, port, reuse_port=True, backlog=_BACKLOG,
        )  # fmt: skip
        for listener in self._server.sockets:
            if listener.family in (socket.AF_INET, socket.AF_INET6):
                return int(listener.getsockname()[1])
        raise OSError(None, "no address to listen on")

    def stop_listening(self) -> None:
        """Take no more connections, and end each with its next answer."""
        self.is_draining = True
        if self._server is not None:
            self._server.close()

    async def close(self, seconds: float) -> None:
        """Cut off what is under way; wait for it, and for answers to be sent, so long at most."""
        self.stop_listening()
        deadline = self._loop.time() + seconds
        tasks = [task for one in list(self._connections) if (task := one.cut_off()) is not None]
        for connection in list(self._connections):
            connection.finish()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        while self._connections and self._loop.time() < deadline:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    def opened(self, connection: ClientConnection) -> None:
        """Take a connection in, or turn it away if it is one too many."""
        self._connections.add(connection)
        over = len(self._connections) - self._bounds.max_connections
        if over > 0:
            self._turned_away()
            if over > _MAX_PARTING:
                connection.abort()
            else:
                connection.turn_away(
                    BadRequestError(503, "Too many connections; try again", "overloaded")
                )

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection."""
        self._connections.discard(connection)

    def _look(self) -> None:
        """Look for what has taken too long, a few times a second.

        By so much as we are late ourselves, every client has longer.
        """
        self.date = f"Date: {formatdate(time.time(), usegmt=True)}\r\n".encode()
        now = self._loop.time()
        for connection in list(self._connections):
            connection.look(now, now - self._look_at)
        self._look_at = now + _LOOK_SECONDS
        self._timer = self._loop.call_at(self._look_at, self._look)
