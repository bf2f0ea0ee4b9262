from __future__ import annotations

import asyncio
import gzip
import logging
import resource
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from ds4watch.model.errors import EdgeReason
from ds4watch.model.ports import Clock
from ds4watch.model.scrape import FLEET_GROUP, ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey
from ds4watch.scrape.descriptors import raise_limit
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


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return START + self.at

    def monotonic(self) -> float:
        return self.at


async def scraped_at(
    subject: Scraper, clock: SetClock, targets: list[Target], *, times: int, step: float
) -> dict[str, list[float]]:
    """Ask for waves in steps; return when each target was scraped, counted from the first."""
    begun = clock.at
    scraped: dict[str, list[float]] = {target.name: [] for target in targets}
    for _ in range(times):
        for result in await subject.wave(targets, START):
            scraped[result.target.name].append(clock.at - begun)
        clock.at += step
    return scraped


async def test_each_group_is_scraped_at_its_own_interval(site: Site) -> None:
    clock = SetClock()
    groups = {
        "slow": ScrapeOptions(interval_seconds=3.0),
        "odd": ScrapeOptions(interval_seconds=2.5),
        "fast": ScrapeOptions(interval_seconds=0.1),
    }
    targets = [
        site.target("w"),
        *(Target(name, site.target(name).url, group=name) for name in groups),
    ]
    async with scraper(groups=groups, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=9, step=1.0)
    assert scraped["w"] == scraped["fast"] == list(range(9))
    assert scraped["slow"] == [0, 3, 6]
    assert scraped["odd"] == [0, 2, 5, 7]


async def test_waves_that_come_late_do_not_make_up_for_missed_scrapes(site: Site) -> None:
    clock = SetClock()
    slow = {"slow": ScrapeOptions(interval_seconds=3.0)}
    targets = [Target("slow", site.target("slow").url, group="slow")]
    async with scraper(groups=slow, interval_seconds=1.0, clock=clock) as subject:
        await scraped_at(subject, clock, targets, times=1, step=20.0)
        scraped = await scraped_at(subject, clock, targets, times=6, step=1.0)
    assert scraped["slow"] == [0, 3]


async def test_groups_can_be_replaced_while_running(site: Site) -> None:
    clock = SetClock()
    targets = [Target("w", site.target("w").url, group="g"), site.target("v")]
    async with scraper(interval_seconds=1.0, clock=clock) as subject:
        (alone,) = (it for it in await subject.wave(targets, START) if it.failure)
        assert alone.failure is not None
        assert "no target group 'g'" in alone.failure.message
        fleet = ScrapeOptions(interval_seconds=1.0)
        subject.set_groups({FLEET_GROUP: fleet, "g": ScrapeOptions(max_body_bytes=3)})
        failures = {it.target.name: it.failure for it in await subject.wave(targets, START)}
        assert failures["v"] is None
        assert failures["w"] is not None
        assert failures["w"].reason is EdgeReason.TOO_LARGE
        subject.set_groups({FLEET_GROUP: fleet, "g": ScrapeOptions()})
        results = by_name(await subject.wave(targets, START))
        assert results["w"].values.tolist() == [1.0, 2.0]


async def test_of_two_targets_with_one_name_the_first_is_scraped_and_it_is_told(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    twins = [site.target("w"), Target("w", site.target("v").url), site.target("w")]
    async with scraper() as subject:
        (result,) = await subject.wave(twins, START)
    assert result.target == twins[0]
    assert site.hits == {"w": 1}
    assert "two targets are called w" in caplog.text


async def test_a_target_that_moves_is_scraped_at_its_new_address(site: Site) -> None:
    async with scraper() as subject:
        await subject.wave([site.target("w")], START)
        (result,) = await subject.wave([Target("w", site.target("v").url)], START)
    assert result.failure is None
    assert site.hits == {"w": 1, "v": 1}


async def test_one_that_times_out_again_and_again_is_scraped_less_often_until_it_answers(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.scrape")
    hang(site)
    clock = SetClock()
    brief = {"brief": ScrapeOptions(interval_seconds=1.0, timeout_seconds=0.02)}
    targets = [Target("hangs", site.target("hangs").url, group="brief"), site.target("w")]
    async with scraper(groups=brief, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=34, step=1.0)
        subject.set_groups({name: ScrapeOptions() for name in ("brief", FLEET_GROUP)})
        site.release.set()
        again = await scraped_at(subject, clock, targets, times=8, step=1.0)
    assert scraped["hangs"] == [0, 1, 2, 4, 8, 16, 24, 32]
    assert scraped["w"] == list(range(34))
    assert again["hangs"] == [6, 7]
    told = [record.message for record in caplog.records]
    assert sum("scraped less often" in line for line in told) == 1
    assert told[-1] == "scrapes of hangs succeed again"
    assert len(told) == 3


async def test_a_long_interval_is_not_stretched_beyond_a_minute(site: Site) -> None:
    hang(site)
    clock = SetClock()
    groups = {"slow": ScrapeOptions(interval_seconds=25.0, timeout_seconds=0.01)}
    targets = [Target("hangs", site.target("hangs").url, group="slow")]
    async with scraper(groups=groups, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=8, step=25.0)
    assert scraped["hangs"] == [0, 25, 50, 100, 150]


async def test_case_8_a_slow_page_takes_at_most_half_of_a_workers_time(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.scrape")
    clock = SetClock()
    took = 2.5

    async def slow(request: web.Request) -> web.Response:
        clock.at += took
        return await good(request)

    site.pages["slow"] = slow
    targets = [Target("slow", site.target("slow").url, group="g")]
    groups = {"g": ScrapeOptions(interval_seconds=0.1)}  # it is scraped at the base interval
    async with scraper(groups=groups, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=9, step=1.0)
        took = 0.2
        quick = await scraped_at(subject, clock, targets, times=7, step=1.0)
        assert subject.left_out == 9
    ends = scraped["slow"]
    assert [after - before for before, after in pairwise(ends)] == [6.5, 6.5]
    assert len(quick["slow"]) == 4
    told = [record.message for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith("the page of slow took 2.5 s, and the interval is 1 s")
    assert told[1] == "the page of slow is quick again"


async def test_more_targets_than_files_may_be_open_are_told_once_with_the_mending(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    targets = [site.target(f"w{n}") for n in range(30)]
    with open_files(220):
        async with scraper() as subject:
            await subject.wave(targets, START)
            await subject.wave(targets[:25], START)
            await subject.wave(targets[:10], START)
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("30 targets need a connection each, and at most 220 files may be open")
    assert "raise the limit to 230 or more (ulimit -Hn; LimitNOFILE=" in told


def test_the_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with open_files(220):
        assert raise_limit() == min(hard, 1 << 20)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raise_limit(), hard)


@contextmanager
def open_files(soft: int) -> Iterator[None]:
    """Allow so many open files meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_few_missed_answers_in_a_burst_change_nothing(site: Site) -> None:
    """A busy worker may miss a round (cases 7 and 8): no scrape is left out for that."""
    hang(site)
    clock = SetClock()
    targets = [site.target("hangs")]
    async with scraper(timeout_seconds=0.01, interval_seconds=1.0, clock=clock) as subject:
        missed = await scraped_at(subject, clock, targets, times=2, step=1.0)
        subject.set_groups({FLEET_GROUP: ScrapeOptions()})
        site.release.set()
        answered = await scraped_at(subject, clock, targets, times=4, step=1.0)
    assert missed["hangs"] == [0, 1]
    assert answered["hangs"] == [0, 1, 2, 3]


async def test_other_failures_than_time_outs_leave_no_scrape_out(site: Site) -> None:
    """A page that answers 500 for ever (case 25) is a reason to look on, not away."""
    clock = SetClock()
    site.pages["w"] = always(partial(text_page, b"", 500))
    async with scraper(interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, [site.target("w")], times=6, step=1.0)
        (result,) = await subject.wave([site.target("w")], START)
    assert scraped["w"] == list(range(6))
    assert result.failure is not None
    assert result.failure.reason is EdgeReason.STATUS


@pytest.mark.parametrize("body", [b"", b"python_info 1\nprocess_open_fds 5\n"])
async def test_a_page_without_engine_metrics_is_no_failed_scrape(site: Site, body: bytes) -> None:
    """Case 26: it is for the vocabulary to say that the engine tells nothing."""
    site.pages["w"] = always(partial(text_page, body))
    async with scraper() as subject:
        (result,) = await subject.wave([site.target("w")], START)
    assert result.failure is None
    assert result.values.size == body.count(b"\n")


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
