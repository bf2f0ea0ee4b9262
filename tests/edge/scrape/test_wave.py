from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable
from functools import partial

import pytest
from aiohttp import web

from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import FLEET_GROUP, Target
from ds4watch.model.series import Schema, SeriesKey
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.wave import Scraper
from tests.edge.scrape.support import Schemas
from tests.edge.scrape.wave_support import (
    START,
    LoopClock,
    Site,
    always,
    by_name,
    good,
    hang,
    scraper,
    text_page,
)
from tests.edge.scrape.wave_support import (
    site as _site,
)

site = _site


async def test_a_wave_returns_one_result_for_each_target_that_answers(site: Site) -> None:
    async with scraper() as subject:
        results = by_name(await subject.wave([site.target(f"w{n}") for n in range(20)], START))
    assert len(results) == 20
    assert {tuple(result.values) for result in results.values()} == {(1.0, 2.0)}
    assert len({result.schema_id for result in results.values()}) == 1
    assert all(result.failure is None for result in results.values())


async def test_samples_carry_their_own_start_counted_from_the_waves_instant(site: Site) -> None:
    async with scraper() as subject:
        (result,) = await subject.wave([site.target("w")], START)
        (later,) = await subject.wave([site.target("w")], START + 1000)
    assert START <= result.at < START + 0.5
    assert 0 < result.took_seconds < 0.5
    assert START + 1000 <= later.at < START + 1000.5


async def test_targets_start_in_the_same_order_each_time(site: Site) -> None:
    orders: list[list[str]] = []
    async with scraper(concurrency=1) as subject:
        for _ in range(3):
            targets = [site.target(f"w{n}") for n in range(10)]
            results = await subject.wave(targets if len(orders) % 2 else targets[::-1], START)
            orders.append([result.target.name for result in sorted(results, key=lambda r: r.at)])
    assert orders[0] == orders[1] == orders[2]


async def test_a_hanging_target_holds_nobody_up_and_counts_in_a_later_wave(site: Site) -> None:
    hang(site)
    targets = [site.target("hangs"), site.target("w")]
    async with scraper() as subject:
        begun = asyncio.get_running_loop().time()
        first = by_name(await subject.wave(targets, START))
        took = asyncio.get_running_loop().time() - begun
        second = by_name(await subject.wave(targets, START + 0.5))
        site.release.set()
        third = by_name(await subject.wave(targets, START + 1.0))
    assert set(first) == set(second) == {"w"}
    assert set(third) == {"hangs", "w"}
    assert 0.25 <= took < 0.45
    assert START <= third["hangs"].at < START + 0.2
    assert site.hits == {"hangs": 1, "w": 3}
    assert site.most_open["hangs"] == 1


async def test_a_target_that_never_answers_fails_by_its_own_time_out(site: Site) -> None:
    hang(site)
    async with scraper(timeout_seconds=0.1) as subject:
        (result,) = await subject.wave([site.target("hangs")], START)
    assert result.failure is not None
    assert result.failure.reason is EdgeReason.TIMEOUT
    assert result.values.size == 0


async def test_no_more_scrapes_run_at_once_than_allowed(site: Site) -> None:
    both = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if site.open.total() == 2:
            both.set()
        await both.wait()
        return await good(request)

    most = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal most
        most = max(most, site.open.total())
        return await answer(request)

    site.pages = {f"w{n}": count for n in range(6)}
    async with scraper(concurrency=2) as subject:
        results = await subject.wave([site.target(f"w{n}") for n in range(6)], START)
    assert len(results) == 6
    assert most == 2


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (lambda: text_page(b"down", 500), EdgeReason.STATUS),
        (lambda: text_page(b"", 307, ("Location", "/w")), EdgeReason.STATUS),
        (lambda: web.Response(text="<html>", content_type="text/html"), EdgeReason.BODY),
        (lambda: web.json_response({"a": 1}), EdgeReason.BODY),
        (lambda: text_page(b"never metrics\n"), EdgeReason.PARSE),
        (lambda: text_page(b"a 1\n" * 1000), EdgeReason.TOO_LARGE),
        (
            lambda: text_page(gzip.compress(b"a 1\n" * 10**6), header=("Content-Encoding", "gzip")),
            EdgeReason.TOO_LARGE,
        ),
        (lambda: text_page(b"no gzip", header=("Content-Encoding", "gzip")), EdgeReason.BODY),
    ],
    ids=["500", "redirect", "html", "json", "no metrics", "too large", "bomb", "broken gzip"],
)
async def test_a_bad_answer_fails_its_own_target_only(
    site: Site, response: Callable[[], web.Response], reason: EdgeReason
) -> None:
    site.pages["bad"] = always(response)
    async with scraper(max_body_bytes=2048) as subject:
        results = by_name(await subject.wave([site.target("bad"), site.target("w")], START))
    assert results["bad"].failure is not None
    assert results["bad"].failure.reason is reason
    assert results["w"].failure is None
    assert site.hits["w"] == 1


async def test_a_compressed_page_is_read(site: Site) -> None:
    body = gzip.compress(b"a 1\nb 2\n")
    site.pages["w"] = always(lambda: text_page(body, header=("Content-Encoding", "gzip")))
    async with scraper() as subject:
        (result,) = await subject.wave([site.target("w")], START)
    assert result.values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na 1\n", EdgeReason.BODY),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na 1\n\r\n", EdgeReason.BODY),
        (b"", EdgeReason.GONE),
        (b"SSH-2.0-OpenSSH_9.2\r\n", EdgeReason.BODY),
    ],
    ids=["half sent", "half sent in chunks", "hung up", "no HTTP"],
)
async def test_a_broken_connection_is_a_failure(sent: bytes, reason: EdgeReason) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, scraper() as subject:
        (result,) = await subject.wave([Target("w", f"http://127.0.0.1:{port}/metrics")], START)
    assert result.failure is not None
    assert result.failure.reason is reason


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://127.0.0.1:1/metrics", EdgeReason.CONNECT), ("nonsense", EdgeReason.OTHER)],
)
async def test_an_address_that_leads_nowhere_is_a_failure(url: str, reason: EdgeReason) -> None:
    async with scraper() as subject:
        (result,) = await subject.wave([Target("w", url)], START)
    assert result.failure is not None
    assert result.failure.reason is reason


async def test_the_first_failure_and_the_recovery_are_logged_and_nothing_between(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.scrape")
    async with scraper() as subject:
        for status in (200, 500, 500, 500, 200, 200):
            site.pages["w"] = always(partial(text_page, b"a 1\n", status))
            await subject.wave([site.target("w")], START)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "answered 500" in caplog.text
    assert "scrapes of w succeed again" in caplog.text


async def test_odd_lines_are_logged_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ds4watch.scrape")
    async with scraper() as subject:
        for body in (b"a 1\nodd\n", b"a 2\nodd\n", b"a 3\n"):
            site.pages["w"] = always(partial(text_page, body))
            await subject.wave([site.target("w")], START)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "1 unreadable lines" in caplog.text


async def test_a_removed_target_is_dropped_even_in_flight(site: Site) -> None:
    hang(site)
    async with scraper() as subject:
        await subject.wave([site.target("hangs"), site.target("w")], START)
        results = by_name(await subject.wave([site.target("w")], START + 0.5))
        assert set(results) == {"w"}
        site.release.set()
        assert await subject.wave([], START + 1) == []


async def test_no_targets_make_an_empty_wave_at_once() -> None:
    async with scraper() as subject:
        assert await subject.wave([], START) == []


async def test_leaving_cancels_what_is_still_out(site: Site) -> None:
    hang(site)
    async with scraper() as subject:
        await subject.wave([site.target("hangs")], START)
    assert [task for task in asyncio.all_tasks() if task.get_name() == "hangs"] == []


async def test_a_fault_of_our_own_fails_one_target_and_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(Schemas):
        def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
            if len(series) > 2:
                raise RuntimeError("no room")
            return super().intern(series)

    site.pages["bad"] = always(partial(text_page, b"a 1\nb 2\nc 3\n"))
    subject = Scraper(
        {FLEET_GROUP: ScrapeOptions()},
        interval_seconds=5.0,
        concurrency=8,
        reader=PageReader(Full()),
        clock=LoopClock(),
    )
    async with subject:
        results = by_name(await subject.wave([site.target("bad"), site.target("w")], START))
    assert results["w"].failure is None
    assert results["bad"].failure is not None
    assert results["bad"].failure.reason is EdgeReason.OTHER
    assert "a fault of ds4watch" in caplog.text
