from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from ds4watch.gateway.headers import lines_for_client, lines_for_worker, sane_id
from ds4watch.gateway.http.answer import AnswerHead
from ds4watch.gateway.http.headers import Headers
from tests.edge.gateway.support import CHAT, FakeWorker, board_of, front_of


def raw(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in pairs]


def to_worker(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    lines = lines_for_worker(Headers(raw(*pairs)), "id-1").decode().splitlines()
    return [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]


def to_client(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    lines = lines_for_client(AnswerHead(200, raw(*pairs))).decode().splitlines()
    return [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Cookie", "X-Api-Key", "Api-Key", "Proxy-Authorization"),
        *("Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade"),
        *("Host", "Content-Length", "Content-Encoding", "Expect", "Range"),
        *("X-DS4-Priority", "x-ds4-key", "X-Ds4-Timestamp", "x-ds4-signature", "x-ds4-worker"),
        *("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"),
        *("Origin", "Referer", "Sec-Fetch-Site", "X-data-parallel-rank", "X-Original-URL"),
    ],
)
def test_credentials_and_what_is_said_to_us_stay_with_us(name: str) -> None:
    passed = to_worker((name, "secret"), ("X-Session-ID", "s1"))
    assert "secret" not in dict(passed).values()
    assert ("x-session-id", "s1") in passed


@pytest.mark.parametrize(
    "name",
    ["X-Session-ID", "traceparent", "User-Agent", "OpenAI-Organization", "X-Correlation-Id"],
)
def test_what_is_the_workers_business_reaches_it(name: str) -> None:
    assert (name.lower(), "v") in to_worker((name, "v"))


def test_a_worker_gets_one_id_one_type_and_no_compression() -> None:
    passed = to_worker(
        ("X-Request-ID", "theirs"), ("Content-Type", "a/b"), ("Accept-Encoding", "br")
    )
    assert sorted(passed) == [
        ("accept-encoding", "identity"),
        ("content-type", "application/json"),
        ("x-request-id", "id-1"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Proxy-Authenticate"),
        *("Set-Cookie", "Server", "Date", "Content-Length"),
        *("Location", "Refresh", "Alt-Svc", "Strict-Transport-Security", "WWW-Authenticate"),
        *("Access-Control-Allow-Origin", "endpoint-load-metrics", "X-Powered-By"),
        *("x-ds4-worker", "x-ds4-degraded", "X-DS4-Filter", "x-request-id"),
    ],
)
def test_workers_tell_clients_nothing_about_us_or_in_our_name(name: str) -> None:
    assert to_client((name, "lie"), ("Content-Type", "a/b")) == [("content-type", "a/b")]


def test_what_connection_names_goes_no_further() -> None:
    given = (("Connection", "close, X-Private"), ("X-Private", "v"), ("X-Public", "w"))
    assert "x-private" not in dict(to_worker(*given))
    assert to_client(*given) == [("x-public", "w")]


@pytest.mark.parametrize("odd", [None, "", "a b", "a\r\nb", "é", "x" * 129, "{}"])
def test_an_odd_request_id_is_not_passed_on(odd: str | None) -> None:
    assert sane_id(odd) is None
    assert sane_id("req_1.a:b-C") == "req_1.a:b-C"


async def test_a_worker_cannot_send_a_client_elsewhere_or_set_its_cookies(tmp_path: Path) -> None:
    async def script(_worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
        odd = {
            "Location": "http://10.0.0.1/",
            "Set-Cookie": "a=b",
            "Access-Control-Allow-Origin": "*",
        }
        return web.json_response({"choices": []}, headers=odd)

    async with (
        FakeWorker("w1", script) as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
        front.post(CHAT, headers={"Origin": "http://evil.example", "Cookie": "c=d"}) as response,
    ):
        names = {name.lower() for name in response.headers}
    assert not names & {"location", "set-cookie", "access-control-allow-origin"}
    assert not set(worker.headers[0]) & {"origin", "cookie"}
