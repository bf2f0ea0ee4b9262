"""Which series an expression looks at, and whether labels match."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import re2

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.ast import (
    Expr,
    InstantSelector,
    RangeSelector,
    Selector,
    Subquery,
    children_of,
    walk,
)
from ds4watch.promql.storage import Matcher, MatchOp

_LITERALS = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*(\|[A-Za-z_:][A-Za-z0-9_:]*)*")


def selectors_of(expr: Expr) -> tuple[Selector, ...]:
    """Return every selector in `expr`."""
    found = (node for node in walk(expr) if isinstance(node, InstantSelector | RangeSelector))
    return tuple(found)


def windows_read(expr: Expr) -> Mapping[str, float] | None:
    """Return how far back `expr` reads each metric, in seconds; None if these are not bounded.

    0 is for the newest sample, infinity for what `@` a fixed instant reads.
    """
    read = list(_read(expr, 0.0))
    bounded = [one for one in read if one is not None]
    return longest_of(bounded) if len(bounded) == len(read) else None


def _read(expr: Expr, back_seconds: float) -> Iterator[Mapping[str, float] | None]:
    if isinstance(expr, InstantSelector | RangeSelector | Subquery):
        back_seconds = _looks_back(expr, back_seconds)
    if isinstance(expr, InstantSelector | RangeSelector):
        names = _names_of(expr.matchers)
        yield None if names is None else dict.fromkeys(names, max(0.0, back_seconds))
    for child in children_of(expr):
        yield from _read(child, back_seconds)


def _looks_back(node: InstantSelector | RangeSelector | Subquery, back_seconds: float) -> float:
    window = 0.0 if isinstance(node, InstantSelector) else node.range_seconds
    if isinstance(node.when.at, float):
        return math.inf
    base = back_seconds if node.when.at is None else 0.0
    return base + node.when.offset_seconds + window


def longest_of(read: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the longest of several looks back, metric by metric."""
    found: dict[str, float] = {}
    for one in read:
        for name, seconds in one.items():
            found[name] = max(seconds, found.get(name, 0.0))
    return found


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
