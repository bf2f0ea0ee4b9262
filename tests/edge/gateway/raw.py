"""A client that sends exactly the bytes it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.edge.gateway.support import CHAT, Front

BODY = json.dumps(CHAT).encode()
PATH = b"/v1/chat/completions"


def post(body: bytes = BODY, *lines: bytes, sized: bool = True, version: bytes = b"1.1") -> bytes:
    """Return a request, with a Content-Length if `sized`."""
    length = (b"Content-Length: %d" % len(body),) if sized else ()
    head = (b"POST %b HTTP/%b" % (PATH, version), b"Host: x", *length, *lines, b"", b"")
    return b"\r\n".join(head) + body


def chunked(*chunks: bytes) -> bytes:
    parts = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    return b"".join([*parts, b"0\r\n\r\n"])


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, has_body: bool = True) -> Answer:
        """Return the next answer, which has a length or is in chunks."""
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            status = int(head[0].split(" ")[1])
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            body = b""
            if has_body and "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif has_body and headers.get("transfer-encoding") == "chunked":
                while size := int(await self.reader.readuntil(b"\r\n"), 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readexactly(2)
        return Answer(status, headers, body)

    async def is_closed(self) -> bool:
        """Return whether nothing comes any more, and the connection ends, within two seconds."""
        try:
            async with asyncio.timeout(2):
                return await self.reader.read(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


@asynccontextmanager
async def client_of(front: Front) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.serving.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
