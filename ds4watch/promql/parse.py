"""Text to our own tree. The only module that knows promql_parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import promql_parser

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL
from ds4watch.promql import lexical
from ds4watch.promql.aggregate import AGGREGATIONS
from ds4watch.promql.ast import (
    Aggregate,
    AtEdge,
    Binary,
    Call,
    Cardinality,
    Expr,
    InstantSelector,
    Matching,
    Negate,
    Number,
    RangeSelector,
    Subquery,
    Text,
    When,
    children_of,
    walk,
)
from ds4watch.promql.binary import OPERATORS
from ds4watch.promql.functions import FUNCTIONS
from ds4watch.promql.selection import compile_regex, predicate_of, selectors_of
from ds4watch.promql.storage import Matcher, MatchOp

MAX_DEPTH: Final = 100
_MAX_AT: Final = 1e11
_QUOTED = re.compile(r"'([^']+)'|with name '([^']+)'")

_MATCH_OPS: Mapping[str, MatchOp] = {
    "Equal": MatchOp.EQUAL,
    "NotEqual": MatchOp.NOT_EQUAL,
    "Re": MatchOp.REGEX,
    "NotRe": MatchOp.NOT_REGEX,
}
_CARDINALITIES: Mapping[str, Cardinality] = {
    "OneToOne": Cardinality.ONE_TO_ONE,
    "ManyToOne": Cardinality.MANY_TO_ONE,
    "OneToMany": Cardinality.ONE_TO_MANY,
    "ManyToMany": Cardinality.MANY_TO_MANY,
}


def parse(text: str) -> Expr:
    """Return the tree of a PromQL expression.

    Raises QueryError, with a position where one can be told, for what is malformed and, by name,
    for what is not supported: a rule that loads can be evaluated.
    """
    lexical.check(text)
    try:
        expr = _convert(promql_parser.parse(lexical.requote(text)))
        _check(expr)
    except _Unsupported as error:
        at = lexical.find_word(text, error.word)
        raise QueryError(f"{error.what} is not supported", position=at) from None
    except ValueError as error:
        raise QueryError(str(error), position=_position(text, str(error))) from error
    except RecursionError as error:
        raise QueryError("the expression is nested too deeply") from error
    return expr


class _Unsupported(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, what: str, word: str) -> None:
        super().__init__(what)
        self.what = what
        self.word = word


def _check(expr: Expr) -> None:
    if _depth(expr) > MAX_DEPTH:
        raise RecursionError
    for selector in selectors_of(expr):
        for matcher in selector.matchers:
            predicate_of(matcher)
    for node in walk(expr):
        if isinstance(node, Call) and node.function == "label_replace":
            pattern = node.args[4]
            if isinstance(pattern, Text):
                compile_regex(pattern.value)


def _depth(expr: Expr) -> int:
    return 1 + max((_depth(child) for child in children_of(expr)), default=0)


def _position(text: str, message: str) -> int | None:
    """Guess from the parser's message, which has no position, where the trouble is."""
    unclosed = lexical.find_unclosed(text)
    if unclosed is not None:
        return unclosed
    for match in _QUOTED.finditer(message):
        at = lexical.find_word(text, match[1] or match[2])
        if at is not None:
            return at
    return None


def _convert(node: Any) -> Expr:
    convert = _CONVERTERS.get(type(node).__name__)
    if convert is None:
        name = type(node).__name__
        raise _Unsupported(name, name)
    return convert(node)


def _number(node: Any) -> Expr:
    return Number(node.val)


def _text(node: Any) -> Expr:
    return Text(node.val)


def _paren(node: Any) -> Expr:
    return _convert(node.expr)


def _negate(node: Any) -> Expr:
    return Negate(_convert(node.expr))


def _instant(node: Any) -> Expr:
    return InstantSelector(_matchers(node), _when(node))


def _range(node: Any) -> Expr:
    selector = node.vector_selector
    return RangeSelector(_matchers(selector), node.range.total_seconds(), _when(selector))


def _subquery(node: Any) -> Expr:
    step = node.step.total_seconds() if node.step is not None else None
    return Subquery(_convert(node.expr), node.range.total_seconds(), step, _when(node))


def _matchers(node: Any) -> tuple[Matcher, ...]:
    if node.matchers.or_matchers:
        raise _Unsupported("`or` between matchers", "or")
    named = [Matcher(NAME_LABEL, MatchOp.EQUAL, node.name)] if node.name else []
    listed = [
        Matcher(matcher.name, _MATCH_OPS[_member(matcher.op)], matcher.value)
        for matcher in node.matchers.matchers
    ]
    return tuple(named + listed)


def _member(value: Any) -> str:
    """Return the bare name of one of the parser's enum members, which do not hash."""
    return str(value).rsplit(".", 1)[-1]


def _when(node: Any) -> When:
    offset: timedelta = node.offset or timedelta()
    return When(offset.total_seconds(), _at(node.at))


def _at(modifier: Any) -> float | AtEdge | None:
    if modifier is None:
        return None
    written = str(modifier).removeprefix("@ ")
    if written in ("start()", "end()"):
        return AtEdge(written.removesuffix("()"))
    at = float(written)  # `.at` panics on what does not fit a clock; its text does not
    if at > _MAX_AT:
        raise _Unsupported("`@` so far in the future", "@")
    return at


def _call(node: Any) -> Expr:
    name = node.func.name
    if name not in FUNCTIONS:
        raise _Unsupported(f"the function {name}()", name)
    return Call(name, tuple(_convert(arg) for arg in node.args))


def _aggregate(node: Any) -> Expr:
    op = str(node.op).lower()
    if op not in AGGREGATIONS:
        raise _Unsupported(f"the aggregation {op}()", op)
    modifier = node.modifier
    return Aggregate(
        op=op,
        expr=_convert(node.expr),
        param=_convert(node.param) if node.param is not None else None,
        labels=tuple(modifier.labels) if modifier is not None else (),
        without=modifier is not None and _member(modifier.type) == "Without",
    )


def _binary(node: Any) -> Expr:
    op = str(node.op).lower()
    if op not in OPERATORS:
        raise _Unsupported(f"the operator {op}", op)
    modifier = node.modifier
    return Binary(
        op=op,
        lhs=_convert(node.lhs),
        rhs=_convert(node.rhs),
        matching=_matching(modifier) if modifier is not None else Matching(),
        return_bool=modifier is not None and modifier.return_bool,
    )


def _matching(modifier: Any) -> Matching:
    fill = modifier.fill_values
    if fill is not None and (fill.lhs is not None or fill.rhs is not None):
        raise _Unsupported("fill()", "fill")
    matching = modifier.matching
    return Matching(
        cardinality=_CARDINALITIES[_member(modifier.card)],
        on=matching is not None and _member(matching.type) == "Include",
        labels=tuple(matching.labels) if matching is not None else (),
        include=tuple(modifier.group_labels or ()),
    )


_CONVERTERS: Mapping[str, Callable[[Any], Expr]] = {
    "NumberLiteral": _number,
    "StringLiteral": _text,
    "ParenExpr": _paren,
    "UnaryExpr": _negate,
    "VectorSelector": _instant,
    "MatrixSelector": _range,
    "SubqueryExpr": _subquery,
    "Call": _call,
    "AggregateExpr": _aggregate,
    "BinaryExpr": _binary,
}
