"""A tree as PromQL again, for people to read."""

from __future__ import annotations

import json
from typing import Final

from ds4watch.model.series import NAME_LABEL
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
)
from ds4watch.promql.numbers import plain
from ds4watch.promql.storage import Matcher, MatchOp

_PRECEDENCE: Final = (
    ("or",),
    ("and", "unless"),
    ("==", "!=", "<=", "<", ">=", ">"),
    ("+", "-"),
    ("*", "/", "%", "atan2"),
    ("^",),
)
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def render(expr: Expr) -> str:
    """Return `expr` as text that parses to the same tree."""
    if isinstance(expr, Number):
        return plain(expr.value)
    if isinstance(expr, Text):
        return json.dumps(expr.value, ensure_ascii=False)
    if isinstance(expr, InstantSelector):
        return _selector(expr.matchers) + _when(expr.when)
    if isinstance(expr, RangeSelector):
        return f"{_selector(expr.matchers)}[{_duration(expr.range_seconds)}]{_when(expr.when)}"
    if isinstance(expr, Subquery):
        step = _duration(expr.step_seconds) if expr.step_seconds is not None else ""
        window = f"[{_duration(expr.range_seconds)}:{step}]"
        return _operand(expr.expr, 99) + window + _when(expr.when)
    if isinstance(expr, Call):
        return f"{expr.function}({', '.join(map(render, expr.args))})"
    return _compound(expr)


def _compound(expr: Aggregate | Binary | Negate) -> str:
    if isinstance(expr, Negate):
        return f"-{_operand(expr.expr, 5)}"
    if isinstance(expr, Aggregate):
        return _aggregate(expr)
    level = _level(expr.op)
    # Only `^` binds to the right.
    left, right = (level + 1, level) if expr.op == "^" else (level, level + 1)
    words = [
        _operand(expr.lhs, left),
        expr.op,
        *(["bool"] if expr.return_bool else []),
        *_matching(expr.matching),
        _operand(expr.rhs, right),
    ]
    return " ".join(words)


def _aggregate(expr: Aggregate) -> str:
    args = [render(it) for it in (expr.param, expr.expr) if it is not None]
    grouping = f" {_words('without' if expr.without else 'by', expr.labels)}"
    shown = grouping if expr.labels or expr.without else ""
    return f"{expr.op}{shown}{' ' if shown else ''}({', '.join(args)})"


def _matching(matching: Matching) -> list[str]:
    words = []
    if matching.on or matching.labels:
        words.append(_words("on" if matching.on else "ignoring", matching.labels))
    if matching.cardinality is Cardinality.MANY_TO_ONE:
        words.append(_words("group_left", matching.include))
    if matching.cardinality is Cardinality.ONE_TO_MANY:
        words.append(_words("group_right", matching.include))
    return words


def _words(word: str, labels: tuple[str, ...]) -> str:
    return f"{word} ({', '.join(labels)})"


def _level(op: str) -> int:
    return next(level for level, ops in enumerate(_PRECEDENCE) if op in ops)


def _operand(expr: Expr, at_least: int) -> str:
    text = render(expr)
    if isinstance(expr, Binary) and _level(expr.op) < at_least:
        return f"({text})"
    return f"({text})" if isinstance(expr, Negate) and at_least > 4 else text


def _selector(matchers: tuple[Matcher, ...]) -> str:
    name, rest = "", matchers
    if matchers and matchers[0].name == NAME_LABEL and matchers[0].op is MatchOp.EQUAL:
        name, rest = matchers[0].value, matchers[1:]
    inside = ", ".join(f"{it.name}{it.op}{json.dumps(it.value, ensure_ascii=False)}" for it in rest)
    return f"{name}{{{inside}}}" if inside or not name else name


def _when(when: When) -> str:
    parts = []
    if isinstance(when.at, AtEdge):
        parts.append(f" @ {when.at}()")
    elif when.at is not None:
        parts.append(f" @ {plain(when.at)}")
    if when.offset_seconds:
        sign = "-" if when.offset_seconds < 0 else ""
        parts.append(f" offset {sign}{_duration(abs(when.offset_seconds))}")
    return "".join(parts)


def _duration(seconds: float) -> str:
    """Return whole units as Prometheus writes them; below a second, milliseconds."""
    rest = round(seconds * 1000)
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size * 1000)
        parts += [f"{count}{unit}"] if count else []
    parts += [f"{rest}ms"] if rest else []
    return "".join(parts) or "0s"
