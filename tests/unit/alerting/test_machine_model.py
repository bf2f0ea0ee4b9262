"""The machine beside a model of it, of one label set.

Its element is there, is not, is missing for want of a scrape, or could not be evaluated; a daemon
that was away for a while is part of the story.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.alerting.machine import OUTAGE_TOLERANCE_SECONDS, RESOLVED_RETENTION_SECONDS
from ds4watch.model.alert import AlertPhase, OnNoData
from tests.unit.alerting.rules import (
    EMPTY,
    FAILED,
    INCOMPLETE,
    NO_DATA,
    NONE,
    F,
    P,
    R,
    Run,
    hit,
    rule,
)


class Seen(StrEnum):
    """What an evaluation gave; AWAY: the daemon was not there, and starts again."""

    HIT = "hit"
    MISS = "miss"
    INCOMPLETE = "incomplete"
    NO_DATA = "no data"
    FAILED = "failed"
    AWAY = "away"


EVALUATIONS = {
    Seen.HIT: hit(),
    Seen.MISS: EMPTY,
    Seen.INCOMPLETE: INCOMPLETE,
    Seen.NO_DATA: NO_DATA,
    Seen.FAILED: FAILED,
}


@dataclass(frozen=True)
class Times:
    """Of a rule, in seconds."""

    hold: float
    keep: float
    no_data: OnNoData


@dataclass(frozen=True)
class Event:
    at: float
    seen: Seen
    away: float = 0.0


def counts(seen: Seen, times: Times) -> bool | None:
    """Return whether an evaluation says that the condition holds; None: it changes nothing."""
    if seen is Seen.NO_DATA and times.no_data is OnNoData.RESOLVE:
        return False
    return {Seen.HIT: True, Seen.MISS: False}.get(seen)


@dataclass
class Model:
    """One alert of a rule: since when its condition has held, since when it has been missed."""

    times: Times
    phase: AlertPhase = NONE
    since: float = 0.0
    missed_since: float | None = None
    over_at: float = 0.0

    def take(self, event: Event) -> AlertPhase:
        """Return the phase after an event."""
        holds = counts(event.seen, self.times)
        if event.seen is Seen.AWAY:
            self._was_away(event)
        elif holds:
            self._hit(event.at)
        elif event.seen is not Seen.FAILED and self.phase is R:
            over = event.at - self.over_at >= RESOLVED_RETENTION_SECONDS
            self.phase = NONE if over else R
        elif holds is False:
            self._missed(event.at)
        return self.phase

    def _was_away(self, event: Event) -> None:
        if self.phase is P:
            anew = event.away > OUTAGE_TOLERANCE_SECONDS
            self.since = event.at if anew else self.since + event.away
        if self.missed_since is not None:
            self.missed_since += event.away

    def _hit(self, at: float) -> None:
        self.missed_since = None
        if self.phase in (NONE, R):
            self.phase, self.since = P, at
        if self.phase is P and at - self.since >= self.times.hold:
            self.phase = F

    def _missed(self, at: float) -> None:
        if self.phase is P:
            self.phase = NONE
        elif self.phase is F:
            self.missed_since = at if self.missed_since is None else self.missed_since
            if at - self.missed_since >= self.times.keep:
                self.phase, self.over_at, self.missed_since = R, at, None


TIMES = st.builds(
    Times,
    st.sampled_from([0.0, 10.0, 60.0]),
    st.sampled_from([0.0, 15.0]),
    st.sampled_from([OnNoData.HOLD, OnNoData.RESOLVE]),
)
GAPS = st.sampled_from([1.0, 5.0, 15.0, 100.0, 2000.0, 4000.0])
STORY = st.lists(st.tuples(GAPS, st.sampled_from(Seen)), min_size=1, max_size=40)


def events_of(story: list[tuple[float, Seen]]) -> list[Event]:
    """Return a story with its times. A daemon is away from its last tick on."""
    at, last_tick_at = 1000.0, 1000.0
    events = []
    for gap, seen in story:
        at += gap
        away = at - last_tick_at if seen is Seen.AWAY else 0.0
        events.append(Event(at, seen, away))
        last_tick_at = at
    return events


@settings(max_examples=400, deadline=None)
@given(TIMES, STORY)
def test_the_machine_does_what_the_model_says(
    times: Times, story: list[tuple[float, Seen]]
) -> None:
    run = Run(rule(hold=times.hold, keep=times.keep, no_data=times.no_data), last_tick_at=1000.0)
    model = Model(times)
    for event in events_of(story):
        if event.seen is Seen.AWAY:
            run.restart(event.at)
            run.last_tick_at = event.at
        else:
            run.at(event.at, EVALUATIONS[event.seen])
        assert run.phase is model.take(event)


@settings(max_examples=200, deadline=None)
@given(TIMES, STORY)
def test_nothing_that_was_restored_is_confirmed_before_it_was_seen_afresh(
    times: Times, story: list[tuple[float, Seen]]
) -> None:
    run = Run(rule(hold=times.hold, keep=times.keep, no_data=times.no_data), last_tick_at=1000.0)
    looked_at = True
    for event in events_of(story):
        if event.seen is Seen.AWAY:
            run.restart(event.at)
            looked_at = False
            continue
        run.at(event.at, EVALUATIONS[event.seen])
        looked_at = looked_at or counts(event.seen, times) is not None
        for state in run.states.values():
            if state.phase is F and not looked_at:
                assert not state.confirmed
            if state.phase is F and looked_at and counts(event.seen, times) is not None:
                assert state.confirmed
