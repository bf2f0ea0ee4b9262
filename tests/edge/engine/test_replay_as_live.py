"""A replay of what was stored tells what the daemon told when it happened, tick by tick."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.replay import ReplayAsk, Replayed, replay
from ds4watch.engine.rulebook import RuleBook
from ds4watch.history.live import LiveBuffer
from ds4watch.history.range_reader import StoredRanges
from ds4watch.model.action import ActionPlan, Refusal
from ds4watch.model.alert import AlertPhase, AlertState, RuleGroup, Transition
from ds4watch.model.scrape import ScrapeResult
from ds4watch.model.series import Schema, SeriesKey
from ds4watch.policy.ladder import LadderState, decide
from ds4watch.policy.policyfile import PolicyFile, load_policy
from tests.edge.history.folding import open_store
from tests.edge.history.helpers import AB, NOW, W1, W2, failed, scrape

STEP = 15.0
TICKS = 36

RULES = """\
groups:
  - name: g
    rules:
      - alert: Held
        expr: a > 2
        for: 20s
        keep_firing_for: 40s
        labels: {severity: warning}
        annotations: {summary: "{{ $value }} at {{ $labels.worker }}", ds4_on_no_data: hold}
      - alert: Held
        expr: a > 3
        labels: {severity: critical}
        annotations: {ds4_on_no_data: hold}
      - record: doubled
        expr: 2 * a
      - alert: Recorded
        expr: sum(avg_over_time(doubled[45s])) > 8
        for: 15s
      - alert: Through
        expr: doubled > 5
        for: 15s
        annotations: {ds4_on_no_data: hold, ds4_min_firing: 1m}
      - alert: Over
        expr: max_over_time(doubled[1m]) > 7
      - alert: Plain
        expr: b{x="1"} > 1
        for: 30s
      - alert: Shared
        expr: sum by (job) (a) > 4 unless on (job) count by (job) (b) == 2
        annotations: {ds4_on_no_data: hold}
      - alert: Exits
        expr: a > 3
        annotations: {ds4_exit: a < 2, ds4_on_no_data: hold}
      - alert: Without
        expr: b > 3
        annotations: {ds4_on_no_data: alert}
      - alert: Down
        expr: up == 0
      - alert: Nothing
        expr: absent(b)
        for: 30s
      - alert: Always
        expr: vector(1)
      - alert: Rate
        expr: rate(a[1m]) > 0.05 and on (worker) a offset 15s > 0
        annotations: {ds4_on_no_data: hold}
      - alert: Broken
        expr: a * on (job) b
  - name: slow
    interval: 40s
    rules:
      - record: slowly
        expr: max_over_time(a[1m])
      - alert: Slow
        expr: max_over_time(slowly[2m:30s]) > 2
        for: 1m
"""
ENTANGLED = """
  - name: entangled
    rules:
      - alert: Again
        expr: count_over_time(ALERTS{alertname="Held"}[1m]) > 2
        for: 15s
      - alert: Behind
        expr: later > 3
      - record: later
        expr: sum(a) + count(later or vector(0))
"""
POLICY = """\
pools:
  default:
    ladder: [{name: one}, {name: two}, {name: three}]
    settle_seconds: 30
    clear_hold_seconds: 45
bindings:
  - {match: {alertname: Held, severity: warning}, level: 2}
  - {match: {alertname: Held, severity: critical}, level: 3, jump: true}
  - {match: {alertname: Shared}, level: 1}
"""
LESS = (SeriesKey("a"),)


@dataclass(frozen=True)
class Lived:
    transitions: list[Transition]
    plans: list[ActionPlan]
    refusals: list[Refusal]
    alerts: Sequence[AlertState]


page: st.SearchStrategy[tuple[int, list[float]]] = st.one_of(
    st.tuples(st.just(1), st.lists(st.integers(0, 4).map(float), min_size=2, max_size=2)),
    st.tuples(st.just(2), st.lists(st.integers(0, 4).map(float), min_size=1, max_size=1)),
    st.just((0, [])),
)


@st.composite
def pages(draw: st.DrawFn) -> list[tuple[int, list[float]]]:
    """Pages that often stay as they are."""
    found: list[tuple[int, list[float]]] = []
    while len(found) < TICKS:
        one, times = draw(page), draw(st.integers(1, 8))
        found += [one] * times
    return found[:TICKS]


def scrapes_of(story: Sequence[Sequence[tuple[int, list[float]]]]) -> list[list[ScrapeResult]]:
    waves = []
    for tick in range(TICKS):
        wave = []
        for place, (target, its) in enumerate(zip((W1, W2), story, strict=True)):
            schema_id, values = its[tick]
            at = NOW + STEP * tick - 0.5 - place
            good = scrape(at, values, schema_id=schema_id, target=target)
            wave.append(good if schema_id else failed(at, target=target))
        waves.append(wave)
    return waves


def lived(
    groups: Sequence[RuleGroup],
    policy: PolicyFile,
    waves: list[list[ScrapeResult]],
    schema_of: dict[int, tuple[SeriesKey, ...]],
) -> Lived:
    book = RuleBook(groups)
    live = LiveBuffer(window_seconds=900.0, windows=book.windows_read())
    schemas = {number: Schema(number, series) for number, series in schema_of.items()}
    alerts: tuple[AlertState, ...] = ()
    ladder = LadderState("default")
    told = Lived([], [], [], ())
    silent_since: dict[str, float] = {}
    for tick, wave in enumerate(waves):
        now = NOW + STEP * tick
        live.append(wave, schemas.__getitem__)
        turn = book.evaluate(live, alerts, now)
        alerts = turn.alerts
        told.transitions.extend(turn.transitions)
        for one in wave:
            since = min(silent_since.get(one.target.name, one.at), one.at)
            silent_since[one.target.name] = since if one.failure else math.inf
        blind = any(ladder.since < since <= now - 5 for since in silent_since.values())
        decision = decide(
            ladder, policy, alerts, holds=(), in_flight=False, unconfirmed=blind, now=now
        )
        ladder = decision.state
        if decision.refusal:
            told.refusals.append(decision.refusal)
        if decision.plan:
            told.plans.append(decision.plan)
            level = decision.plan.parameters["level"]
            action = decision.plan.id if level else None
            ladder = replace(ladder, level=level, since=now, action=action)
    return replace(told, alerts=alerts)


def replayed(
    groups: Sequence[RuleGroup],
    policy: PolicyFile,
    waves: list[list[ScrapeResult]],
    path: Path,
    at_once: int,
) -> Replayed:
    async def keep() -> None:
        store = open_store(path)
        assert store.intern(AB).id == 1
        assert store.intern(LESS).id == 2
        await store.append([one for wave in waves for one in wave])
        await store.close()

    asyncio.run(keep())
    ask = ReplayAsk(tuple(groups), policy, NOW, NOW + STEP * (TICKS - 1), STEP)
    with closing(StoredRanges(path)) as reader:
        return replay(ask, reader, lambda _done, _total: None, at_once=at_once)


def key(one: Transition) -> tuple[object, ...]:
    return (
        one.at,
        one.fingerprint,
        one.old.value,
        one.new.value,
        repr(one.value),
        one.reason,
        one.annotations,
    )


def check(rules: str, story: Sequence[Sequence[tuple[int, list[float]]]], at_once: int) -> None:
    groups = load_rules(rules, "rules.yml")
    policy = load_policy(POLICY, "policy.yml")
    waves = scrapes_of(story)
    then = lived(groups, policy, waves, {1: AB, 2: LESS})
    with tempfile.TemporaryDirectory() as folder:
        now = replayed(groups, policy, waves, Path(folder) / "samples.db", at_once)
    assert sorted(map(key, (it.transition for it in now.told))) == sorted(
        map(key, then.transitions)
    )
    firing = [it for it in then.alerts if it.phase is AlertPhase.FIRING]
    assert {(it.fingerprint, it.fired_at, it.held) for it in now.firing} == {
        (it.fingerprint, it.fired_at, it.held) for it in firing
    }
    assert [(it.planned_at, it.parameters, it.id) for it in now.plans] == [
        (it.planned_at, it.parameters, it.id) for it in then.plans
    ]
    assert [(it.at, it.reason) for it in now.refusals] == [
        (it.at, it.reason) for it in then.refusals
    ]


@settings(deadline=None, max_examples=12)
@given(st.tuples(pages(), pages()), st.sampled_from([5, 11, TICKS]))
def test_a_replay_tells_what_was_told_when_it_happened(
    story: tuple[list[tuple[int, list[float]]], list[tuple[int, list[float]]]],
    at_once: int,
) -> None:
    check(RULES, story, at_once)


@settings(deadline=None, max_examples=6)
@given(st.tuples(pages(), pages()), st.sampled_from([5, 11, TICKS]))
def test_rules_that_read_alerts_and_later_rules_are_replayed_step_by_step(
    story: tuple[list[tuple[int, list[float]]], list[tuple[int, list[float]]]],
    at_once: int,
) -> None:
    check(RULES + ENTANGLED, story, at_once)
