"""Servers that answer as told, byte by byte, for what no HTTP framework would send."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from tests.edge.scrape.support import TEXT

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Called once for each request, after its head was read; the connection closes when it ends."""

PAGE = b"a 1\nb 2\n"


def answer(body: bytes = PAGE, status: int = 200, **headers: str) -> bytes:
    """Return an answer; header names have _ for -."""
    head = {"Content-Type": TEXT, "Content-Length": str(len(body))}
    head |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items() if value)
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode() + body


def sends(*pieces: bytes) -> Handler:
    """Send the pieces, each by itself."""

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return handler


def forever(first: bytes, again: bytes, pause_seconds: float = 0.0) -> Handler:
    """Send the first piece, and then the other again and again."""

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(again)
            await writer.drain()
            await asyncio.sleep(pause_seconds)

    return handler


async def hangs(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


class Site:
    """A server with a handler for each path, and all requests that came in."""

    def __init__(self, pages: Mapping[str, Handler], default: Handler) -> None:
        self._pages = pages
        self._default = default
        self._open: set[asyncio.StreamWriter] = set()
        self.requests: list[str] = []
        self.connections = 0
        self.port = 0

    def url(self, path: str = "/metrics", *, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        ends = (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError)
        with suppress(*ends):
            while not writer.is_closing():
                request = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.requests.append(request)
                path = request.split(" ")[1].partition("?")[0]
                handler = self._pages.get(path, self._default)
                await handler(reader, writer)
                if handler is not self._default:
                    break
        writer.close()
        self._open.discard(writer)

    def hang_up(self) -> None:
        """Close all connections that are open, as an idle server does after a while."""
        for writer in self._open:
            writer.close()


@asynccontextmanager
async def serving(
    pages: Mapping[str, Handler] | None = None,
    *,
    default: Handler | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Site]:
    """Serve on a free loopback port. Connections outlive only answers of the default handler."""
    site = Site(pages or {}, default or sends(answer()))
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        site.hang_up()
