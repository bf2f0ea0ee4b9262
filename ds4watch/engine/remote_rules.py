"""Which rules a remote server evaluates, in its words, and when each group is to be asked again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ds4watch.alerting.compiled import CompiledRule
from ds4watch.alerting.inlined import Recordings
from ds4watch.alerting.remote import (
    Elsewhere,
    RemoteRule,
    in_servers_words,
    is_own,
    recordings_of,
)
from ds4watch.model.alert import RecordingRule, RuleGroup
from ds4watch.model.errors import ConfigError, Located, QueryError
from ds4watch.model.ports import UnixSeconds

_SLACK_SECONDS = 0.5
"""Rounds begin with ticks, a little late or early."""


class RemoteQuestion(NamedTuple):
    """A rule that is evaluated elsewhere, and where it stands."""

    file: str
    group: str
    rule: str
    remote: RemoteRule


@dataclass(slots=True)
class _Asked:
    """A group's rules that are evaluated elsewhere, by the id of what they are compiled to."""

    group: RuleGroup
    rules: tuple[tuple[CompiledRule, RemoteRule], ...]
    due_at: UnixSeconds = 0.0


class RemoteRules:
    """Rules that are evaluated elsewhere; none, if there is no elsewhere."""

    def __init__(
        self,
        groups: Sequence[RuleGroup],
        compiled: Sequence[Sequence[CompiledRule]],
        elsewhere: Elsewhere | None,
    ) -> None:
        """Raise ConfigError with one finding for each rule that cannot be asked."""
        self._groups: list[_Asked] = []
        self._rules: Mapping[int, RemoteRule] = {}
        self._skipped: frozenset[int] = frozenset()
        if elsewhere is None:
            return
        findings: list[Located] = []
        recordings = recordings_of(groups, elsewhere)
        for group, rules in zip(groups, compiled, strict=True):
            wanted = [it for it in rules if not is_own(it.expr)]
            if not elsewhere.inline:
                skipped = [it for it in wanted if isinstance(it.rule, RecordingRule)]
                wanted = [it for it in wanted if not isinstance(it.rule, RecordingRule)]
                self._skipped |= {id(it) for it in skipped}
            found = _translated(group, wanted, recordings, elsewhere, findings)
            self._groups.append(_Asked(group, found))
        if findings:
            raise ConfigError(*findings)
        self._rules = {id(it): remote for group in self._groups for it, remote in group.rules}

    def of(self, rule: CompiledRule) -> RemoteRule | None:
        """Return what to ask for a rule; None if it is evaluated here."""
        return self._rules.get(id(rule))

    def is_skipped(self, rule: CompiledRule) -> bool:
        """Return whether the server evaluates a recording rule for itself."""
        return id(rule) in self._skipped

    def all(self) -> tuple[RemoteQuestion, ...]:
        """Return every rule that is evaluated elsewhere."""
        return tuple(
            RemoteQuestion(asked.group.file, asked.group.name, rule.rule.name, remote)
            for asked in self._groups
            for rule, remote in asked.rules
        )

    def questions(self, with_alerts: Collection[str], now: UnixSeconds) -> tuple[str, ...]:
        """Return the questions of the groups that are due. with_alerts: ids of such rules."""
        asked: dict[str, None] = {}
        for group in self._groups:
            interval = group.group.interval_seconds
            if now < group.due_at - _SLACK_SECONDS <= now + interval:
                continue
            group.due_at = now + interval
            for rule, remote in group.rules:
                has_alerts = rule.texts is not None and rule.texts.rule_id in with_alerts
                asked |= dict.fromkeys(remote.questions(has_alerts=has_alerts))
        return tuple(asked)


def _translated(
    group: RuleGroup,
    rules: Sequence[CompiledRule],
    recordings: Recordings,
    elsewhere: Elsewhere,
    findings: list[Located],
) -> tuple[tuple[CompiledRule, RemoteRule], ...]:
    found = []
    for rule in rules:
        try:
            found.append((rule, in_servers_words(rule, recordings, elsewhere.only)))
        except QueryError as error:
            mend = "or load the recording rules on the server, and set source.recorded to server"
            field = f"{group.name}: {rule.rule.name}"
            findings.append(Located(str(error), group.file, field=field, mend=mend))
    return tuple(found)
