"""What Alertmanager is told, and until when it stands: as Prometheus does it."""

from __future__ import annotations

from ds4watch.alerting.handed_on import HandedOn, due, hand_on, handed
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.series import Labels, labels_of

LABELS = labels_of({"alertname": "Queue"})
RESEND = 60.0


def firing(*, confirmed: bool = True) -> AlertState:
    return AlertState(
        "r", LABELS, AlertPhase.FIRING, 90.0, 1.0, fired_at=100.0, confirmed=confirmed
    )


def told(known: dict[Labels, HandedOn], now: float) -> dict[Labels, HandedOn]:
    return handed(known, due(known, now, resend_seconds=RESEND), now)


def test_what_fires_is_sent_at_once_and_again_after_the_resend_delay() -> None:
    known = hand_on({}, [firing()], 100)
    assert [it.started_at for it in due(known, 100, resend_seconds=RESEND)] == [100.0]
    known = hand_on(told(known, 100), [firing()], 159)
    assert due(known, 159, resend_seconds=RESEND) == []
    (again,) = due(known, 160, resend_seconds=RESEND)
    assert again.ends_at(160, resend_seconds=RESEND, interval_seconds=1) == 400


def test_the_end_lies_four_intervals_ahead_if_these_are_longer() -> None:
    (alert,) = hand_on({}, [firing()], 100).values()
    assert alert.ends_at(100, resend_seconds=RESEND, interval_seconds=90) == 460


def test_what_resolved_is_sent_and_repeated_for_a_quarter_of_an_hour() -> None:
    known = told(hand_on({}, [firing()], 100), 100)
    known = hand_on(known, [], 110)
    (over,) = due(known, 110, resend_seconds=RESEND)
    assert over.ends_at(200, resend_seconds=RESEND, interval_seconds=1) == 110
    known = hand_on(told(known, 110), [], 170)
    assert len(due(known, 170, resend_seconds=RESEND)) == 1
    assert hand_on(told(known, 170), [], 110 + 900) == {}


def test_what_comes_back_is_a_new_alert() -> None:
    known = hand_on(told(hand_on({}, [firing()], 100), 100), [], 110)
    (back,) = hand_on(known, [firing()], 120).values()
    assert (back.ended_at, back.sent_at) == (None, None)


def test_a_restored_alert_is_sent_once_it_was_seen_and_never_ended_before() -> None:
    assert hand_on({}, [firing(confirmed=False)], 100) == {}
    known = told(hand_on({}, [firing()], 100), 100)
    (kept,) = hand_on(known, [firing(confirmed=False)], 110).values()
    assert kept.ended_at is None
