"""Serving the admin application on a socket that is bound beforehand."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Generator
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from ds4watch.model.errors import ConfigError, Located

_log = logging.getLogger(__name__)

STOP_SECONDS = 3.0
MAX_CONNECTIONS = 256


def bind(host: str, port: int, *, setting: str) -> socket.socket:
    """Return a listening TCP socket. Raises ConfigError naming `setting` if it cannot be had."""
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigError(_finding(error, host, port, setting)) from error
    return listener


def _finding(error: OSError, host: str, port: int, setting: str) -> Located:
    if error.errno == errno.EADDRINUSE:
        mend = f"stop what uses it, or set {setting}.port"
        return Located(f"{host}:{port} is in use", field=f"{setting}.port", mend=mend)
    if error.errno == errno.EACCES:
        message = f"{host}:{port} needs rights that this process does not have"
        return Located(message, field=f"{setting}.port", mend="take a port above 1023")
    reason = (error.strerror or str(error)).lower()
    return Located(f"cannot listen on {host}:{port}: {reason}", field=f"{setting}.host")


class _Server(uvicorn.Server):
    """uvicorn that leaves signals to the daemon and says when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.serving.set()


class AdminServer:
    """Serves an application from entering to leaving; port 0 takes a free one."""

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._wanted_port = port
        self.port = 0
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address to reach it at."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Bind and serve. Raises ConfigError if the port cannot be had."""
        listener = bind(self._host, self._wanted_port, setting="admin")
        self.port = listener.getsockname()[1]
        self._server = _Server(_uvicorn_config(self._app))
        serving = asyncio.create_task(self._server.serving.wait())
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        await asyncio.wait({serving, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._server.serving.is_set():
            serving.cancel()
            listener.close()
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
        self._server.should_exit = True
        await self._task


def _uvicorn_config(app: ASGIApp) -> uvicorn.Config:
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
    )
