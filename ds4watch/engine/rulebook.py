"""All rules, evaluated in file order against one storage at one instant."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ds4watch.alerting.compiled import (
    CompiledRule,
    compile_group,
    evaluate_exit,
    evaluate_rule,
    seconds_read,
)
from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.machine import step
from ds4watch.alerting.series import AlertSeries, recorded
from ds4watch.alerting.texts import RuleTexts
from ds4watch.engine.round_storage import RoundStorage, RuleStorage, Written
from ds4watch.engine.rule_pages import page_name
from ds4watch.model.alert import (
    AlertPhase,
    AlertRule,
    AlertState,
    RecordingRule,
    RuleGroup,
    Transition,
)
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels, Sample, labels_of
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


@dataclass(slots=True)
class _Group:
    """A group and when it is due."""

    name: str
    interval_seconds: float
    rules: tuple[_Loaded, ...]
    due_at: UnixSeconds = 0.0


@dataclass(slots=True)
class _Turn:
    """A round under way."""

    live: RoundStorage
    now: UnixSeconds
    by_rule: Mapping[str, Mapping[str, AlertState]]
    removed: Collection[Labels]
    after: dict[str, Mapping[str, AlertState]] = field(default_factory=dict)
    alerts: list[AlertState] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)


class RuleBook:
    """The loaded rules. A rule that cannot be evaluated changes nothing but its own failure."""

    def __init__(self, groups: Sequence[RuleGroup]) -> None:
        pages = Counter[str]()
        self._groups = [
            _Group(group.name, group.interval_seconds, _loaded(group, pages)) for group in groups
        ]
        self._errors: dict[tuple[str, int], str] = {}
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

    def evaluate(
        self,
        live: RuleStorage,
        alerts: Sequence[AlertState],
        now: UnixSeconds,
        *,
        removed: Collection[Labels] = (),
    ) -> Round:
        """Evaluate what is due and step its alerts; the others stay as they are.

        removed: labels of targets that were removed on purpose.
        """
        turn = _Turn(RoundStorage(live), now, self._by_rule(alerts), removed)
        self._end_orphans(turn)
        for group in self._groups:
            if now >= group.due_at or group.due_at - now > group.interval_seconds:
                group.due_at = now + group.interval_seconds
                self._evaluate_group(turn, group)
            else:
                self._keep_group(turn, group)
        self._after, self._alerts = turn.after, tuple(turn.alerts)
        written = tuple(turn.live.written)
        return Round(self._alerts, tuple(turn.transitions), self._failures(), written)

    def named(self, name: str) -> tuple[CompiledRule, ...]:
        """Return the rules of a name: the tiers of an alert, or a recording rule."""
        return tuple(rule for rule in self._compiled() if rule.rule.name == name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all rules, each once, in file order."""
        return tuple(dict.fromkeys(rule.rule.name for rule in self._compiled()))

    def errors(self) -> Mapping[str, str]:
        """Return why rules could not be evaluated last time, by name."""
        rules = {group.name: group.rules for group in self._groups}
        errors = self._errors.items()
        return {rules[group][at].compiled.rule.name: error for (group, at), error in errors}

    def _compiled(self) -> Iterator[CompiledRule]:
        return (rule.compiled for group in self._groups for rule in group.rules)

    def _by_rule(self, alerts: Sequence[AlertState]) -> Mapping[str, Mapping[str, AlertState]]:
        # Fingerprints are digests: not to be made anew each second for what came from here.
        return self._after if alerts is self._alerts else _by_rule(alerts)

    def _evaluate_group(self, turn: _Turn, group: _Group) -> None:
        for number, loaded in enumerate(group.rules):
            rule = loaded.compiled.rule
            evaluation = evaluate_rule(loaded.compiled, turn.live, turn.now)
            if isinstance(rule, RecordingRule):
                error = self._record(turn, loaded.page, rule, evaluation)
            else:
                error = _step(turn, loaded.compiled, rule, evaluation)
                series = loaded.series.of(turn.after[loaded.rule_id].values())
                self._write(turn, loaded.page, series)
            self._note((group.name, number), rule.name, error)

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

    def _keep_group(self, turn: _Turn, group: _Group) -> None:
        for rule in group.rules:
            if rule.rule_id:
                _keep(turn, rule.rule_id, turn.by_rule.get(rule.rule_id, {}))

    def _end_orphans(self, turn: _Turn) -> None:
        """End alerts of rules that are no longer there."""
        for rule_id, states in turn.by_rule.items():
            if rule_id in self._known:
                continue
            for state in states.values():
                if state.phase is AlertPhase.FIRING:
                    ended = replace(state, phase=AlertPhase.RESOLVED, resolved_at=turn.now)
                    turn.transitions.append(_orphaned(state, ended, turn.now))

    def _note(self, place: tuple[str, int], rule: str, error: str | None) -> None:
        before = self._errors.get(place)
        if error is None:
            if self._errors.pop(place, None) is not None:
                log.warning("rule %s can be evaluated again", rule)
            return
        if before is None:
            log.error("rule %s cannot be evaluated, its alerts stay as they are: %s", rule, error)
        self._errors[place] = error

    def _failures(self) -> tuple[Sample, ...]:
        failed = {
            (group.name, group.rules[number].compiled.rule.name)
            for group in self._groups
            for place, number in self._errors
            if place == group.name
        }
        return tuple(
            Sample(FAILED, labels_of({"group": group, "rule": rule}), 1.0)
            for group, rule in sorted(failed)
        )


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


def _step(
    turn: _Turn, compiled: CompiledRule, rule: AlertRule, evaluation: Evaluation
) -> str | None:
    texts = compiled.texts or RuleTexts(rule)
    states = turn.by_rule.get(texts.rule_id, {})
    fires = any(state.phase is AlertPhase.FIRING for state in states.values())
    result = step(
        rule,
        states,
        evaluation,
        turn.now,
        exit_evaluation=evaluate_exit(compiled, turn.live, turn.now) if fires else None,
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
