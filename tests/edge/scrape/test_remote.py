"""A server of queries that answers badly: what is told of it, and what is tried again."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ds4watch.alerting.remote import Answer
from ds4watch.config.files import LoadedSettings, find_settings
from ds4watch.model.errors import ConfigError, EdgeReason, SourceError
from ds4watch.scrape.options import Credentials
from ds4watch.scrape.remote import RemotePrometheus
from ds4watch.scrape.remote_plan import RemoteOptions, remote_options
from tests.edge.clock import SystemClock
from tests.edge.scrape.authority import Authority
from tests.edge.scrape.servers import Handler, Site, answer, forever, hangs, resets, sends, serving

JSON = "application/json"
AT = 1_700_000_000.125
SAMPLE = {"metric": {"job": "a"}, "value": [AT, "2"]}
WHOLE = {"status": "success", "data": {"resultType": "vector", "result": [SAMPLE]}}


def said(found: Any = WHOLE, status: int = 200, **headers: str) -> bytes:
    body = found if isinstance(found, bytes) else json.dumps(found).encode()
    return answer(body, status, Content_Type=JSON, **headers)


def ends_with(*pieces: bytes) -> Handler:
    """Send the pieces, and close the connection."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await sends(*pieces)(reader, writer)
        writer.close()

    return handler


def loaded(folder: Path, text: str) -> LoadedSettings:
    file = folder / "ds4watch.yml"
    file.write_text(text)
    return find_settings(file, {})


def in_turn(*handlers: Handler) -> Handler:
    """Let each request have the next handler; the last one has the rest."""
    left = list(handlers)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(reader, writer)

    return handler


@asynccontextmanager
async def remote(site: Site, **options: Any) -> AsyncIterator[RemotePrometheus]:
    given = {"timeout_seconds": 1.0, "retries": 0} | options
    source = RemotePrometheus(RemoteOptions(site.url(""), **given), SystemClock())
    try:
        yield source
    finally:
        await source.close()


async def asked(
    handler: Handler, *, text: str = "up", patience: float = 10.0, **options: Any
) -> tuple[Answer, Site]:
    """Ask a server once; return the answer, and the server with its requests."""
    async with serving(default=handler) as site, remote(site, **options) as source:
        found = await source.ask(text, AT, time.monotonic() + patience)
    return found, site


async def failed(handler: Handler, **options: Any) -> SourceError:
    with pytest.raises(SourceError) as caught:
        await asked(handler, **options)
    return caught.value


async def test_a_question_goes_out_at_its_instant_with_its_headers() -> None:
    credentials = Credentials(username="u", password="secret")
    found, site = await asked(
        sends(said()),
        text='up{job="a"} > 0',
        headers={"X-Scope-OrgID": "t"},
        credentials=credentials,
    )
    assert found.vector.labels.sets == ((("job", "a"),),)
    (request,) = site.requests
    first, *lines = request.splitlines()
    query = parse_qs(urlsplit(first.split()[1]).query)
    assert first.startswith("GET /api/v1/query?")
    assert (query["query"], query["time"]) == (['up{job="a"} > 0'], ["1700000000.125"])
    assert "X-Scope-OrgID: t" in lines
    assert "Authorization: Basic dTpzZWNyZXQ=" in lines


async def test_a_long_question_goes_out_in_a_body() -> None:
    _, site = await asked(sends(said()), text="a" * 3000)
    assert site.requests[0].startswith("POST /api/v1/query HTTP")


async def test_a_compressed_answer_is_read() -> None:
    body = gzip.compress(json.dumps(WHOLE).encode())
    found, _ = await asked(sends(said(body, Content_Encoding="gzip")))
    assert len(found.vector) == 1


async def test_a_warning_is_seen_that_the_library_leaves_out() -> None:
    found, _ = await asked(sends(said(WHOLE | {"warnings": ["store x is away"]})))
    assert found.partial


BAD: Sequence[tuple[str, Handler, dict[str, Any], EdgeReason, bool, str]] = [
    # name, what it sends, options, reason, whether it may pass, words
    (
        "hangs",
        hangs,
        {"timeout_seconds": 0.2},
        EdgeReason.TIMEOUT,
        True,
        "no answer in time (0.2 s",
    ),
    ("resets", resets, {}, EdgeReason.CONNECT, True, "cannot reach the server"),
    ("closes", ends_with(b""), {}, EdgeReason.CONNECT, True, "cannot reach the server"),
    ("no http", sends(b"220 smtp\r\n"), {}, EdgeReason.CONNECT, True, "cannot reach the server"),
    ("500", sends(said(b"oops", 500)), {}, EdgeReason.STATUS, True, "answered 500"),
    ("502", sends(said(b"<html>", 502)), {}, EdgeReason.STATUS, True, "answered 502"),
    (
        "503 with words",
        sends(said({"status": "error", "error": "query timed out"}, 503)),
        {},
        EdgeReason.STATUS,
        True,
        "answered 503: query timed out",
    ),
    ("429", sends(said(b"", 429)), {}, EdgeReason.STATUS, True, "asked too often"),
    ("401", sends(said(b"", 401)), {}, EdgeReason.STATUS, False, "credentials are missing"),
    ("404", sends(said(b"", 404)), {}, EdgeReason.STATUS, False, "check source.url"),
    (
        "302",
        sends(said(b"", 302, Location="http://127.0.0.1:1/")),
        {},
        EdgeReason.STATUS,
        False,
        "a redirect, which is not followed",
    ),
    (
        "422",
        sends(said({"status": "error", "error": "many-to-many"}, 422)),
        {},
        EdgeReason.REFUSED,
        False,
        "refuses the query: many-to-many",
    ),
    (
        "400",
        sends(said({"status": "error", "error": "unknown function"}, 400)),
        {},
        EdgeReason.REFUSED,
        False,
        "refuses the query: unknown function",
    ),
    ("204", sends(said(b"", 204)), {}, EdgeReason.STATUS, False, "answered 204"),
    ("no json", sends(said(b"<html>")), {}, EdgeReason.PARSE, False, "is not JSON"),
    ("empty", sends(said(b"")), {}, EdgeReason.PARSE, False, "is not JSON"),
    ("a list", sends(said([])), {}, EdgeReason.PARSE, False, "has no status"),
    ("deep json", sends(said(b"[" * 100_000)), {}, EdgeReason.PARSE, False, "is not JSON"),
    ("not utf-8", sends(said(b'"\xff"')), {}, EdgeReason.PARSE, False, "is not JSON"),
    (
        "cut off",
        ends_with(said(Content_Length="5000")),
        {},
        EdgeReason.BODY,
        True,
        "the answer broke off",
    ),
    (
        "bad gzip",
        sends(said(b"no gzip", Content_Encoding="gzip")),
        {},
        EdgeReason.BODY,
        True,
        "the answer broke off",
    ),
    (
        "huge",
        forever(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
        {"max_body_bytes": 1 << 20},
        EdgeReason.TOO_LARGE,
        False,
        "larger than 1048576 bytes",
    ),
    (
        "huge once unpacked",
        sends(said(gzip.compress(b" " * (50 << 20)), Content_Encoding="gzip")),
        {"max_body_bytes": 1 << 20, "timeout_seconds": 5.0},
        EdgeReason.TOO_LARGE,
        False,
        "larger than 1048576 bytes",
    ),
    (
        "endless body, drop by drop",
        forever(b"HTTP/1.1 200 OK\r\n\r\n", b" ", 0.01),
        {"timeout_seconds": 0.2},
        EdgeReason.TIMEOUT,
        True,
        "no answer in time",
    ),
    (
        "endless head, drop by drop",
        forever(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", 0.01),
        {"timeout_seconds": 0.2},
        EdgeReason.TIMEOUT,
        True,
        "no answer in time",
    ),
    (
        "endless chunks",
        forever(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.01),
        {"timeout_seconds": 0.2},
        EdgeReason.TIMEOUT,
        True,
        "no answer in time",
    ),
]


@pytest.mark.parametrize(
    ("handler", "options", "reason", "retryable", "words"),
    [row[1:] for row in BAD],
    ids=[row[0] for row in BAD],
)
async def test_a_bad_answer_is_told_in_one_line(
    handler: Handler, options: dict[str, Any], reason: EdgeReason, retryable: bool, words: str
) -> None:
    began = time.monotonic()
    error = await failed(handler, **options)
    assert words in str(error)
    assert "\n" not in str(error)
    assert (error.reason, error.retryable) == (reason, retryable)
    assert time.monotonic() - began < 8


async def test_nobody_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        source = RemotePrometheus(RemoteOptions(url, retries=0), SystemClock())
        with pytest.raises(SourceError, match="cannot reach the server: connection refused"):
            await source.ask("up", AT, time.monotonic() + 5)
        await source.close()


async def test_what_may_pass_is_tried_again() -> None:
    handler = in_turn(sends(said(b"", 503)), resets, sends(said()))
    found, site = await asked(handler, retries=2)
    assert (len(found.vector), len(site.requests)) == (1, 3)


async def test_what_will_not_pass_is_not_tried_again() -> None:
    handler = in_turn(sends(said(b"", 401)), sends(said()))
    assert "credentials" in str(await failed(handler, retries=5))


async def test_nothing_is_tried_again_once_the_round_is_over() -> None:
    handler = in_turn(sends(said(b"", 429, Retry_After="60")), sends(said()))
    began = time.monotonic()
    assert "429" in str(await failed(handler, retries=5, patience=3.0))
    assert time.monotonic() - began < 2


async def test_a_server_that_says_how_long_to_wait_is_obeyed() -> None:
    handler = in_turn(sends(said(b"", 429, Retry_After="1")), sends(said()))
    began = time.monotonic()
    await asked(handler, retries=1)
    assert time.monotonic() - began >= 1


async def test_one_question_that_hangs_holds_up_no_other() -> None:
    async with (
        serving(default=in_turn(hangs, sends(said()))) as site,
        remote(site, concurrency=2, timeout_seconds=5.0) as source,
    ):
        until = time.monotonic() + 5
        slow = asyncio.create_task(source.ask("slow", AT, until))
        while not site.requests:
            await asyncio.sleep(0.01)
        for _ in range(3):
            assert len((await source.ask("up", AT, until)).vector) == 1
        assert not slow.done()
        slow.cancel()


async def test_no_more_questions_are_in_flight_than_allowed() -> None:
    async with (
        serving(default=hangs) as site,
        remote(site, concurrency=2, timeout_seconds=0.3) as source,
    ):
        until = time.monotonic() + 0.4
        found = await asyncio.gather(
            *(source.ask(f"q{n}", AT, until) for n in range(8)), return_exceptions=True
        )
        assert all(isinstance(it, SourceError) for it in found)
        assert site.connections <= 4


async def test_a_server_that_was_away_is_asked_again_over_a_new_connection() -> None:
    handler = in_turn(sends(said()), resets, sends(said()))
    async with serving(default=handler) as site, remote(site, concurrency=1) as source:
        until = time.monotonic() + 10
        await source.ask("up", AT, until)
        with pytest.raises(SourceError):
            await source.ask("up", AT, until)
        assert len((await source.ask("up", AT, until)).vector) == 1


async def test_a_connection_is_kept() -> None:
    async with serving(default=sends(said())) as site, remote(site, concurrency=1) as source:
        for _ in range(5):
            await source.ask("up", AT, time.monotonic() + 5)
        assert (len(site.requests), site.connections) == (5, 1)


async def test_the_version_is_asked_for() -> None:
    found = {"status": "success", "data": {"version": "2.42.0"}}
    async with serving(default=sends(said(found))) as site, remote(site) as source:
        assert await source.version(time.monotonic() + 5) == "2.42.0"
        assert site.requests[0].startswith("GET /api/v1/status/buildinfo")


async def test_a_token_is_read_anew_and_in_no_message(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first-secret\n")
    credentials = Credentials(token_file=token)
    handler = in_turn(sends(said()), sends(said(b"", 403)))
    async with serving(default=handler) as site, remote(site, credentials=credentials) as source:
        await source.ask("up", AT, time.monotonic() + 5)
        token.write_text("other-secret\n")
        with pytest.raises(SourceError) as caught:
            await source.ask("up", AT, time.monotonic() + 5)
        assert "secret" not in str(caught.value)
        assert "Bearer first-secret" in site.requests[0]
        assert "Bearer other-secret" in site.requests[1]
        token.unlink()
        with pytest.raises(SourceError, match=r"cannot read .*token"):
            await source.ask("up", AT, time.monotonic() + 5)


@pytest.mark.needs("openssl")
async def test_a_private_authority_is_trusted_and_no_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server(authority.certificate("server", alternative="IP:127.0.0.1"))
    async with serving(default=sends(said()), tls=context) as site:
        url = site.url("", scheme="https")
        text = f"source:\n  kind: prometheus\n  url: {url}\n  retries: 0\n"
        trusting = remote_options(
            loaded(tmp_path, text + f"  tls_config: {{ca_file: {authority.ca_file.name}}}\n")
        )
        for options, words in [
            (trusting, None),
            (RemoteOptions(url, verify=False), None),
            (remote_options(loaded(tmp_path, text)), "TLS with the server: "),
        ]:
            assert options is not None
            source = RemotePrometheus(options, SystemClock())
            asking = source.ask("up", AT, time.monotonic() + 5)
            if words is None:
                assert len((await asking).vector) == 1
            else:
                with pytest.raises(SourceError, match=words):
                    await asking
            await source.close()


def test_files_that_are_missing_are_told_with_their_line(tmp_path: Path) -> None:
    text = "source:\n  kind: prometheus\n  url: http://x\n  tls_config: {ca_file: gone.pem}\n"
    with pytest.raises(ConfigError) as caught:
        remote_options(loaded(tmp_path, text))
    assert "ds4watch.yml:4: source.tls_config.ca_file: there is no file" in str(caught.value)
