"""Which alerts a silence covers, and that it mutes messages until it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.alerting.silences import mute_of, read_matchers, silenced_by
from ds4watch.alerting.telling import STILL_FIRES, tell
from ds4watch.model.alert import AlertPhase, AlertState, Transition
from ds4watch.model.errors import RefusedError
from ds4watch.model.series import labels_of
from ds4watch.model.silence import LabelTest, Silence

LABELS = labels_of({"alertname": "Busy", "severity": "warning", "worker": "tiny-1"})


def silence(*matchers: str, starts_at: float = 10, ends_at: float = 20) -> Silence:
    return Silence("s", read_matchers(matchers), starts_at, ends_at, "ann", "why", starts_at)


@pytest.mark.parametrize(
    ("matchers", "is_covered"),
    [
        (["alertname=Busy"], True),
        (['alertname="Busy"', "severity=warning"], True),
        (["alertname=Busy", "severity=critical"], False),
        (['worker=~"tiny-.*"'], True),
        (["worker=~tiny"], False),
        (["alertname=Busy", "worker!~tiny-.*"], False),
        (["alertname=Busy", "worker!=tiny-2"], True),
        (["alertname=Busy", 'team=""'], True),
        (["team!="], False),
        ([" worker =~ tiny-[0-9] "], True),
    ],
)
def test_a_silence_covers_alerts_that_meet_all_its_matchers(
    matchers: list[str], is_covered: bool
) -> None:
    assert bool(silenced_by(LABELS, [silence(*matchers)], 15)) is is_covered


@pytest.mark.parametrize(("now", "is_muted"), [(9.9, False), (10, True), (19.9, True), (20, False)])
def test_a_silence_holds_from_its_begin_to_before_its_end(now: float, is_muted: bool) -> None:
    assert mute_of([silence("alertname=Busy")], now)(LABELS) is is_muted


@pytest.mark.parametrize(
    ("matchers", "told"),
    [
        ([], "a silence needs 1 to 32 matchers, got 0"),
        (["a=b"] * 33, "got 33"),
        (["Busy"], 'a matcher is written as severity="warning"'),
        (["1a=b"], "a matcher is written as"),
        (['a="b'], "the quotes do not match"),
        (["a=~("], "a: bad regular expression"),
        (["a=~.*"], "at least one matcher must ask for a label"),
        (["a=", "b!=c"], "at least one matcher must ask for a label"),
        (["a=" + "x" * 1025], "a: a value may have 1024 characters"),
    ],
)
def test_matchers_that_make_no_sense_are_refused(matchers: list[str], told: str) -> None:
    with pytest.raises(RefusedError) as raised:
        read_matchers(matchers)
    assert told in str(raised.value)


@given(st.text(max_size=50), st.sampled_from(["=", "!="]))
def test_a_matcher_as_it_is_shown_reads_as_itself(value: str, op: str) -> None:
    shown = LabelTest("a", op, value)
    assert read_matchers([str(shown), "b=c"])[0] == shown


BUSY = AlertState("r", LABELS, AlertPhase.FIRING, 0.0, 1.0, fired_at=1.0)


def news(old: AlertPhase, new: AlertPhase, at: float) -> Transition:
    return Transition(BUSY.fingerprint, LABELS, old, new, at, 1.0, "held")


def test_a_silenced_alert_is_told_to_nobody_and_once_when_it_outlasts_its_silence() -> None:
    fired = news(AlertPhase.PENDING, AlertPhase.FIRING, 15)
    silences = [silence("alertname=Busy")]
    muted = tell((), (BUSY,), [fired], 15, is_silenced=mute_of(silences, 15))
    assert (muted.messages, muted.alerts) == ((), (BUSY,))
    after = tell(muted.alerts, muted.alerts, [], 20, is_silenced=mute_of(silences, 20))
    assert [it.reason for it in after.messages] == [STILL_FIRES]
    again = tell(after.alerts, after.alerts, [], 21, is_silenced=mute_of(silences, 21))
    assert again.messages == ()


@pytest.mark.parametrize(("at", "told"), [(15, 0), (20, 1)])
def test_the_end_of_what_was_told_is_muted_too_while_the_silence_holds(
    at: float, told: int
) -> None:
    before = replace(BUSY, last_sent_at=5.0)
    over = news(AlertPhase.FIRING, AlertPhase.RESOLVED, at)
    gone = replace(before, phase=AlertPhase.RESOLVED)
    silences = [silence("alertname=Busy")]
    found = tell((before,), (gone,), [over], at, is_silenced=mute_of(silences, at))
    assert len(found.messages) == told
