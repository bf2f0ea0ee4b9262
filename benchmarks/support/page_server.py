"""Serves a worker's page for many targets from one process, as cheaply as may be.

python -m benchmarks.support.page_server PORT: /t/<number>/metrics is the page of the second, the
same for all numbers, prepared beforehand. It is sent as it is, to whoever offers gzip too.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import uvloop

from benchmarks.support.growing_page import GrowingPage

VERSIONS = 900
"""Seconds until the page begins again, with a reset of its counters."""


class Connection(asyncio.Protocol):
    """One kept-alive connection; answers whatever is asked with the page."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self._transport: asyncio.Transport | None = None
        self._asked = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._asked += data
        while (end := self._asked.find(b"\r\n\r\n")) >= 0:
            self._asked = self._asked[end + 4 :]
            assert self._transport is not None
            self._transport.write(self._answers[int(time.time()) % VERSIONS])


def answers() -> list[bytes]:
    """Return whole HTTP answers."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
    return [
        f"{head}Content-Length: {len(page)}\r\n\r\n".encode() + page
        for page in GrowingPage().versions(VERSIONS)
    ]


async def serve(port: int) -> None:
    """Serve until killed."""
    prepared = answers()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(prepared), "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
