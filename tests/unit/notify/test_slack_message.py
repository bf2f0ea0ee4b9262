"""Messages keep to Slack's limits, whatever is in the alerts, and mention nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.alerting.grouping import Group, Member, News, Note, Why
from ds4watch.model.series import labels_of
from ds4watch.notify.group_channel import Digest, Fault, Telling
from ds4watch.notify.picture import bars, sparkline
from ds4watch.notify.samples import sample_digest, sample_group, sample_tellings
from ds4watch.notify.slack_errors import error_of
from ds4watch.notify.slack_message import (
    Links,
    digest_message,
    follow_up,
    message_of,
)
from ds4watch.notify.slack_report import report_text
from tests.edge.notify.slack_server import block_faults

DOCS = Path(__file__).parents[3] / "docs" / "notifications.md"
NOW = 1_796_028_647.0
LINKS = Links("https://ds4.example", "https://grafana.example/d/1", "https://wiki.example")
TEXT = st.text(max_size=5000)


def above(news: News) -> str:
    return "> 50" if news.fingerprint else ""


def group_of(texts: list[str], count: int, *, firing: bool) -> Group:
    labels = {"alertname": texts[0] or "A", "severity": "critical", **dict.fromkeys("ab", texts[1])}
    members = tuple(
        Member(
            News(
                str(number),
                str(number),
                firing,
                NOW,
                texts[2],
                texts[3],
                labels_of({**labels, "worker": str(number)}),
                labels_of({"summary": texts[4], "description": texts[5], "runbook_url": texts[6]}),
            ),
            NOW - 5,
        )
        for number in range(count)
    )
    notes = tuple(
        Note(str(n), kind, NOW, {"action": texts[1], "target": texts[2], "text": texts[3]})
        for n, kind in enumerate(("action", "approval", "said") * 3)
    )
    return Group("key", (), NOW - 5, members, notes, more=3)


@settings(max_examples=60)
@given(st.lists(TEXT, min_size=7, max_size=7), st.integers(0, 60), st.booleans())
def test_no_message_breaks_a_limit(texts: list[str], count: int, firing: bool) -> None:
    group = group_of(texts, count, firing=firing)
    telling = Telling(group, Why.REPEAT, NOW)
    more = follow_up(telling, above, buttons=True)
    assert more is not None
    for message in (
        message_of(telling, LINKS, above, buttons=True),
        more,
        digest_message(Digest("d", NOW - 900, NOW, (group,) * 60)),
    ):
        assert block_faults(list(message.blocks)) == []
        assert 0 < len(message.text) <= 3000


def test_nobody_is_mentioned_by_what_is_in_an_alert() -> None:
    group = group_of(
        ["<!channel>", "<@U1>", "1", "<http://x|y>", "<!here> & co", "*", ""], 2, firing=True
    )
    message = message_of(Telling(group, Why.FIRST, NOW), LINKS, above, buttons=True)
    blocks = [it for it in message.blocks if it["type"] != "actions"]
    for mention in ("<!channel>", "<@U1>", "<!here>", "<http://x"):
        assert mention not in message.text + json.dumps(blocks)


def test_the_example_in_the_docs_is_what_is_sent() -> None:
    message = message_of(Telling(sample_group(NOW), Why.FIRST, NOW), LINKS, above, buttons=True)
    text = DOCS.read_text(encoding="utf-8")
    example = text.split("```json\n", 1)[1].split("```", 1)[0]
    assert json.loads(example) == {"text": message.text, "attachments": message.attachments}


def test_a_lock_screen_shows_what_is_wrong() -> None:
    def text(*, firing: bool) -> str:
        telling = Telling(sample_group(NOW, firing=firing), Why.FIRST, NOW)
        return message_of(telling, LINKS, above, buttons=True).text

    assert text(firing=True).endswith("2 firing · this is a test: 80 requests wait")
    assert text(firing=False) == "QueueDepthHigh: over (2 alerts)"


def test_each_sample_is_a_message() -> None:
    for _, telling in sample_tellings(NOW):
        message = message_of(telling, LINKS, above, buttons=True)
        assert block_faults(list(message.blocks)) == []
    assert "1 alerts" not in digest_message(sample_digest(NOW)).text


def test_a_report_puts_before_beside_after() -> None:
    (report,) = [it.group.notes[0].payload for kind, it in sample_tellings(NOW) if kind == "report"]
    lines = report_text(report).splitlines()
    assert lines[0] == "Daily report: 2026-11-29 00:00 to 2026-11-30 00:00"
    assert "cost, USD                       91.2        74.8    -18 %" in lines
    assert any("set_level on default" in line for line in lines)


@pytest.mark.parametrize(
    ("status", "code", "fault", "unsure"),
    [
        (429, "ratelimited", Fault.BUSY, False),
        (200, "ratelimited", Fault.BUSY, False),
        (200, "invalid_auth", Fault.ACCESS, False),
        (200, "token_revoked", Fault.ACCESS, False),
        (200, "is_archived", Fault.ACCESS, False),
        (404, "no_service", Fault.ACCESS, False),
        (500, "", Fault.OUTAGE, True),
        (200, "", Fault.OUTAGE, True),
        (200, "internal_error", Fault.OUTAGE, True),
        (200, "invalid_blocks", Fault.MESSAGE, False),
        (400, "invalid_payload", Fault.MESSAGE, False),
    ],
)
def test_what_an_answer_of_slack_means(status: int, code: str, fault: Fault, unsure: bool) -> None:
    error = error_of(status, code)
    assert (error.fault, error.unsure) == (fault, unsure)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("", 30.0), ("soon", 30.0)])
def test_a_pause_is_as_long_as_asked_for(header: str, seconds: float) -> None:
    assert error_of(429, "", header).wait_seconds == seconds


def size_of(picture: bytes) -> tuple[int, int]:
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


@pytest.mark.parametrize("limit", [None, 50.0, -3.0])
def test_a_sparkline_is_a_picture(limit: float | None) -> None:
    points: list[tuple[float, float]] = [(float(it), float(it % 7)) for it in range(60)]
    picture = sparkline([*points, (61.0, float("nan"))], threshold=limit)
    assert picture is not None
    assert size_of(picture) == (640, 160)
    assert sparkline(points[:1]) is None


@given(st.lists(st.floats(0, 1e12), max_size=40), st.lists(st.floats(0, 1e12), max_size=40))
@settings(max_examples=30)
def test_bars_are_a_picture_whatever_the_figures(before: list[float], after: list[float]) -> None:
    found: Any = bars(before, after)
    assert size_of(found) == (720, 240)
