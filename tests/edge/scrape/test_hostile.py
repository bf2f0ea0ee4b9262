"""Whatever a target answers, it costs only that target. On both event loops: they differ."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import FLEET_GROUP, ScrapeFailure, ScrapeResult, Target
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.wave import Scraper
from tests.edge.clock import SystemClock
from tests.edge.scrape.servers import (
    PAGE,
    Handler,
    Site,
    answer,
    forever,
    hangs,
    resets,
    sends,
    serving,
)
from tests.edge.scrape.support import TEXT, Schemas

Run = Callable[[Coroutine[Any, Any, None]], None]

TIMEOUT_SECONDS = 0.4
PATIENT_GROUP = "patient"
PATIENT_SECONDS = 50.0
"""For answers that are bad without being late, on a machine however busy."""
MAX_BODY_BYTES = 100_000

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSE = OK + b"Content-Type: text/plain\r\n\r\n"
BOMB = gzip.compress(b"a 1\n" * 10**7)
LONG = b"x" * 60_000

R = EdgeReason
CASES: dict[str, tuple[Handler, EdgeReason, str]] = {
    "/hangs": (hangs, R.TIMEOUT, "no answer in time"),
    "/drips-head": (forever(OK, b"X: y\r\n", 0.01), R.TIMEOUT, "no answer in time"),
    "/drips-body": (forever(CLOSE, b"a", 0.01), R.TIMEOUT, "no answer in time"),
    "/redirects": (sends(answer(b"", 302, Location="/metrics")), R.STATUS, "not followed"),
    "/401": (sends(answer(b"", 401)), R.STATUS, "credentials are missing or wrong"),
    "/403": (sends(answer(b"", 403)), R.STATUS, "may not read metrics"),
    "/404": (sends(answer(b"", 404)), R.STATUS, "check the address"),
    "/429": (sends(answer(b"", 429)), R.STATUS, "lengthen the group's interval"),
    "/500": (sends(answer(b"oh", 500)), R.STATUS, "see its log"),
    "/502": (sends(answer(b"oh", 502)), R.STATUS, "see the target's log"),
    "/503": (sends(answer(b"", 503)), R.STATUS, "starting, stopping or overloaded"),
    "/204": (sends(b"HTTP/1.1 204 No Content\r\n\r\n"), R.STATUS, "answered 204"),
    "/101": (
        sends(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"),
        R.STATUS,
        "answered 101",
    ),
    "/html": (sends(answer(b"<html>", Content_Type="text/html")), R.BODY, "'text/html'"),
    "/json": (sends(answer(b"{}", Content_Type="application/json")), R.BODY, "not metrics"),
    "/html-as-text": (sends(answer(b"<html>\n<p>\n")), R.PARSE, "not a metrics page"),
    "/announced-huge": (
        forever(OK + b"Content-Length: 99999999999\r\n\r\n", LONG),
        R.TOO_LARGE,
        "max_body_bytes",
    ),
    "/huge-chunks": (forever(CHUNKED, b"ea60\r\n%b\r\n" % LONG), R.TOO_LARGE, "max_body_bytes"),
    "/tiny-chunks": (forever(CHUNKED, b"1\r\n\n\r\n" * 9999), R.TOO_LARGE, "max_body_bytes"),
    "/huge-until-close": (forever(CLOSE, LONG), R.TOO_LARGE, "max_body_bytes"),
    "/bomb": (sends(answer(BOMB, Content_Encoding="gzip")), R.TOO_LARGE, "max_body_bytes"),
    "/no-gzip": (sends(answer(Content_Encoding="gzip")), R.BODY, "not the gzip"),
    "/cut-gzip": (
        sends(answer(gzip.compress(PAGE)[:-6], Content_Encoding="gzip")),
        R.BODY,
        "cut off",
    ),
    "/more-than-gzip": (
        sends(answer(gzip.compress(PAGE) * 2, Content_Encoding="gzip")),
        R.BODY,
        "does not end where the page does",
    ),
    "/brotli": (sends(answer(Content_Encoding="br")), R.BODY, "not asked for"),
    "/half-sent": (sends(answer()[:-3]), R.BODY, "broke off in its body"),
    "/half-chunked": (sends(CHUNKED + b"4\r\na 1\n\r\n"), R.BODY, "broke off in its body"),
    "/half-head": (sends(OK + b"Content-Ty"), R.BODY, "broke off in its head"),
    "/bad-chunk": (sends(CHUNKED + b"zz\r\na 1\n\r\n"), R.BODY, "not HTTP"),
    "/two-lengths": (
        sends(OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\na 1\n"),
        R.BODY,
        "not HTTP",
    ),
    "/ssh": (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), R.BODY, "not HTTP"),
    "/tls-alert": (sends(b"\x15\x03\x01\x00\x02\x02\x16"), R.BODY, "http or https"),
    "/long-header": (sends(OK + b"X: " + b"y" * 10**6), R.BODY, "head is over"),
    "/endless-header": (forever(OK + b"X: ", LONG), R.BODY, "head is over"),
    "/endless-headers": (forever(OK, b"X: y\r\n" * 999), R.BODY, "head is over"),
    "/endless-trailers": (forever(CHUNKED + b"0\r\n", b"X: y\r\n" * 999), R.TOO_LARGE, ""),
    "/endless-interim": (
        forever(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 999),
        R.BODY,
        "head is over",
    ),
    "/resets": (resets, R.GONE, "see the target's log"),
    "/hangs-up": (sends(), R.GONE, "hung up without an answer"),
    "/cut-openmetrics": (
        sends(answer(b"a 1\nb 2", Content_Type="application/openmetrics-text")),
        R.PARSE,
        "cut off",
    ),
    "/odd-lines": (sends(answer(b"?\n" * 3000)), R.PARSE, "not a metrics page"),
    "/many-odd-lines": (sends(answer(b"?\n" * 40_000)), R.TOO_LARGE, "sample_limit"),
    "/too-many-series": (
        sends(answer(b"".join(b"a%d 1\n" % n for n in range(5000)))),
        R.TOO_LARGE,
        "sample_limit",
    ),
}


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param  # type: ignore[no-any-return]


def scraper(**options: Any) -> Scraper:
    group = ScrapeOptions(
        timeout_seconds=TIMEOUT_SECONDS,
        max_body_bytes=MAX_BODY_BYTES,
        series_limit=4000,
        **options,
    )
    return Scraper(
        {FLEET_GROUP: group, PATIENT_GROUP: replace(group, timeout_seconds=PATIENT_SECONDS)},
        interval_seconds=100.0,
        concurrency=100,
        reader=PageReader(Schemas()),
        clock=SystemClock(),
    )


async def scrape(url: str, **options: Any) -> ScrapeResult:
    async with scraper(**options) as subject:
        (result,) = await subject.wave([Target("w", url)], 1.8e9)
    return result


def group_of(path: str) -> str:
    return FLEET_GROUP if CASES[path][1] is EdgeReason.TIMEOUT else PATIENT_GROUP


def failure_of(result: ScrapeResult) -> ScrapeFailure:
    assert result.failure is not None
    assert result.values.size == 0
    return result.failure


def test_each_bad_answer_fails_its_own_target_and_the_healthy_one_is_read(run: Run) -> None:
    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}/"
            async with (
                serving({path: handler for path, (handler, _, _) in CASES.items()}) as bad,
                serving() as good,
                scraper() as subject,
            ):
                targets = [Target(path, bad.url(path), group=group_of(path)) for path in CASES]
                targets += [
                    Target("refused", nowhere, group=PATIENT_GROUP),
                    Target("nameless", "http://worker.invalid/metrics"),
                    Target("no url", "worker:8000/metrics"),
                    Target("healthy", good.url(), group=PATIENT_GROUP),
                ]
                for _ in range(2):
                    results = {it.target.name: it for it in await subject.wave(targets, 1.8e9)}
                    assert len(results) == len(targets)
                    check(results)

    def check(results: dict[str, ScrapeResult]) -> None:
        healthy = results["healthy"]
        assert healthy.failure is None
        assert healthy.values.tolist() == [1.0, 2.0]
        for path, (_, reason, text) in CASES.items():
            failure = failure_of(results[path])
            assert (path, failure.reason, text in failure.message) == (path, reason, True), failure
            assert "\n" not in failure.message
        assert failure_of(results["refused"]).reason is EdgeReason.CONNECT
        assert "nothing listens there" in failure_of(results["refused"]).message
        assert failure_of(results["nameless"]).reason in (EdgeReason.CONNECT, EdgeReason.TIMEOUT)
        assert failure_of(results["no url"]).reason is EdgeReason.OTHER

    run(story())


@pytest.mark.parametrize(
    "sent",
    [
        answer(),
        CHUNKED + b"3;x=y\r\na 1\r\n5\r\n\nb 2\n\r\n0\r\nX: y\r\n\r\n",
        CLOSE + PAGE,
        b"HTTP/1.0 200 OK\r\n\r\n" + PAGE,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(),
        answer(gzip.compress(PAGE), Content_Encoding="gzip"),
        answer(Content_Encoding="identity"),
        answer(Content_Type=""),
        answer(b"a 1\nb 2"),
    ],
    ids=["length", "chunks", "close", "1.0", "interim", "gzip", "identity", "no type", "no end"],
)
@pytest.mark.parametrize("size", [1 << 20, 1], ids=["at once", "byte by byte"])
def test_a_page_is_read_however_it_is_sent(run: Run, sent: bytes, size: int) -> None:
    async def story() -> None:
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        async with serving({"/metrics": sends(*pieces)}) as site:
            result = await scrape(site.url())
        assert result.failure is None
        assert result.values.tolist() == [1.0, 2.0]

    run(story())


def test_a_connection_is_kept_and_a_stale_one_is_replaced_unseen(run: Run) -> None:
    async def story() -> None:
        async with serving() as site, scraper() as subject:
            target = Target("w", site.url())
            for _ in range(3):
                (result,) = await subject.wave([target], 1.8e9)
                assert result.failure is None
            assert site.connections == 1
            for after_connection in (2, 3):
                site.hang_up()
                (result,) = await subject.wave([target], 1.8e9)
                assert result.failure is None
                assert site.connections == after_connection

    run(story())


def test_a_target_that_hangs_up_on_every_second_request_is_retried_once(run: Run) -> None:
    async def story() -> None:
        asked = 0

        async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            asked += 1
            if asked in (1, 3):
                writer.write(answer())
            else:
                writer.close()

        async with serving(default=handler) as site, scraper() as subject:
            target = Target("w", site.url())
            results = [(await subject.wave([target], 1.8e9))[0] for _ in range(2)]
        assert [result.failure for result in results] == [None, None]
        assert asked == 3

    run(story())


def test_what_is_sent_unasked_is_not_taken_for_the_next_page(run: Run) -> None:
    async def story() -> None:
        async with (
            serving(default=sends(answer() + answer(b"a 666\n"))) as site,
            scraper() as subject,
        ):
            for _ in range(3):
                (result,) = await subject.wave([Target("w", site.url())], 1.8e9)
                assert result.values.tolist() == [1.0, 2.0]
        assert site.connections == 3

    run(story())


def test_a_late_answer_is_not_taken_for_the_next_one(run: Run) -> None:
    async def story() -> None:
        async def late_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(site.requests) == 1:
                await asyncio.sleep(TIMEOUT_SECONDS + 0.1)
                writer.write(answer(b"a 666\nb 666\n"))
            else:
                writer.write(answer())

        async with serving(default=late_once) as site, scraper() as subject:
            results = [(await subject.wave([Target("w", site.url())], 1.8e9))[0] for _ in range(2)]
        assert failure_of(results[0]).reason is EdgeReason.TIMEOUT
        assert results[1].values.tolist() == [1.0, 2.0]

    run(story())


def test_an_answer_begun_by_one_page_never_leaks_into_another(run: Run) -> None:
    async def story() -> None:
        async with serving({"/cut": sends(answer()[:-2])}) as site, scraper() as subject:
            targets = [Target("cut", site.url("/cut")), Target("w", site.url())]
            for _ in range(2):
                results = {it.target.name: it for it in await subject.wave(targets, 1.8e9)}
                assert failure_of(results["cut"]).reason is EdgeReason.BODY
                assert results["w"].values.tolist() == [1.0, 2.0]

    run(story())


def head_of(site: Site) -> list[str]:
    return site.requests[-1].split("\r\n")


def test_parameters_of_the_address_are_sent_as_they_are(run: Run) -> None:
    async def story() -> None:
        async with serving() as site:
            await scrape(site.url("/probe?target=a%20b&module=x[0]#top"))
            assert head_of(site)[0] == "GET /probe?target=a%20b&module=x[0] HTTP/1.1"
            assert f"Host: 127.0.0.1:{site.port}" in head_of(site)
            await scrape(site.url("/a b\r\nX-Evil: 1"))
            assert head_of(site)[0] == "GET /a%20bX-Evil:%201 HTTP/1.1"
            await scrape(f"http://127.0.0.1:{site.port}")
            assert head_of(site)[0] == "GET / HTTP/1.1"

    run(story())


def test_gzip_is_asked_for_only_where_the_group_says_so(run: Run) -> None:
    async def story() -> None:
        async with serving() as site:
            await scrape(site.url())
            assert "Accept-Encoding: identity" in head_of(site)
            await scrape(site.url(), compressed=True)
            assert "Accept-Encoding: gzip" in head_of(site)

    run(story())


def test_the_type_is_told_to_the_reader(run: Run) -> None:
    async def story() -> None:
        openmetrics = "application/openmetrics-text; version=1.0.0"
        page = b'a_total{x="1"} 3 # {t="z"} 1\n# EOF\n'
        async with serving({"/om": sends(answer(page, Content_Type=openmetrics))}) as site:
            assert (await scrape(site.url("/om"))).values.tolist() == [3.0]
            assert any(TEXT.split(";")[0] in line for line in head_of(site))

    run(story())
