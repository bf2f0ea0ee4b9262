"""Label matchers applied to label sets, with RE2 for the regexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import re2

from ds4watch.model.errors import QueryError
from ds4watch.promql.storage import Matcher, MatchOp

Predicate = Callable[[Mapping[str, str]], bool]


def predicate(matchers: Sequence[Matcher]) -> Predicate:
    """Return a test for label sets; an absent label equals "". Raises QueryError on a bad regex."""
    tests = [_test(matcher) for matcher in matchers]

    def matches(labels: Mapping[str, str]) -> bool:
        return all(test(labels) for test in tests)

    return matches


def _test(matcher: Matcher) -> Predicate:
    name, value = matcher.name, matcher.value
    match matcher.op:
        case MatchOp.EQUAL:
            return lambda labels: labels.get(name, "") == value
        case MatchOp.NOT_EQUAL:
            return lambda labels: labels.get(name, "") != value
        case MatchOp.REGEX:
            anchored = _compiled(value)
            return lambda labels: anchored(labels.get(name, ""))
        case MatchOp.NOT_REGEX:
            anchored = _compiled(value)
            return lambda labels: not anchored(labels.get(name, ""))


def _compiled(pattern: str) -> Callable[[str], bool]:
    options = re2.Options()
    options.log_errors = False
    try:
        # As Prometheus: anchored at both ends, and a dot matches a newline.
        compiled = re2.compile(f"(?s:{pattern})", options)
    except re2.error as error:
        message = f"bad regex {pattern!r}: {error}"
        raise QueryError(message) from error
    return lambda text: compiled.fullmatch(text) is not None
