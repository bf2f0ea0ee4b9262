"""Expressions that read recorded series → expressions that need none.

For a server that does not have our recording rules. A recorded series is its expression, with the
rule's labels; matchers on it are kept by a label that is made, compared, and taken away again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final, NamedTuple

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.ast import (
    Binary,
    Call,
    Cardinality,
    Expr,
    InstantSelector,
    Matching,
    Number,
    Selector,
    Subquery,
    Text,
    ValueType,
    When,
    value_type,
)
from ds4watch.promql.rewrite import replace_selectors
from ds4watch.promql.selection import predicate_of
from ds4watch.promql.storage import Matcher, MatchOp

_KEPT: Final = "ds4_kept"
_WHOLE: Final = Matching(Cardinality.MANY_TO_MANY)
_MOST_NODES: Final = 64
"""Recorded series put in, one within the other or side by side, in one expression."""


class Recorded(NamedTuple):
    """A recording rule. `interval_seconds`: how far apart its samples would be."""

    expr: Expr
    labels: Labels
    interval_seconds: float


Recordings = Mapping[str, tuple[Recorded, ...]]
"""Recording rules by the name of the series they make; several may make one."""


def inlined(expr: Expr, recordings: Recordings) -> Expr:
    """Return `expr` with recorded series replaced by what they are recorded from.

    Raises QueryError where that cannot be done.
    """
    return _Inliner(recordings).inline(expr, ())


class _Inliner:
    """One expression; counts what is put in."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._count = 0

    def inline(self, expr: Expr, within: tuple[str, ...]) -> Expr:
        return replace_selectors(expr, lambda selector: self._selector(selector, within))

    def _selector(self, selector: Selector, within: tuple[str, ...]) -> Expr:
        name = self._name_of(selector)
        if name is None:
            return selector
        if name in within:
            raise QueryError(f"{name} is recorded from itself, which no expression can say")
        self._count += 1
        if self._count > _MOST_NODES:
            raise QueryError(f"reads over {_MOST_NODES} recorded series, one through the other")
        recorded = self._recordings[name]
        parts = [_labelled(self.inline(it.expr, (*within, name)), it.labels) for it in recorded]
        whole = reduce(lambda left, right: Binary("or", left, right, _WHOLE), parts)
        others = [it for it in selector.matchers if it.name != NAME_LABEL]
        return _when(_matching(whole, others), selector, recorded[0].interval_seconds)

    def _name_of(self, selector: Selector) -> str | None:
        """Return the recorded series that is selected, if one is."""
        of_name = [it for it in selector.matchers if it.name == NAME_LABEL]
        if len(of_name) == 1 and of_name[0].op is MatchOp.EQUAL:
            return of_name[0].value if of_name[0].value in self._recordings else None
        for name in self._recordings:
            if of_name and all(predicate_of(it)(name) for it in of_name):
                raise QueryError(f"selects the recorded series {name} by a pattern: name it")
        return None


def _labelled(expr: Expr, labels: Labels) -> Expr:
    if value_type(expr) is ValueType.SCALAR:
        expr = Call("vector", (expr,))
    for name, value in labels:
        expr = _label_set(expr, name, value)
    return expr


def _label_set(expr: Expr, name: str, value: str) -> Expr:
    return _label_replace(expr, name, value.replace("$", "$$"), "", "")


def _label_replace(expr: Expr, name: str, value: str, source: str, regex: str) -> Expr:
    return Call("label_replace", (expr, *map(Text, (name, value, source, regex))))


def _matching(expr: Expr, matchers: Iterable[Matcher]) -> Expr:
    """Return the elements of `expr` that satisfy all matchers."""
    on_kept = Matching(Cardinality.MANY_TO_MANY, on=True, labels=(_KEPT,))
    mark = _label_set(Call("vector", (Number(1.0),)), _KEPT, "1")
    for matcher in matchers:
        is_regex = matcher.op in (MatchOp.REGEX, MatchOp.NOT_REGEX)
        regex = matcher.value if is_regex else re.escape(matcher.value)
        is_wanted = matcher.op in (MatchOp.EQUAL, MatchOp.REGEX)
        marked = _label_replace(expr, _KEPT, "1", matcher.name, regex)
        kept = Binary("and" if is_wanted else "unless", marked, mark, on_kept)
        expr = _label_set(kept, _KEPT, "")
    return expr


def _when(expr: Expr, selector: Selector, step_seconds: float) -> Expr:
    """Return `expr` at the instants at which the selector looks."""
    if not isinstance(selector, InstantSelector):
        return Subquery(expr, selector.range_seconds, step_seconds, selector.when)
    if selector.when == When():
        return expr
    one_step = Subquery(expr, step_seconds, step_seconds, selector.when)
    return Call("last_over_time", (one_step,))
