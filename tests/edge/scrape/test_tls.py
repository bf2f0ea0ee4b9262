from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import FLEET_GROUP, ScrapeResult, Target
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.groups import scrape_plan
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.wave import Scraper
from tests.edge.clock import SystemClock
from tests.edge.scrape.authority import Authority
from tests.edge.scrape.servers import serving
from tests.edge.scrape.support import Schemas
from tests.edge.scrape.test_groups import loaded

pytestmark = pytest.mark.needs("openssl")

Run = Callable[[Coroutine[Any, Any, ScrapeResult]], ScrapeResult]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def scraper_of(**options: Any) -> Scraper:
    return Scraper(
        {FLEET_GROUP: ScrapeOptions(timeout_seconds=5, **options)},
        interval_seconds=10.0,
        concurrency=1,
        reader=PageReader(Schemas()),
        clock=SystemClock(),
    )


async def scraped(
    server: ssl.SSLContext, *, scheme: str = "https", waves: int = 1, **options: Any
) -> ScrapeResult:
    """Scrape a server that speaks TLS as told, with options of the group."""
    async with serving(tls=server) as site, scraper_of(**options) as scraper:
        for _ in range(waves):
            (result,) = await scraper.wave([Target("w", site.url(scheme=scheme))], 1.8e9)
        assert site.connections <= 1
    return result


def refused(result: ScrapeResult) -> str:
    assert result.failure is not None
    assert result.failure.reason is EdgeReason.CONNECT
    return result.failure.message


def test_a_certificate_of_a_private_authority_is_accepted_and_the_connection_kept(
    run: Run, authority: Authority
) -> None:
    server = authority.server(authority.certificate("ok", alternative="IP:127.0.0.1"))
    result = run(scraped(server, tls=authority.client(), waves=3))
    assert result.failure is None
    assert result.values.tolist() == [1.0, 2.0]


def test_one_of_an_unknown_authority_is_not(run: Run, authority: Authority) -> None:
    server = authority.server(authority.certificate("unknown", alternative="IP:127.0.0.1"))
    message = refused(run(scraped(server)))
    assert "certificate is not accepted" in message
    assert "issuer" in message


def test_one_that_has_expired_is_not(run: Run, authority: Authority) -> None:
    certificate = authority.certificate("old", alternative="IP:127.0.0.1", expired=True)
    message = refused(run(scraped(authority.server(certificate), tls=authority.client())))
    assert "expired" in message


def test_one_for_another_name_is_not_unless_the_settings_say_so(
    run: Run, authority: Authority, tmp_path: Path
) -> None:
    certificate = authority.certificate("named", alternative="DNS:worker.example")
    server = authority.server(certificate)

    def as_set(**tls: str) -> ssl.SSLContext | None:
        tls_config = {"ca_file": str(authority.ca_file), **tls}
        return scrape_plan(loaded(tmp_path, tls_config=tls_config)).options["pool"].tls

    assert "IP address mismatch" in refused(run(scraped(server, tls=as_set())))
    named = run(scraped(server, tls=as_set(server_name="worker.example")))
    assert named.failure is None
    wrong = run(scraped(server, tls=as_set(server_name="other.example")))
    assert "ostname mismatch" in refused(wrong)


def test_a_server_that_wants_a_certificate_gets_it(run: Run, authority: Authority) -> None:
    own = authority.certificate("server", alternative="IP:127.0.0.1")
    server = authority.server(own, asks_for_clients=True)
    client = authority.certificate("client", alternative="DNS:ds4watch")
    assert run(scraped(server, tls=authority.client(client))).failure is None
    without = run(scraped(server, tls=authority.client())).failure
    assert without is not None
    assert without.reason in (EdgeReason.CONNECT, EdgeReason.GONE)


def test_https_to_a_server_without_tls_says_so(run: Run) -> None:
    async def answers_in_clear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def story() -> ScrapeResult:
        server = await asyncio.start_server(answers_in_clear, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, scraper_of() as scraper:
            (result,) = await scraper.wave([Target("w", f"https://127.0.0.1:{port}/")], 1.8e9)
        return result

    assert "does not speak TLS" in refused(run(story()))


def test_http_to_a_server_with_tls_is_a_failure(run: Run, authority: Authority) -> None:
    server = authority.server(authority.certificate("tls", alternative="IP:127.0.0.1"))
    failure = run(scraped(server, scheme="http")).failure
    assert failure is not None
    assert failure.reason in (EdgeReason.BODY, EdgeReason.GONE)
