"""A web site to scrape, and scrapers for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from ds4watch.model.ports import Clock
from ds4watch.model.scrape import FLEET_GROUP, ScrapeResult, Target
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.wave import Scraper
from tests.edge.scrape.support import TEXT, Schemas

START = 1_800_000_000.0


class LoopClock:
    """The loop's own time, with a wall clock that starts at START."""

    def now(self) -> float:
        return START + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Site:
    """A server whose pages are told by their path; `release` lets hanging ones go."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.hits: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.most_open: Counter[str] = Counter()
        self.pages: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {}
        self.port = 0

    def target(self, name: str) -> Target:
        return Target(name, f"http://127.0.0.1:{self.port}/{name}", (("worker", name),))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.hits[name] += 1
        self.open[name] += 1
        self.most_open[name] = max(self.most_open[name], self.open[name])
        try:
            return await self.pages.get(name, good)(request)
        finally:
            self.open[name] -= 1


async def good(_: web.Request) -> web.Response:
    return text_page(b"a 1\nb 2\n")


def text_page(body: bytes, status: int = 200, header: tuple[str, str] = ("", "")) -> web.Response:
    headers = {"Content-Type": TEXT} | ({header[0]: header[1]} if header[0] else {})
    return web.Response(body=body, status=status, headers=headers)


def always(
    response: Callable[[], web.Response],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return response()

    return answer


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    application = web.Application()
    application.router.add_get("/{name}", site.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    site.port = runner.addresses[0][1]
    yield site
    site.release.set()
    await runner.cleanup()


def scraper(
    *,
    groups: dict[str, ScrapeOptions] | None = None,
    concurrency: int = 256,
    interval_seconds: float = 0.5,
    clock: Clock | None = None,
    **options: Any,
) -> Scraper:
    fleet = ScrapeOptions(interval_seconds=interval_seconds, **options)
    return Scraper(
        {FLEET_GROUP: fleet} | (groups or {}),
        interval_seconds=interval_seconds,
        concurrency=concurrency,
        reader=PageReader(Schemas()),
        clock=clock or LoopClock(),
    )


def hang(site: Site) -> None:
    async def answer(request: web.Request) -> web.Response:
        await site.release.wait()
        return await good(request)

    site.pages["hangs"] = answer


def by_name(results: list[ScrapeResult]) -> dict[str, ScrapeResult]:
    assert len({result.target.name for result in results}) == len(results)
    return {result.target.name: result for result in results}
