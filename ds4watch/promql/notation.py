"""Series as Prometheus's own tests write them: `name{a="b"}` and `1 2+3x4 _ stale`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ds4watch.model.errors import QueryError
from ds4watch.model.series import STALE_NAN, Labels, labels_of
from ds4watch.promql.ast import InstantSelector, When
from ds4watch.promql.parse import parse
from ds4watch.promql.storage import MatchOp

MAX_VALUES: Final = 1_000_000
_NUMBER = r"[+-]?(?:nan|inf|0x[0-9a-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
_REPEATED = re.compile(rf"({_NUMBER})(?:([+-])({_NUMBER}))?x(\d+)", re.IGNORECASE)
_GAP = re.compile(r"_(?:x(\d+))?")


def labels_from(text: str) -> Labels:
    """Return the labels, `__name__` among them, of a series. Raises QueryError."""
    if text.strip() in ("", "{}"):
        return ()
    expr = parse(text)
    is_series = isinstance(expr, InstantSelector) and expr.when == When()
    if not is_series or any(it.op is not MatchOp.EQUAL for it in expr.matchers):  # type: ignore[union-attr]
        raise QueryError(f'not a series such as name{{label="value"}}: {text!r}')
    return labels_of({it.name: it.value for it in expr.matchers})  # type: ignore[union-attr]


def is_histogram(text: str) -> bool:
    """Return whether values are native histograms, which nothing here can evaluate."""
    return "{{" in text


def values_of(text: str) -> list[float | None]:
    """Return the values, one a step; None is no sample. Raises QueryError for what is none.

    `a+bxn` is a, a+b, …, a+b*n: n + 1 values; `axn` is a, n + 1 times; `_xn` is n gaps.
    """
    values: list[float | None] = []
    for word in text.split():
        values += _values(word)
        if len(values) > MAX_VALUES:
            raise QueryError(f"over {MAX_VALUES} values")
    return values


def _values(word: str) -> Iterator[float | None]:
    gap, repeated = _GAP.fullmatch(word), _REPEATED.fullmatch(word)
    if gap:
        yield from [None] * _bounded(gap[1] or "1")
    elif word == "stale":
        yield STALE_NAN
    elif repeated:
        yield from _series(*repeated.groups())
    else:
        yield _number(word)


def _series(first: str, sign: str | None, step: str | None, count: str) -> Iterator[float]:
    value = _number(first)
    change = _number(step) * (-1 if sign == "-" else 1) if step else 0.0
    for _ in range(_bounded(count) + 1):
        yield value
        value += change


def _bounded(count: str) -> int:
    if int(count) > MAX_VALUES:
        raise QueryError(f"over {MAX_VALUES} values")
    return int(count)


def _number(word: str) -> float:
    try:
        return float(int(word, 16)) if "0x" in word.lower() else float(word)
    except ValueError as error:
        message = f"not a value: {word!r} (1, 1+2x3, 1x3, _, _x3 and stale are)"
        raise QueryError(message) from error
