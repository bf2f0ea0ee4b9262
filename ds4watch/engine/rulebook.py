"""All rules, evaluated in file order against one storage at one instant."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ds4watch.alerting.compiled import (
    CompiledRule,
    compile_group,
    evaluate_exit,
    evaluate_rule,
    seconds_read,
)
from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import step
from ds4watch.alerting.remote import Answers, Elsewhere, exit_evaluation, remote_evaluation
from ds4watch.alerting.series import AlertSeries, recorded
from ds4watch.alerting.texts import RuleTexts
from ds4watch.engine.due import Due
from ds4watch.engine.remote_rules import RemoteQuestion, RemoteRules
from ds4watch.engine.round_storage import RoundStorage, RuleStorage, Written
from ds4watch.engine.rule_failures import RuleFailures
from ds4watch.engine.rule_pages import page_name
from ds4watch.model.alert import (
    AlertPhase,
    AlertRule,
    AlertState,
    RecordingRule,
    RuleGroup,
    Tier,
    Transition,
)
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, Sample
from ds4watch.promql.selection import longest_of
from ds4watch.promql.vectors import Vector

log = logging.getLogger(__name__)

FAILED = "ds4_rule_evaluation_failed"


@dataclass(frozen=True, slots=True)
class Round:
    """What one round gave: every alert there is now, and what changed."""

    alerts: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]
    failed: tuple[Sample, ...] = ()
    written: tuple[Written, ...] = ()


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A rule, the page that it writes its series to, and what an alerting rule's are made by."""

    compiled: CompiledRule
    page: str
    series: AlertSeries = field(default_factory=AlertSeries)

    @property
    def rule_id(self) -> str:
        """Of an alerting rule, else empty."""
        return "" if self.compiled.texts is None else self.compiled.texts.rule_id


class _Evaluated(NamedTuple):
    """What a rule's expressions gave at an instant."""

    found: Evaluation
    leaving: Evaluation | None
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """A group, when it was evaluated last, and of each rule why it could not be, if so."""

    group: RuleGroup
    evaluated_at: UnixSeconds | None
    errors: tuple[str | None, ...]


@dataclass(slots=True)
class _Group:
    """A group and when it is due."""

    name: str
    due: Due
    rules: tuple[_Loaded, ...]
    source: RuleGroup


@dataclass(slots=True)
class _Turn:
    """A round under way."""

    live: RoundStorage
    now: UnixSeconds
    by_rule: Mapping[str, Mapping[str, AlertState]]
    removed: Collection[Labels]
    answers: Answers | None = None
    after: dict[str, Mapping[str, AlertState]] = field(default_factory=dict)
    alerts: list[AlertState] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)


class RuleBook:
    """The loaded rules. A rule that cannot be evaluated changes nothing but its own failure.

    Where rules are evaluated elsewhere, `questions` says what to ask in a round, and `evaluate`
    takes the answers when they are there; rules about ds4watch itself are evaluated here.
    """

    def __init__(self, groups: Sequence[RuleGroup], elsewhere: Elsewhere | None = None) -> None:
        """Raise ConfigError for a rule that cannot be put to the server."""
        pages = Counter[str]()
        self._groups = [
            _Group(group.name, Due(group.interval_seconds), _loaded(group, pages), group)
            for group in groups
        ]
        compiled = [tuple(rule.compiled for rule in group.rules) for group in self._groups]
        self._remote = RemoteRules(groups, compiled, elsewhere)
        self._failures = RuleFailures()
        self._known = {
            rule.id for group in groups for rule in group.rules if isinstance(rule, AlertRule)
        }
        self._filled: set[str] = set(self.pages)
        self._after: dict[str, Mapping[str, AlertState]] = {}
        self._alerts: tuple[AlertState, ...] = ()

    @property
    def pages(self) -> tuple[str, ...]:
        """The names under which rules write series; the same again for the same rules."""
        return tuple(rule.page for group in self._groups for rule in group.rules)

    def windows_read(self) -> Mapping[str, float]:
        """Return how far back rules read each metric, in seconds; 0 is for its newest sample.

        The live buffer has to keep these, and so long.
        """
        found: list[Mapping[str, float]] = []
        for group in self._groups:
            for rule in group.rules:
                read = seconds_read(rule.compiled)
                if read is None:
                    log.warning(
                        "rule %s selects series by no name: it sees ds4_*, up and what other "
                        "rules read, no more",
                        rule.compiled.rule.name,
                    )
                found.append(read or {})
        return longest_of(found)

    def questions(self, alerts: Sequence[AlertState], now: UnixSeconds) -> tuple[str, ...]:
        """Return what to ask the server in a round that begins now, each question once."""
        active = (AlertPhase.PENDING, AlertPhase.FIRING)
        return self._remote.questions({it.rule_id for it in alerts if it.phase in active}, now)

    def remote_questions(self) -> tuple[RemoteQuestion, ...]:
        """Return every rule that a server evaluates."""
        return self._remote.all()

    def evaluate(
        self,
        live: RuleStorage,
        alerts: Sequence[AlertState],
        now: UnixSeconds,
        *,
        answers: Answers | None = None,
        removed: Collection[Labels] = (),
    ) -> Round:
        """Evaluate what is due and step its alerts; the others stay as they are.

        answers: of a round of questions that has ended, if one has.
        removed: labels of targets that were removed on purpose.
        """
        turn = _Turn(RoundStorage(live), now, self._by_rule(alerts), removed, answers)
        self._end_orphans(turn)
        for group in self._groups:
            self._evaluate_group(turn, group, is_due=group.due.is_now(now))
        self._after, self._alerts = turn.after, tuple(turn.alerts)
        written = tuple(turn.live.written)
        return Round(self._alerts, tuple(turn.transitions), self._failures.samples(), written)

    def named(self, name: str) -> tuple[CompiledRule, ...]:
        """Return the rules of a name: the tiers of an alert, or a recording rule."""
        return tuple(rule for rule in self._compiled() if rule.rule.name == name)

    def all(self) -> tuple[CompiledRule, ...]:
        """Return all rules in file order."""
        return tuple(self._compiled())

    def standing(self) -> tuple[GroupStanding, ...]:
        """Return all groups in file order, with what became of their rules last time."""
        return tuple(
            GroupStanding(
                group.source,
                group.due.taken_at,
                tuple(self._failures.of((group.name, it)) for it in range(len(group.rules))),
            )
            for group in self._groups
        )

    def names(self) -> tuple[str, ...]:
        """Return the names of all rules, each once, in file order."""
        return tuple(dict.fromkeys(rule.rule.name for rule in self._compiled()))

    def tiers(self) -> tuple[tuple[str, Tier], ...]:
        """Return name and tier of each alerting rule, each pair once, in file order."""
        rules = (compiled.rule for compiled in self._compiled())
        found = ((rule.name, rule.tier) for rule in rules if isinstance(rule, AlertRule))
        return tuple(dict.fromkeys(found))

    def errors(self) -> Mapping[str, str]:
        """Return why rules could not be evaluated last time, by name."""
        return self._failures.errors()

    def _compiled(self) -> Iterator[CompiledRule]:
        return (rule.compiled for group in self._groups for rule in group.rules)

    def _by_rule(self, alerts: Sequence[AlertState]) -> Mapping[str, Mapping[str, AlertState]]:
        # Fingerprints are digests: not to be made anew each second for what came from here.
        return self._after if alerts is self._alerts else _by_rule(alerts)

    def _evaluate_group(self, turn: _Turn, group: _Group, *, is_due: bool) -> None:
        for number, loaded in enumerate(group.rules):
            compiled = loaded.compiled
            evaluated = self._evaluated(turn, compiled, is_due=is_due)
            if evaluated is None:
                _leave(turn, compiled)
                continue
            if isinstance(compiled.rule, RecordingRule):
                error = self._record(turn, loaded.page, compiled.rule, evaluated.found)
            else:
                error = _step(turn, compiled, compiled.rule, evaluated)
                series = loaded.series.of(turn.after[loaded.rule_id].values())
                self._write(turn, loaded.page, series)
            told = turn.answers.error if turn.answers is not None else None
            place = (group.name, number)
            self._failures.note(place, compiled.rule.name, error, told=error == told)

    def _evaluated(self, turn: _Turn, compiled: CompiledRule, *, is_due: bool) -> _Evaluated | None:
        """Evaluate a rule, or take what the server said of it; None if it is not its turn."""
        if self._remote.is_skipped(compiled):
            return None
        remote = self._remote.of(compiled)
        if remote is None:
            return _evaluated_here(turn, compiled) if is_due else None
        if turn.answers is None:
            return None
        found = remote_evaluation(remote, turn.answers, turn.live)
        if found is None:
            return None
        return _Evaluated(found, exit_evaluation(remote, turn.answers), turn.answers.at)

    def _record(
        self, turn: _Turn, page: str, rule: RecordingRule, evaluation: Evaluation
    ) -> str | None:
        if evaluation.error is not None:
            return evaluation.error
        try:
            series = recorded(rule, evaluation.vector)
        except QueryError as error:
            return str(error)
        self._write(turn, page, series, incomplete=evaluation.incomplete)
        return None

    def _write(self, turn: _Turn, page: str, series: Vector, *, incomplete: bool = False) -> None:
        """Write what there is; if there is nothing, once, so that what there was ends."""
        if not len(series) and page not in self._filled:
            return
        (self._filled.add if len(series) or incomplete else self._filled.discard)(page)
        turn.live.write(page, series.labels, series.values, turn.now, incomplete=incomplete)

    def _end_orphans(self, turn: _Turn) -> None:
        """End alerts of rules that are no longer there."""
        for rule_id, states in turn.by_rule.items():
            if rule_id in self._known:
                continue
            for state in states.values():
                if state.phase is AlertPhase.FIRING:
                    ended = replace(state, phase=AlertPhase.RESOLVED, resolved_at=turn.now)
                    turn.transitions.append(_orphaned(state, ended, turn.now))


def _loaded(group: RuleGroup, pages: Counter[str]) -> tuple[_Loaded, ...]:
    """Compile a group's rules, and name their pages: by name and labels, wherever they stand.

    pages: how often each name was given before.
    """
    loaded: list[_Loaded] = []
    for compiled in compile_group(group):
        page = page_name(compiled.rule)
        pages[page] += 1
        again = f"/{pages[page]}" if pages[page] > 1 else ""
        loaded.append(_Loaded(compiled, page + again))
    return tuple(loaded)


def _evaluated_here(turn: _Turn, compiled: CompiledRule) -> _Evaluated:
    leaving = evaluate_exit(compiled, turn.live, turn.now) if _fires(turn, compiled) else None
    return _Evaluated(evaluate_rule(compiled, turn.live, turn.now), leaving, turn.now)


def _fires(turn: _Turn, compiled: CompiledRule) -> bool:
    if compiled.exit_expr is None or compiled.texts is None:
        return False
    states = turn.by_rule.get(compiled.texts.rule_id, {})
    return any(state.phase is AlertPhase.FIRING for state in states.values())


def _leave(turn: _Turn, compiled: CompiledRule) -> None:
    if compiled.texts is not None:
        _keep(turn, compiled.texts.rule_id, turn.by_rule.get(compiled.texts.rule_id, {}))


def _step(
    turn: _Turn, compiled: CompiledRule, rule: AlertRule, evaluated: _Evaluated
) -> str | None:
    texts = compiled.texts or RuleTexts(rule)
    states = turn.by_rule.get(texts.rule_id, {})
    result = step(
        rule,
        states,
        evaluated.found,
        evaluated.at,
        exit_evaluation=evaluated.leaving,
        removed=turn.removed,
        texts=texts,
    )
    _keep(turn, texts.rule_id, result.states)
    turn.transitions.extend(result.transitions)
    return result.error


def _keep(turn: _Turn, rule_id: str, states: Mapping[str, AlertState]) -> None:
    turn.after[rule_id] = states
    turn.alerts.extend(states.values())


def _by_rule(alerts: Iterable[AlertState]) -> dict[str, dict[str, AlertState]]:
    found: dict[str, dict[str, AlertState]] = {}
    for alert in alerts:
        found.setdefault(alert.rule_id, {})[alert.fingerprint] = alert
    return found


def _orphaned(old: AlertState, new: AlertState, now: UnixSeconds) -> Transition:
    return Transition(
        fingerprint=new.fingerprint,
        labels=new.labels,
        old=old.phase,
        new=new.phase,
        at=now,
        value=new.value,
        reason="its rule was removed",
        annotations=new.annotations,
    )
