"""What the Prometheus HTTP API answers from the store, made where it is read: in the child."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ds4watch.model.errors import BadQueryError, QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.question import Asked, Question
from ds4watch.model.series import Labels
from ds4watch.promql.ast import (
    Aggregate,
    Call,
    Expr,
    InstantSelector,
    Subquery,
    ValueType,
    value_type,
    walk,
)
from ds4watch.promql.evaluate import LOOKBACK_SECONDS, evaluate
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.instants import InstantStorage
from ds4watch.promql.json_text import dumped, matrix_text, result_text, success
from ds4watch.promql.parse import parse
from ds4watch.promql.result import Matrix, QueryResult
from ds4watch.promql.storage import Matcher, RangeStorage
from ds4watch.promql.vectors import Vector

MAX_ANSWER_POINTS = 2_000_000
_CUT = "results truncated due to limit"
_ORDERED = frozenset(
    {"sort", "sort_desc", "sort_by_label", "sort_by_label_desc", "topk", "bottomk", "limitk"}
)
_OF_THE_QUERY = frozenset({"start", "end", "step", "range"})
_TYPE_NAMES = {ValueType.STRING: "string", ValueType.MATRIX: "range vector"}
_GZIP_BITS = 31
_EVERYTHING: tuple[Matcher, ...] = ()


class Stored(RangeStorage, Protocol):
    """The history: samples, and which series there are."""

    def series(
        self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds
    ) -> Iterable[Labels]:
        """Return the labels of each matching series in (start, end]; more may be there."""
        ...


def answer_to(question: Question, stored: Stored) -> bytes:
    """Return the body of the answer. Raises QueryError where Prometheus refuses or fails."""
    text = _ANSWERS[question.asked](question, stored)
    body = text.encode("utf-8", errors="surrogatepass")
    return _gzipped(body) if question.compressed else body


def parsed(query: str) -> Expr:
    """Return an expression. Raises BadQueryError where it is none."""
    try:
        return parse(query)
    except QueryError as error:
        raise BadQueryError(str(error), position=error.position) from error


def _instant(question: Question, stored: Stored) -> str:
    expr, at = parsed(question.query), question.end
    result = _at_once(expr, question, stored)
    if result is None:
        storage = InstantStorage(stored, at)
        result = evaluate(expr, storage, at, lookback_seconds=_lookback(question))
    points = len(result.vector) if result.windows is None else int(result.windows.counts.sum())
    _check_size(points)
    cut, warnings = _limited(result, question.limit)
    return success(result_text(cut, at), warnings)


def _at_once(expr: Expr, question: Question, stored: Stored) -> QueryResult | None:
    """Return what range evaluation gives for one step: subqueries are a table to it, not a loop.

    None for what only an instant query has: an order, ranges, strings.
    """
    nodes = list(walk(expr))
    has_subquery = any(isinstance(node, Subquery) for node in nodes)
    told_apart = any(isinstance(it, Call) and it.function in _OF_THE_QUERY for it in nodes)
    if not has_subquery or told_apart or _is_ordered(expr):
        return None
    if value_type(expr) is not ValueType.VECTOR:
        return None
    at = question.end
    lookback = _lookback(question)
    found = evaluate_range(expr, stored, at, at, 1.0, lookback_seconds=lookback)
    return QueryResult(ValueType.VECTOR, Vector(found.labels, found.values[:, 0]))


def _is_ordered(expr: Expr) -> bool:
    if isinstance(expr, Call):
        return expr.function in _ORDERED
    return isinstance(expr, Aggregate) and expr.op in _ORDERED


def _range(question: Question, stored: Stored) -> str:
    expr = parsed(question.query)
    kind = _TYPE_NAMES.get(value_type(expr))
    if kind is not None:
        message = (
            f'invalid expression type "{kind}" for range query, must be Scalar or instant Vector'
        )
        raise BadQueryError(message)
    matrix = evaluate_range(
        expr,
        stored,
        question.start,
        question.end,
        question.step_seconds,
        lookback_seconds=_lookback(question),
    )
    _check_size(int(np.count_nonzero(matrix.there)))
    most = question.limit or len(matrix.labels)
    rows = np.arange(min(most, len(matrix.labels)))
    cut = Matrix(matrix.labels.take(rows), matrix.steps, matrix.values[rows], matrix.there[rows])
    return success(matrix_text(cut), [_CUT] if len(rows) < len(matrix.labels) else [])


def _series(question: Question, stored: Stored) -> str:
    found = sorted(_found(question, stored))
    return _listed([dict(labels) for labels in found], question.limit)


def _label_names(question: Question, stored: Stored) -> str:
    names = {name for labels in _found(question, stored) for name, _ in labels}
    return _listed(sorted(names), question.limit)


def _label_values(question: Question, stored: Stored) -> str:
    wanted = question.label
    found = _found(question, stored)
    values = {value for labels in found for name, value in labels if name == wanted}
    return _listed(sorted(values), question.limit)


def _found(question: Question, stored: Stored) -> set[Labels]:
    wanted = [_selector(text) for text in question.selectors] or [_EVERYTHING]
    found: set[Labels] = set()
    for matchers in wanted:
        found.update(stored.series(matchers, question.start, question.end))
    return found


def _selector(text: str) -> tuple[Matcher, ...]:
    expr = parsed(text)
    if not isinstance(expr, InstantSelector):
        raise BadQueryError(f"expected a selector of series, got {text!r}")
    return expr.matchers


def _listed(found: Sequence[object], limit: int) -> str:
    cut = found[:limit] if limit else found
    return success(dumped(cut), [_CUT] if len(cut) < len(found) else [])


def _limited(result: QueryResult, limit: int) -> tuple[QueryResult, list[str]]:
    rows = np.arange(limit)
    if limit and len(result.vector) > limit:
        return replace(result, vector=result.vector.take(rows)), [_CUT]
    windows = result.windows
    if limit and windows is not None and len(windows.labels) > limit:
        cut = windows._replace(
            labels=windows.labels.take(rows),
            times=windows.times[rows],
            values=windows.values[rows],
            counts=windows.counts[rows],
        )
        return replace(result, windows=cut), [_CUT]
    return result, []


def _check_size(points: int) -> None:
    if points > MAX_ANSWER_POINTS:
        message = (
            f"the answer has {points} samples, {MAX_ANSWER_POINTS} are allowed: "
            "select fewer series, or take a longer step"
        )
        raise QueryError(message)


def _lookback(question: Question) -> float:
    return question.lookback_seconds or LOOKBACK_SECONDS


def _gzipped(body: bytes) -> bytes:
    packer = zlib.compressobj(level=1, wbits=_GZIP_BITS)
    return packer.compress(body) + packer.flush()


_ANSWERS = {
    Asked.INSTANT: _instant,
    Asked.RANGE: _range,
    Asked.SERIES: _series,
    Asked.LABEL_NAMES: _label_names,
    Asked.LABEL_VALUES: _label_values,
}
