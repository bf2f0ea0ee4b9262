"""Rules and policy over the past: what they would have told, and what would have been done.

The history stays as it was: what an action would have changed in it is not known. Before the first
instant nothing is known of any alert, as at the first start of a daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ds4watch.engine.due import Due
from ds4watch.engine.replay_doubt import Answers, AnswersReader, Missing, blind
from ds4watch.engine.replay_history import ReplayHistory
from ds4watch.engine.replay_order import ReplayRule, order_of
from ds4watch.engine.replay_rule import ReplayedRule
from ds4watch.engine.replay_table import Ran, States, Stretch
from ds4watch.engine.sight import BLIND_AFTER_SECONDS
from ds4watch.model.action import ActionPlan, Refusal
from ds4watch.model.alert import AlertPhase, AlertRule, AlertState, RuleGroup, Transition
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.policy.ladder import LadderState, decide
from ds4watch.policy.policyfile import PolicyFile, may_match
from ds4watch.policy.pools import ladder_pools
from ds4watch.promql.columns import BoolArray
from ds4watch.promql.range_steps import micro
from ds4watch.promql.storage import RangeStorage

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is to do."""

_SLAB_SECONDS = 7200.0
_MOST_STEPS_AT_ONCE = 2000
_MOST_STEPS = 5_000_000


@dataclass(frozen=True, slots=True)
class ReplayAsk:
    """What to replay: at start, start + step, … up to end."""

    groups: tuple[RuleGroup, ...]
    policy: PolicyFile
    start: UnixSeconds
    end: UnixSeconds
    step_seconds: float


@dataclass(frozen=True, slots=True)
class Told:
    """A transition, and the rule that it is of."""

    rule: AlertRule
    transition: Transition


@dataclass(slots=True)
class RuleFailure:
    """A rule that could not be evaluated at some steps."""

    group: str
    rule: str
    steps: int
    error: str


@dataclass(slots=True)
class Replayed:
    """What would have been: transitions and decisions, in the order in which they would have come.

    unwatched: steps left out, for nothing was scraped for five minutes. firing: what fires at the
    end. unseen: rules of which no selector found anything, ever.
    """

    steps: int = 0
    unwatched: int = 0
    told: list[Told] = field(default_factory=list)
    plans: list[ActionPlan] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    firing: tuple[AlertState, ...] = ()
    failures: dict[int, RuleFailure] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


def replay(
    ask: ReplayAsk, storage: RangeStorage, progress: Progress, *, at_once: int | None = None
) -> Replayed:
    """Run rules and policy over the past. Raises QueryError for steps that cannot be.

    at_once: steps that are worked on together; more take more memory.
    """
    total = _count(ask)
    run = _Replay(ask, storage)
    if at_once is None:
        at_once = int(min(max(1, _SLAB_SECONDS // ask.step_seconds), _MOST_STEPS_AT_ONCE))
    for first in range(0, total, at_once):
        progress(first, total)
        numbers = np.arange(first, min(first + at_once, total))
        run.slab(micro(ask.start + ask.step_seconds * numbers))
    progress(total, total)
    return run.result()


def _count(ask: ReplayAsk) -> int:
    if not ask.step_seconds > 0 or ask.end < ask.start:
        raise QueryError("a replay must not end before it starts, and its step be over 0")
    count = int(round((ask.end - ask.start) / ask.step_seconds, 6)) + 1
    if count > _MOST_STEPS:
        raise QueryError(f"{count} steps, {_MOST_STEPS} are allowed: take a longer --step")
    return count


class _Replay:
    """A replay under way."""

    def __init__(self, ask: ReplayAsk, storage: RangeStorage) -> None:
        self._ask = ask
        self._order = order_of(ask.groups)
        self._history = ReplayHistory(storage, self._order)
        self._answers = AnswersReader()
        self._rules = [ReplayedRule(it, dense=_may_act(it, ask.policy)) for it in self._order.rules]
        self._ladders = {it: LadderState(it) for it in ladder_pools(ask.policy)}
        self._current: dict[int, States] = {}
        self._dues: dict[tuple[str, float], Due] = {}
        self._turns: dict[tuple[str, float], BoolArray] = {}
        self._found = Replayed()
        self._stretch_steps = 0
        self._last_at: UnixSeconds | None = None
        self._unseen = {it.place for it in self._order.rules if it.selectors}

    def slab(self, steps: FloatArray) -> None:
        """Go on over the next steps."""
        self._history.open(float(steps[0]), float(steps[-1]))
        answers = self._answers.read(self._history.up(), steps)
        self._found.steps += len(steps)
        self._found.unwatched += int(np.count_nonzero(~answers.watched))
        if not answers.watched[0]:
            self._stretch_steps = 0
        for run in _runs(answers):
            if self._stretch_steps == 0 or run.start > 0:
                self._restart(float(steps[run.start]))
            self._watch(answers.part(run))
            if run.stop < len(steps):
                self._stretch_steps = 0

    def result(self) -> Replayed:
        """Return what came of it."""
        found = self._found
        found.told.sort(key=lambda it: it.transition.at)
        found.firing = tuple(
            state
            for rule in self._rules
            for state in rule.states.values()
            if state.phase is AlertPhase.FIRING
        )
        unseen = (self._order.rules[place] for place in sorted(self._unseen))
        found.unseen = tuple(dict.fromkeys(it.compiled.rule.name for it in unseen))
        return found

    def _restart(self, now: UnixSeconds) -> None:
        self._dues.clear()
        self._stretch_steps = 0
        if self._last_at is not None:
            for rule in self._rules:
                rule.restart(self._last_at, now)

    def _watch(self, answers: Answers) -> None:
        """Run all rules over steps without a gap, then the policy."""
        missing = Missing(self._history, answers)
        self._turns.clear()
        changed: dict[int, dict[int, States]] = {}
        for rule in self._rules:
            if rule.rule.place not in self._order.stepwise:
                stretch = self._due(rule.rule, answers.steps)
                self._take(rule, rule.run(self._history, missing, stretch), changed)
        if self._order.stepwise:
            self._step_by_step(answers, missing, changed)
        self._look(answers.steps)
        self._decide(answers, changed)
        self._stretch_steps += len(answers.steps)
        self._last_at = float(answers.steps[-1])

    def _due(self, rule: ReplayRule, steps: FloatArray) -> Stretch:
        """Return the steps at which a rule's group is due."""
        key = (rule.group, rule.each_seconds)
        if key not in self._turns:
            due = self._dues.setdefault(key, Due(rule.each_seconds))
            self._turns[key] = np.array([due.is_now(now) for now in steps.tolist()])
        turns = self._turns[key]
        places = np.flatnonzero(turns)
        apart = np.diff(places)
        if len(apart) and (apart == apart[0]).all():
            every = float(apart[0]) * self._ask.step_seconds
            return Stretch(steps[places], places, every)
        return Stretch(steps, np.arange(len(steps)), self._ask.step_seconds, turns)

    def _step_by_step(
        self, answers: Answers, missing: Missing, changed: dict[int, dict[int, States]]
    ) -> None:
        rules = [it for it in self._rules if it.rule.place in self._order.stepwise]
        due = {it.rule.place: self._due(it.rule, answers.steps) for it in rules}
        wanted = {place: set(it.due_places.tolist()) for place, it in due.items()}
        for step in range(len(answers.steps)):
            at = slice(step, step + 1)
            for rule in rules:
                place = rule.rule.place
                if step in wanted[place]:
                    one = Stretch(answers.steps[at], np.array([step]), self._ask.step_seconds)
                    self._take(rule, rule.run(self._history, missing, one), changed)
                    if self._order.reads_alerts and rule.is_alert:
                        rule.write_alerts(self._history, float(answers.steps[step]))

    def _take(self, rule: ReplayedRule, ran: Ran, changed: dict[int, dict[int, States]]) -> None:
        place, its = rule.rule.place, rule.rule.compiled.rule
        if isinstance(its, AlertRule):
            self._found.told += [Told(its, it) for it in ran.transitions]
        if rule.dense:
            for step, states in ran.at_steps:
                changed.setdefault(step, {})[place] = states
        if ran.failed:
            known = self._found.failures.setdefault(
                place, RuleFailure(rule.rule.group, its.name, 0, ran.error)
            )
            known.steps += ran.failed

    def _look(self, steps: FloatArray) -> None:
        """Strike the rules that see something off those that never do."""
        start, end = float(steps[0]), float(steps[-1])
        for place in list(self._unseen):
            selectors = self._order.rules[place].selectors
            if any(len(self._history.columns(it.matchers, start, end).labels) for it in selectors):
                self._unseen.discard(place)

    def _decide(self, answers: Answers, changed: Mapping[int, Mapping[int, States]]) -> None:
        alerts = _flat(self._current)
        for step, now in enumerate(answers.steps.tolist()):
            if step in changed:
                self._current |= changed[step]
                alerts = _flat(self._current)
            for ladder in self._ladders.values():
                if alerts or ladder.level or ladder.refused is not None:
                    is_blind = blind(answers, step, ladder.since, BLIND_AFTER_SECONDS)
                    self._decide_on(ladder, alerts, now, is_blind=is_blind)

    def _decide_on(
        self, ladder: LadderState, alerts: Sequence[AlertState], now: float, *, is_blind: bool
    ) -> None:
        decision = decide(
            ladder,
            self._ask.policy,
            alerts,
            holds=(),
            in_flight=False,
            unconfirmed=is_blind or any(not it.confirmed for it in alerts),
            now=now,
        )
        self._ladders[ladder.pool] = decision.state
        if decision.refusal is not None:
            self._found.refusals.append(decision.refusal)
        if decision.plan is not None:
            self._act(decision.plan)

    def _act(self, plan: ActionPlan) -> None:
        self._found.plans.append(plan)
        if not plan.dry_run:
            level = int(plan.parameters["level"])
            action = plan.id if level else None
            ladder = self._ladders[plan.pool]
            self._ladders[plan.pool] = replace(
                ladder, level=level, since=plan.planned_at, action=action
            )


def _runs(answers: Answers) -> Iterator[slice]:
    """Yield the steps that follow each other without a gap."""
    edges = np.flatnonzero(np.diff(answers.watched.astype(np.int8), prepend=0, append=0))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield slice(start, stop)


def _flat(current: Mapping[int, States]) -> Sequence[AlertState]:
    return [
        state
        for place in sorted(current)
        for state in current[place].values()
        if state.phase is AlertPhase.FIRING
    ]


def _may_act(rule: ReplayRule, policy: PolicyFile) -> bool:
    """Return whether the policy may speak of a rule's alerts: these are followed step by step."""
    name = rule.compiled.rule.name
    return isinstance(rule.compiled.rule, AlertRule) and any(
        it.level is not None and may_match(it, {"alertname": name}) for it in policy.bindings
    )
