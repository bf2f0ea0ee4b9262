from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from ds4watch.telemetry.logging import configure, redact


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Give a stream that the log is configured to, and put the log back after."""
    root, ours = logging.getLogger(), logging.getLogger("ds4watch")
    before = (list(root.handlers), root.level, ours.level)
    stream = io.StringIO()
    configure("info", stream)
    yield stream
    root.handlers[:], root.level, ours.level = before


def test_a_record_is_one_line_with_utc_time_level_and_origin(stream: io.StringIO) -> None:
    logging.getLogger("ds4watch.scrape.wave").warning("scrape of %s failed", "w1")
    at, rest = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", at)
    assert rest == "WARNING ds4watch.scrape.wave: scrape of w1 failed\n"


def test_the_level_holds_for_ds4watch_and_libraries_are_heard_from_warnings_up(
    stream: io.StringIO,
) -> None:
    logging.getLogger("ds4watch.x").debug("too fine")
    logging.getLogger("ds4watch.x").info("ours")
    logging.getLogger("some.library").info("theirs")
    logging.getLogger("some.library").warning("their warning")
    assert [line.split(": ")[1] for line in stream.getvalue().splitlines()] == [
        "ours",
        "their warning",
    ]


def test_what_a_client_sends_cannot_forge_a_line(stream: io.StringIO) -> None:
    logging.getLogger("ds4watch.x").info("model %s unknown", "a\n2026-01-01 ERROR forged\r\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert r"a\n2026-01-01 ERROR forged\r\x1b[2J unknown" in stream.getvalue()


def test_a_traceback_follows_indented_and_without_secrets(stream: io.StringIO) -> None:
    try:
        int("Authorization: Bearer abcdef0123456789")
    except ValueError:
        logging.getLogger("ds4watch.x").exception("it broke")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ds4watch.x: it broke")
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert "abcdef" not in stream.getvalue()
    assert "Bearer [hidden]" in stream.getvalue()


def test_configuring_twice_does_not_write_twice(stream: io.StringIO) -> None:
    configure("info", stream)
    logging.getLogger("ds4watch.x").info("once")
    assert stream.getvalue().count("once") == 1


def test_an_unknown_level_is_an_error(stream: io.StringIO) -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure("loud", stream)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRET1234",
        "authorization: bearer SECRET1234",
        "Basic SECRET1234==",
        "token=SECRET1234",
        "{'token': 'SECRET1234'}",
        '{"api_key":"SECRET1234"}',
        "GET /login?token=SECRET1234&next=1",
        "admin_token: SECRET1234",
        "postgresql://user:SECRET1234@db/x",
        "https://hooks.slack.com/services/T0/B0/SECRET1234",
        "xoxb-SECRET1234-567890123456",
        "key sk-SECRET1234567890abc in use",
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    assert "SECRET" not in redact(text)
    assert "[hidden]" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "ds4_prompt_tokens_total went from 1 to 2",
        "max_tokens: 128",
        "prompt tokens 5, cached tokens 3",
        "http://127.0.0.1:8101/metrics answered 500",
        "worker tiny-full-0 is ready after 12 s",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert redact(text) == text
