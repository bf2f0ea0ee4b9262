"""Serving the admin application on a socket that is bound beforehand."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from ds4watch.web.ending import Ending
from ds4watch.web.listen import Tls

_log = logging.getLogger(__name__)

STOP_SECONDS = 3.0
MAX_CONNECTIONS = 256
_DATE_SECONDS = 1.0
_LAST_LOOKS, _LOOK_SECONDS = 15, 0.02
"""Time for a request that is under way while the server ends."""


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the daemon and says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Have it close."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Keep the date of answers true until the end; uvicorn looks for that every 0.1 s."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._ended.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.serving.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting; who is connected, and asks now, is answered and not cut off."""
        for server in self.servers:
            server.close()
        last = (b"connection", b"close")
        self.server_state.default_headers = [*self.server_state.default_headers, last]
        for _ in range(_LAST_LOOKS):
            if not any(map(_asks_nothing_yet, self.server_state.connections)):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        await super().shutdown(sockets=sockets)


def _asks_nothing_yet(connection: object) -> bool:
    """Return whether a connection waits for a request, its first or its next."""
    cycle = getattr(connection, "cycle", None)
    return cycle is None or cycle.response_complete


class AdminServer:
    """Serves an application on a socket that listens, from entering to leaving."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        on_leave: Callable[[], None] = lambda: None,
        tls: Tls | None = None,
    ) -> None:
        """`on_leave` ends answers that would go on for ever."""
        self._on_leave = on_leave
        self._tls = tls
        self._app = Ending(app)
        self._listener = listener
        self._host, self.port = listener.getsockname()[:2]
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address to reach it at."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Serve."""
        self._server = _Server(_uvicorn_config(self._app, self._tls))
        serving = asyncio.create_task(self._server.serving.wait())
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        await asyncio.wait({serving, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._server.serving.is_set():
            serving.cancel()
            self._listener.close()
            await self._task
            message = "the admin server ended while it started"
            raise RuntimeError(message)
        _log.info("admin API at %s", self.url)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop accepting, let open requests end, close."""
        if self._server is None or self._task is None:
            return
        self._server.end()
        self._on_leave()
        await self._task


def _uvicorn_config(app: ASGIApp, tls: Tls | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",  # bounds the size of headers; speed does not matter here
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(STOP_SECONDS),
        ssl_certfile=tls.certificate if tls is not None else None,
        ssl_keyfile=tls.key if tls is not None else None,
    )
