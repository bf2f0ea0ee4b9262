"""Messages without markup and without buttons: all that a person needs is in the words."""

from __future__ import annotations

import pytest

from ds4watch.alerting.grouping import Note, Why
from ds4watch.notify.by_hand import note_commands
from ds4watch.notify.group_channel import Telling
from ds4watch.notify.plain_text import plain_message
from ds4watch.notify.samples import sample_group, sample_tellings
from ds4watch.notify.slack_message import Links, message_of

NOW = 1_796_028_647.0
SAMPLES = dict(sample_tellings(NOW))


def plain(telling: Telling) -> tuple[str, str]:
    return plain_message(telling, Links("https://ds4.example"), lambda _: "> 50")


def test_an_alert_says_what_since_when_how_much_and_how_to_stop_it() -> None:
    title, body = plain(SAMPLES["alert"])
    assert title == "QueueDepthHigh (critical): 2 firing"
    assert body.splitlines()[:2] == [
        "critical: this is a test: 80 requests wait",
        "  worker w1; value 80, threshold > 50; firing since 2026-11-30 08:49 UTC (2 min)",
    ]
    assert 'to stop automatic actions: ds4watch hold --pool default --for 1h --why "…"' in body
    assert "status: https://ds4.example\n" in body


def test_what_is_over_calls_for_nothing() -> None:
    _, body = plain(Telling(sample_group(NOW, firing=False), Why.OVER, NOW))
    assert "over: this is a test" in body
    assert "fired for 2 min" in body
    assert "ds4watch hold" not in body


@pytest.mark.parametrize(
    ("payload", "purposes"),
    [
        ({"action": "a", "what": "restart_worker"}, ["to take it back"]),
        ({"action": "a", "what": "restart_worker", "undoes": "b"}, []),
        ({"action": "a", "what": "set_level", "parameters": {"level": "2"}}, ["to go back"]),
        ({"action": "a", "what": "set_level", "parameters": {"level": "0"}}, []),
        ({}, []),
    ],
)
def test_an_action_says_how_it_is_taken_back(
    payload: dict[str, object], purposes: list[str]
) -> None:
    assert [it for it, _ in note_commands(Note("n", "action", NOW, payload))] == purposes


def test_where_nobody_would_hear_a_button_slack_says_what_to_type() -> None:
    for kind, shown in (("alert", "ds4watch hold"), ("question", "ds4watch approve test")):
        without, with_buttons = (
            str(message_of(SAMPLES[kind], Links(), lambda _: "", buttons=it).blocks)
            for it in (False, True)
        )
        assert shown in without
        assert shown not in with_buttons
