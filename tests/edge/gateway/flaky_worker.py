"""`python -m tests.edge.gateway.flaky_worker PORT`: one answer in so many breaks off."""

from __future__ import annotations

import asyncio
import itertools
import sys

import uvloop

from benchmarks.support.canned_worker import CannedWorker

COUNT = itertools.count()
GOOD = 50
HALF = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{"
HALF_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b'31\r\ndata: {"id":"c","object":"o","created":1,"choi\r\n'
)


class FlakyWorker(CannedWorker):
    """As canned as the other one, but."""

    def _answer(self, *, is_post: bool, body: bytes) -> None:
        if is_post and next(COUNT) % GOOD == GOOD - 1:
            assert self._transport is not None
            self._transport.write(HALF_STREAM if b'"stream"' in body else HALF)
            self._transport.close()
            return
        super()._answer(is_post=is_post, body=body)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(FlakyWorker, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
