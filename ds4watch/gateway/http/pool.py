"""Connections to workers, kept between requests."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from ds4watch.gateway.http.errors import StaleConnectionError, WorkerGoneError
from ds4watch.gateway.http.upstream import WorkerConnection
from ds4watch.telemetry.own_lag import patient

_IDLE_SECONDS = 3.0
"""Under the 5 s after which vLLM's server closes an idle connection, perhaps as we use it."""
_LOOK_SECONDS = 0.1
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where a worker is: address, and what its requests begin with; one object for each."""

    host: str
    port: int
    is_tls: bool
    prefix: bytes
    host_line: bytes


@lru_cache(maxsize=1024)
def origin_of(url: str) -> Origin:
    """Return a worker's origin. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        message = f"{url!r} is not an address of a worker"
        raise ValueError(message)
    netloc = parts.netloc.rpartition("@")[2]
    return Origin(
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        is_tls=parts.scheme == "https",
        prefix=parts.path.rstrip("/").encode("ascii"),
        host_line=b"Host: %b\r\n" % netloc.encode("idna" if not netloc.isascii() else "ascii"),
    )


class Pool:
    """Asks workers, each over connections of its own; a look at all of them bounds their time."""

    def __init__(
        self,
        *,
        connect_seconds: float,
        answer_seconds: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Without `tls` HTTPS workers are trusted as the system says."""
        self._loop = asyncio.get_running_loop()
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._idle: dict[Origin, list[WorkerConnection]] = {}
        self._busy: set[WorkerConnection] = set()
        self._tls = tls
        self._overdue: set[WorkerConnection] = set()
        self._look_at = self._loop.time() + _LOOK_SECONDS
        self._timer = self._loop.call_at(self._look_at, self._look)

    async def ask(self, origin: Origin, head: bytes, body: bytes) -> WorkerConnection:
        """Send a request and return the connection once the answer's head is there.

        Whoever asked gives it back, however it ends. A kept connection that the worker has closed
        meanwhile, before any answer, is replaced by a new one, once. Raises WorkerGoneError,
        StaleConnectionError, BrokenAnswerError, TimeoutError.
        """
        deadline = self._loop.time() + self._answer_seconds
        kept = self._kept(origin)
        while True:
            connection = kept or await self._connect(origin)
            self._busy.add(connection)
            try:
                await connection.ask(head, body, deadline)
            except BaseException as error:
                self._busy.discard(connection)
                connection.abort()
                if kept is None or not isinstance(error, StaleConnectionError):
                    raise
                kept = None
            else:
                return connection

    def give_back(self, origin: Origin, connection: WorkerConnection) -> None:
        """Keep a connection whose answer was read to its end; close any other."""
        self._busy.discard(connection)
        if connection.release():
            connection.idle_since = self._loop.time()
            self._idle.setdefault(origin, []).append(connection)

    def close(self) -> None:
        """Close everything."""
        self._timer.cancel()
        for connection in [*self._busy, *(one for kept in self._idle.values() for one in kept)]:
            connection.abort()
        self._idle.clear()

    def _kept(self, origin: Origin) -> WorkerConnection | None:
        kept = self._idle.get(origin)
        oldest = self._loop.time() - _IDLE_SECONDS
        while kept:
            connection = kept.pop()
            if connection.is_usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin) -> WorkerConnection:
        try:
            async with patient(self._connect_seconds):
                _, connection = await self._loop.create_connection(
                    WorkerConnection, origin.host, origin.port, ssl=self._context(origin)
                )
        except TimeoutError as error:
            message = f"no connection within {self._connect_seconds:g} s"
            raise WorkerGoneError(message) from error
        except OSError as error:  # ssl.SSLError is one
            raise WorkerGoneError(str(error) or type(error).__name__) from error
        return connection

    def _context(self, origin: Origin) -> ssl.SSLContext | None:
        if not origin.is_tls:
            return None
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _look(self) -> None:
        """End answers that take too long, drop connections that were idle too long.

        By so much as we are late, a worker has longer; and what it sent meanwhile is read before.
        """
        now = self._loop.time()
        late = now - self._look_at
        before, self._overdue = self._overdue, set[WorkerConnection]()
        for connection in list(self._busy):
            connection.deadline += late
            if connection.deadline > now:
                continue
            if connection in before:
                connection.fail(TimeoutError())
            else:
                self._overdue.add(connection)
        for origin, kept in list(self._idle.items()):
            while kept and kept[0].idle_since <= now - _IDLE_SECONDS:
                kept.pop(0).abort()
            if not kept:
                del self._idle[origin]
        self._look_at = now + _LOOK_SECONDS
        self._timer = self._loop.call_at(self._look_at, self._look)
