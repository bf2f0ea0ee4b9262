from __future__ import annotations

import logging
import os
from base64 import b64encode
from pathlib import Path

import pytest

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.scrape import FLEET_GROUP, Target
from ds4watch.scrape.credentials import Authorization
from ds4watch.scrape.exposition import PageReader
from ds4watch.scrape.options import Credentials, ScrapeOptions
from ds4watch.scrape.wave import Scraper
from tests.edge.clock import SystemClock
from tests.edge.scrape.servers import answer, sends, serving
from tests.edge.scrape.support import Schemas

SECRET = "s3cret"


def basic(pair: str) -> bytes:
    return b"Authorization: Basic " + b64encode(pair.encode()) + b"\r\n"


def header(credentials: Credentials | None) -> bytes:
    return Authorization(credentials).header()


def test_without_credentials_nothing_is_sent() -> None:
    assert header(None) == b""
    assert header(Credentials()) == b""


def test_a_password_is_sent_as_basic_a_token_under_its_scheme() -> None:
    assert header(Credentials(username="u", password="p:ä")) == basic("u:p:ä")
    assert header(Credentials(username="u")) == basic("u:")
    assert header(Credentials(token="t")) == b"Authorization: Bearer t\r\n"
    assert header(Credentials(token="t", scheme="Token")) == b"Authorization: Token t\r\n"


@pytest.mark.parametrize("end", ["", "\n", "\r\n", " \n\n"])
def test_a_secret_is_read_from_its_file_without_the_line_end(tmp_path: Path, end: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes((SECRET + end).encode())
    assert header(Credentials(token_file=file)) == b"Authorization: Bearer s3cret\r\n"
    assert header(Credentials(username="u", password_file=file)) == basic("u:s3cret")


def test_a_file_is_read_anew_when_it_changes_only(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("one")
    authorization = Authorization(Credentials(token_file=file))
    assert authorization.header() == b"Authorization: Bearer one\r\n"
    assert authorization.header() is authorization.header()
    fresh = tmp_path / "fresh"
    fresh.write_text("two")
    fresh.replace(file)
    assert authorization.header() == b"Authorization: Bearer two\r\n"
    file.write_text("six")
    os.utime(file, ns=(1, 1))
    assert authorization.header() == b"Authorization: Bearer six\r\n"


def refusal(credentials: Credentials) -> str:
    with pytest.raises(ScrapeError) as caught:
        header(credentials)
    assert caught.value.reason is EdgeReason.OTHER
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)
    return str(caught.value)


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    missing, empty, binary = (tmp_path / name for name in ("missing", "empty", "binary"))
    empty.write_text("\n")
    binary.write_bytes(b"\xff" + SECRET.encode())
    assert refusal(Credentials(token_file=missing)) == (
        f"cannot read {missing}: No such file or directory"
    )
    assert "is empty" in refusal(Credentials(token_file=empty))
    assert "holds no text" in refusal(Credentials(token_file=binary))


@pytest.mark.parametrize("token", [f"{SECRET}\r\nX-Evil: 1", f"{SECRET}\n", f"{SECRET}\x00"])
def test_a_token_that_would_add_a_header_is_refused(token: str, tmp_path: Path) -> None:
    assert "line break" in refusal(Credentials(token=token))
    file = tmp_path / "token"
    file.write_text(f"a{token}b")
    assert "line break" in refusal(Credentials(token_file=file))


def test_no_secret_is_in_a_repr() -> None:
    credentials = Credentials(username="u", password=SECRET, token=SECRET)
    authorization = Authorization(credentials)
    authorization.header()
    assert SECRET not in repr(credentials)
    assert SECRET not in repr(authorization)
    assert b64encode(f"u:{SECRET}".encode()).decode() not in repr(authorization)


async def test_credentials_reach_the_target_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    groups = {
        FLEET_GROUP: ScrapeOptions(credentials=Credentials(token_file=file)),
        "basic": ScrapeOptions(credentials=Credentials(username="u", password=SECRET)),
        "broken": ScrapeOptions(credentials=Credentials(token_file=tmp_path / "missing")),
    }
    scraper = Scraper(
        groups,
        interval_seconds=10.0,
        concurrency=1,
        reader=PageReader(Schemas()),
        clock=SystemClock(),
    )
    async with serving({"/denied": sends(answer(b"", 401))}) as site, scraper:
        targets = [
            Target("w", site.url()),
            Target("denied", site.url(f"/denied?key={SECRET}"), group="basic"),
            Target("broken", site.url(), group="broken"),
            Target("inline", f"http://u:{SECRET}@127.0.0.1:{site.port}/metrics"),
        ]
        results = {it.target.name: it for it in await scraper.wave(targets, 1.8e9)}
    sent = {request.split(" ")[1]: request for request in site.requests}
    assert "Authorization: Bearer s3cret\r\n" in sent["/metrics"]
    assert basic(f"u:{SECRET}").decode() in sent[f"/denied?key={SECRET}"]
    assert len(site.requests) == 2
    failures = {name: it.failure for name, it in results.items() if it.failure}
    assert set(failures) == {"denied", "broken", "inline"}
    assert "credentials are missing or wrong" in failures["denied"].message
    assert "cannot read" in failures["broken"].message
    assert "set them for its group" in failures["inline"].message
    told = caplog.text + "".join(failure.message for failure in failures.values())
    assert SECRET not in told
    assert f"http://127.0.0.1:{site.port}/denied?…" in told


async def test_a_worker_with_a_key_of_its_own_is_shown_that(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    groups = {
        FLEET_GROUP: ScrapeOptions(),
        "other": ScrapeOptions(credentials=Credentials(token="of the group")),
    }
    scraper = Scraper(
        groups,
        interval_seconds=10.0,
        concurrency=1,
        reader=PageReader(Schemas()),
        clock=SystemClock(),
    )
    async with serving({}) as site, scraper:
        targets = [
            Target("w", site.url("/keyed"), api_key_file=str(file)),
            Target("open", site.url("/open")),
            Target("o", site.url("/other"), group="other", api_key_file=str(file)),
        ]
        await scraper.wave(targets, 1.8e9)
    sent = {request.split(" ")[1]: request for request in site.requests}
    assert "Authorization: Bearer s3cret\r\n" in sent["/keyed"]
    assert "Authorization" not in sent["/open"]
    assert "Authorization: Bearer of the group\r\n" in sent["/other"]
