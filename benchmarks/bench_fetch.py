"""CPU time of fetching and reading a worker's page, over kept-alive connections, under uvloop.

python benchmarks/bench_fetch.py [targets [share of lines that change]]; the server is a process of
its own and does not count. The last line is `ms=` a scrape, the median of the waves.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.bench_parse import CONTENT_TYPE, PAGE, Schemas, pages
from ds4watch.model.scrape import FLEET_GROUP, Target
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.wave import Scraper

WAVES = 12
PAUSE_SECONDS = 0.3


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class Worker(asyncio.Protocol):
    """Answers each request with the next page."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = itertools.cycle(answers)
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, _: bytes) -> None:
        assert self._transport is not None
        self._transport.write(next(self._answers))


def serve(share: float, ready: Connection) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: "
    bodies = [page.encode() for page in pages(PAGE.read_text(), share)[1:]]
    answers = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Worker(answers), "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


async def measure(port: int, count: int) -> list[float]:
    targets = [Target(f"w{n}", f"http://127.0.0.1:{port}/metrics") for n in range(count)]
    scraper = Scraper(
        {FLEET_GROUP: ScrapeOptions()},
        interval_seconds=5.0,
        concurrency=256,
        reader=PageReader(Schemas()),
        clock=SystemClock(),
    )
    taken = []
    async with scraper:
        for _ in range(WAVES):
            begun = time.process_time()
            results = await scraper.wave(targets, time.time())
            taken.append((time.process_time() - begun) / count * 1000)
            failed = [result.failure for result in results if result.failure]
            assert len(results) == count, len(results)
            assert not failed, failed[0]
            await asyncio.sleep(PAUSE_SECONDS)
    return taken[2:]


def resident_mib() -> float:
    pages_held = int(Path("/proc/self/statm").read_text().split()[1])
    return pages_held * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    share = float(sys.argv[2]) if len(sys.argv) > 2 else 0.15
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(share, theirs), daemon=True)
    server.start()
    port = ours.recv()
    before = resident_mib()
    taken = uvloop.run(measure(port, count))
    server.terminate()
    print(f"{count} targets, {share:.0%} of lines changed, {len(taken)} waves after two")
    print(f"least {min(taken):.3f} ms, memory {resident_mib() - before:.0f} MiB")
    print(f"ms={statistics.median(taken):.3f}")


if __name__ == "__main__":
    main()
