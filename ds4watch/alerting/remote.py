"""What a remote server is asked for a rule, and what its answers say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ds4watch.alerting.compiled import CompiledRule
from ds4watch.alerting.evaluation import Evaluation
from ds4watch.alerting.inlined import Recorded, Recordings, inlined
from ds4watch.model.alert import RecordingRule, RuleGroup
from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL
from ds4watch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Expr,
    InstantSelector,
    Matching,
    Number,
    RangeSelector,
    Selector,
)
from ds4watch.promql.doubt import Doubt, shared_by
from ds4watch.promql.parse import parse
from ds4watch.promql.render import render
from ds4watch.promql.rewrite import narrowed
from ds4watch.promql.selection import selectors_of
from ds4watch.promql.storage import Matcher, MatchOp, Storage
from ds4watch.promql.vectors import EMPTY, Vector

MAX_QUERY_CHARS: Final = 16_384
HELD_SECONDS: Final = 3600.0
"""For so long a target that is down is remembered by the series it had."""
LOCAL_LOOKBACK_SECONDS: Final = 300.0
OWN_PREFIXES: Final = ("ds4_rule_", "ds4_source_", "ds4_store_")
OWN_NAMES: Final = ("ALERTS", "ALERTS_FOR_STATE")
_TARGET: Final = ("instance", "job")
"""Labels that the server gives its targets, and we ours."""
_SET: Final = Matching(Cardinality.MANY_TO_MANY)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gave: a vector, or why there is none.

    partial: the server says that something may be missing, or has not looked everywhere.
    """

    vector: Vector = EMPTY
    error: str | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What one round of questions gave, all evaluated `at` one instant.

    error: what all or many questions failed of, if the server is away.
    stale: the server's newest samples are too old.
    """

    at: UnixSeconds
    by_text: Mapping[str, Answer]
    error: str | None = None
    stale: bool = False


class Missing(NamedTuple):
    """A question for the series that a selector had of targets that are down now."""

    selector: Selector
    text: str
    here: tuple[Matcher, ...]
    """Matchers for the same series in our own memory."""


@dataclass(frozen=True, slots=True)
class RemoteRule:
    """A rule in a server's words.

    text, exit_text: its expression, and that of `ds4_exit`. present: gives something if anything
    that the expression selects has a sample. missing: of each selector. These two are asked only
    for a rule that has alerts, which could end.
    """

    expr: Expr
    text: str
    exit_text: str | None
    present: str | None
    missing: tuple[Missing, ...]

    def questions(self, *, has_alerts: bool) -> tuple[str, ...]:
        """Return what to ask in this round."""
        asked = [self.text, *([self.exit_text] if self.exit_text else [])]
        if has_alerts:
            asked += [self.present] if self.present else []
            asked += [it.text for it in self.missing]
        return tuple(asked)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """How rules are put to a server.

    only: matchers for every selector. inline: recorded series are replaced by their expressions.
    """

    only: tuple[Matcher, ...] = ()
    inline: bool = True
    interval_seconds: float = 15.0


def is_own(expr: Expr) -> bool:
    """Return whether an expression reads nothing but how ds4watch itself does.

    Such rules are evaluated here: they have to work when the server does not.
    """
    names = [_name_of(selector) for selector in selectors_of(expr)]
    return all(name and (name in OWN_NAMES or name.startswith(OWN_PREFIXES)) for name in names)


def read_matchers(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of `{…}`; none of an empty text. Raises QueryError."""
    if not text:
        return ()
    expr = parse(f"up{text}") if text.startswith("{") else None
    if not isinstance(expr, InstantSelector) or any(
        it.name == NAME_LABEL for it in expr.matchers[1:]
    ):
        raise QueryError("must be matchers of labels in braces, no more")
    return expr.matchers[1:]


def age_question(only: tuple[Matcher, ...]) -> str:
    """Return a question for how old the newest sample is that says how a target is."""
    up = InstantSelector((Matcher(NAME_LABEL, MatchOp.EQUAL, "up"), *only))
    newest = Aggregate("max", Call("timestamp", (up,)))
    return render(Binary("-", Call("time", ()), newest))


def recordings_of(groups: Sequence[RuleGroup], elsewhere: Elsewhere) -> Recordings:
    """Return the recording rules by the series they make, unless the server has them."""
    found: dict[str, tuple[Recorded, ...]] = {}
    for group in groups if elsewhere.inline else ():
        interval = max(group.interval_seconds, elsewhere.interval_seconds)
        for rule in group.rules:
            if isinstance(rule, RecordingRule):
                recorded = Recorded(parse(rule.expression), rule.labels, interval)
                found[rule.name] = (*found.get(rule.name, ()), recorded)
    return found


def in_servers_words(
    rule: CompiledRule, recordings: Recordings, only: tuple[Matcher, ...]
) -> RemoteRule:
    """Return what to ask for a rule. Raises QueryError if it cannot be asked."""
    expr, text = _translated(rule.expr, rule.rule.expression, recordings, only)
    leaving = None
    if rule.exit_expr is not None:
        leaving = _translated(rule.exit_expr, render(rule.exit_expr), recordings, only)[1]
    selectors = tuple(dict.fromkeys(selectors_of(expr)))
    return RemoteRule(
        expr=expr,
        text=text,
        exit_text=leaving,
        present=_present(selectors) if selectors else None,
        missing=tuple(_missing(it, only) for it in selectors),
    )


def remote_evaluation(rule: RemoteRule, answers: Answers, local: Storage) -> Evaluation | None:
    """Return what the answers say of a rule; None if it was not asked about.

    local: what is known here of targets that cannot be scraped.
    """
    answer = answers.by_text.get(rule.text)
    if answer is None or answer.error is not None:
        return None if answer is None else Evaluation(error=answer.error)
    if answers.stale:
        return Evaluation(incomplete=True, no_data=True)
    extra = [answers.by_text[it] for it in rule.questions(has_alerts=True) if it in answers.by_text]
    if answer.partial or any(it.partial or it.error for it in extra):
        return Evaluation(answer.vector, incomplete=True)
    doubts = (*_remote_doubts(rule, answers), *_local_doubts(rule, local, answers.at))
    present = answers.by_text.get(rule.present or "")
    return Evaluation(
        answer.vector,
        incomplete=bool(doubts),
        no_data=present is not None and not len(present.vector),
        doubts=doubts,
    )


def exit_evaluation(rule: RemoteRule, answers: Answers) -> Evaluation | None:
    """Return what the answers say of a rule's `ds4_exit`, if it has one."""
    if rule.exit_text is None:
        return None
    answer = answers.by_text.get(rule.exit_text, Answer(error="was not asked"))
    return Evaluation(answer.vector, answer.error, incomplete=answer.partial)


def _translated(
    expr: Expr, text: str, recordings: Recordings, only: tuple[Matcher, ...]
) -> tuple[Expr, str]:
    found = narrowed(inlined(expr, recordings), only)
    text = text if found == expr else render(found)
    if len(text) > MAX_QUERY_CHARS:
        raise QueryError(
            f"is {len(text)} characters long with recorded series put in, over {MAX_QUERY_CHARS}"
        )
    return found, text


def _present(selectors: Sequence[Selector]) -> str:
    counts = [render(Aggregate("count", _newest(it))) for it in selectors]
    return " or ".join(counts)


def _newest(selector: Selector) -> Expr:
    is_range = isinstance(selector, RangeSelector)
    return Call("last_over_time", (selector,)) if is_range else selector


def _missing(selector: Selector, only: tuple[Matcher, ...]) -> Missing:
    now = InstantSelector(selector.matchers)
    before = Call("last_over_time", (RangeSelector(selector.matchers, HELD_SECONDS),))
    gone = Binary("unless", before, now, _SET)
    up = InstantSelector((Matcher(NAME_LABEL, MatchOp.EQUAL, "up"), *only))
    is_down = Binary("==", up, Number(0.0))
    on_target = Matching(Cardinality.MANY_TO_MANY, on=True, labels=_TARGET)
    here = tuple(it for it in selector.matchers if it not in only)
    return Missing(selector, render(Binary("and", gone, is_down, on_target)), here)


def _remote_doubts(rule: RemoteRule, answers: Answers) -> tuple[Doubt, ...]:
    shared = shared_by(rule.expr)
    found = [(it.selector, answers.by_text.get(it.text)) for it in rule.missing]
    return tuple(
        Doubt(answer.vector.labels, each)
        for selector, answer in found
        if answer is not None and len(answer.vector)
        for each in shared[selector]
    )


def _local_doubts(rule: RemoteRule, local: Storage, at: UnixSeconds) -> tuple[Doubt, ...]:
    """Return doubts over series that come by way of our own page."""
    shared = shared_by(rule.expr)
    found = [
        (it.selector, local.latest(it.here, at - LOCAL_LOOKBACK_SECONDS, at)) for it in rule.missing
    ]
    return tuple(
        Doubt(latest.missing, each.but(_TARGET))
        for selector, latest in found
        if latest.failed
        for each in shared[selector]
    )


def _name_of(selector: Selector) -> str | None:
    equal = [
        it.value for it in selector.matchers if it.name == NAME_LABEL and it.op is MatchOp.EQUAL
    ]
    return equal[0] if len(equal) == 1 else None
