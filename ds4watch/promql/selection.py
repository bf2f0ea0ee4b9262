"""Which series an expression looks at, and whether labels match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import re2

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.ast import Expr, InstantSelector, RangeSelector, Selector, walk
from ds4watch.promql.storage import Matcher, MatchOp

_LITERALS = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(\|[A-Za-z_:][A-Za-z0-9_:]*)*")


def selectors_of(expr: Expr) -> tuple[Selector, ...]:
    """Return every selector in `expr`."""
    found = (node for node in walk(expr) if isinstance(node, InstantSelector | RangeSelector))
    return tuple(found)


def selected_names(expr: Expr) -> frozenset[str] | None:
    """Return the metric names that `expr` may read, or None if they are not bounded."""
    names: set[str] = set()
    for selector in selectors_of(expr):
        bounded = _names_of(selector.matchers)
        if bounded is None:
            return None
        names |= bounded
    return frozenset(names)


def matches(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Return whether `labels` (with `__name__`) satisfy all matchers; absent labels are ""."""
    values = dict(labels)
    return all(predicate_of(matcher)(values.get(matcher.name, "")) for matcher in matchers)


@lru_cache(maxsize=4096)
def predicate_of(matcher: Matcher) -> Callable[[str], bool]:
    """Return the test that `matcher` puts to a label's value. Raises QueryError on a bad regex."""
    wanted = matcher.value
    if matcher.op is MatchOp.EQUAL:
        return lambda value: value == wanted
    if matcher.op is MatchOp.NOT_EQUAL:
        return lambda value: value != wanted
    pattern = compile_regex(wanted)
    if matcher.op is MatchOp.REGEX:
        return lambda value: pattern.fullmatch(value) is not None
    return lambda value: pattern.fullmatch(value) is None


@lru_cache(maxsize=4096)
def compile_regex(text: str) -> re.Pattern[str]:
    """Compile an RE2 regex, `.` matching newlines too. Raises QueryError if it is malformed."""
    try:
        pattern: re.Pattern[str] = re2.compile(f"(?s:{text})", _quiet())
    except re2.error as error:
        raise QueryError(f"bad regular expression {text!r}: {_reason(error)}") from error
    return pattern


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _names_of(matchers: Sequence[Matcher]) -> set[str] | None:
    for matcher in matchers:
        if matcher.name != NAME_LABEL:
            continue
        if matcher.op is MatchOp.EQUAL:
            return {matcher.value}
        if matcher.op is MatchOp.REGEX and _LITERALS.fullmatch(matcher.value):
            return set(matcher.value.split("|"))
    return None
