"""What is asked over HTTP, answered from series in memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ds4watch.engine.query_answers import answer_to
from ds4watch.model.errors import BadQueryError, QueryError
from ds4watch.model.question import Asked, Question
from ds4watch.model.series import Labels
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.selection import matches
from ds4watch.promql.storage import Block, Matcher, SeriesMatrix
from tests.unit.promql.memory import named

TIMES = np.arange(0.0, 3000.0, 15.0)
SERIES = (named("a", worker="w1"), named("a", worker="w2"), named("b", worker="w1", kind="x"))


class History:
    """Series that count from 0 each 15 s; `copies` of each."""

    def __init__(self, copies: int = 1) -> None:
        self.labels = [
            tuple(sorted((*labels, *((("copy", str(n)),) if n else ()))))
            for labels in SERIES
            for n in range(copies)
        ]

    def columns(self, matchers: Sequence[Matcher], start: float, end: float) -> SeriesMatrix:
        del start, end
        found = tuple(labels for labels in self.labels if matches(matchers, labels))
        values = np.tile(TIMES / 15, (len(found), 1))
        block = Block(np.arange(len(found)), TIMES, values)
        return SeriesMatrix(LabelColumn(found), (block,))

    def series(self, matchers: Sequence[Matcher], start: float, end: float) -> set[Labels]:
        del start, end
        return {labels for labels in self.labels if matches(matchers, labels)}


def told(asked: Asked, history: History | None = None, **fields: Any) -> dict[str, Any]:
    question = Question(asked, **{"start": 1500.0, "end": 1500.0} | fields)
    found: dict[str, Any] = json.loads(answer_to(question, history or History()))
    return found


def instant(query: str, **fields: Any) -> Any:
    data = told(Asked.INSTANT, query=query, **fields)["data"]
    return data["resultType"], data["result"]


def test_an_instant_query_gives_any_type() -> None:
    assert instant("1 + 1") == ("scalar", [1500, "2"])
    assert instant("'x'") == ("string", [1500, "x"])
    metric = {"__name__": "a", "worker": "w2"}
    assert instant('a{worker="w2"}') == ("vector", [{"metric": metric, "value": [1500, "100"]}])
    kind, ranges = instant('a{worker="w2"}[31s]')
    values = [[1470, "98"], [1485, "99"], [1500, "100"]]
    assert (kind, ranges) == ("matrix", [{"metric": metric, "values": values}])


def test_lookback_is_the_askers() -> None:
    assert len(instant("a", end=3100.0)[1]) == 2
    assert instant("a", end=3100.0, lookback_seconds=60.0)[1] == []
    none = told(Asked.RANGE, query="a", end=3100.0, step_seconds=1600.0, lookback_seconds=5.0)
    assert [len(one["values"]) for one in none["data"]["result"]] == [1, 1]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("max_over_time(a[10m:1m])", ["100", "100"]),
        ("sort_desc(max_over_time(a[10m:1m]) + on (worker) group_left () a)", ["200", "200"]),
        ("topk(1, max_over_time(a[10m:1m]))", ["100"]),
        ("scalar(max_over_time(b[10m:1m]))", "100"),
        ("max_over_time(a[10m:1m]) + end()", ["1600", "1600"]),
    ],
)
def test_subqueries_give_the_same_whichever_way_they_are_evaluated(query: str, wanted: Any) -> None:
    kind, result = instant(query)
    found = result[1] if kind == "scalar" else [one["value"][1] for one in result]
    assert found == wanted


def test_series_labels_and_values_are_listed_in_order() -> None:
    everything = told(Asked.SERIES, selectors=("a", "b"))["data"]
    assert everything == [dict(labels) for labels in sorted(SERIES)]
    assert told(Asked.LABEL_NAMES)["data"] == ["__name__", "kind", "worker"]
    assert told(Asked.LABEL_NAMES, selectors=("a",))["data"] == ["__name__", "worker"]
    values = told(Asked.LABEL_VALUES, label="worker", selectors=("{kind='x'}", "none"))
    assert values == {"status": "success", "data": ["w1"]}
    assert told(Asked.LABEL_VALUES, label="other")["data"] == []


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        (Asked.INSTANT, {"query": "a"}),
        (Asked.INSTANT, {"query": "a[1m]"}),
        (Asked.RANGE, {"query": "a", "step_seconds": 15.0}),
        (Asked.SERIES, {"selectors": ("a",)}),
        (Asked.LABEL_NAMES, {}),
        (Asked.LABEL_VALUES, {"label": "worker"}),
    ],
)
def test_a_limit_cuts_and_says_so(asked: Asked, fields: dict[str, Any]) -> None:
    def count(answer: dict[str, Any]) -> int:
        data = answer["data"]
        return len(data["result"] if isinstance(data, dict) else data)

    cut = told(asked, limit=1, **fields)
    assert cut["warnings"] == ["results truncated due to limit"]
    assert count(cut) == 1
    whole = told(asked, limit=3, **fields)
    assert "warnings" not in whole
    assert count(whole) >= 2


@pytest.mark.parametrize(
    ("asked", "fields", "message"),
    [
        (Asked.INSTANT, {"query": "a("}, "unclosed"),
        (Asked.RANGE, {"query": "a[5m]", "step_seconds": 1.0}, '"range vector" for range query'),
        (Asked.RANGE, {"query": "'x'", "step_seconds": 1.0}, '"string" for range query'),
        (Asked.SERIES, {"selectors": ("a", "b + 1")}, "expected a selector of series"),
        (Asked.LABEL_NAMES, {"selectors": ("{}",)}, "non-empty matcher"),
    ],
)
def test_what_is_no_question_is_refused(asked: Asked, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadQueryError, match=message):
        told(asked, **fields)


def test_an_answer_may_not_be_too_large() -> None:
    history = History(copies=100)
    with pytest.raises(QueryError, match="samples, 2000000 are allowed") as error:
        told(
            Asked.RANGE, history, query='{__name__=~"a|b"}', start=0.0, end=2900.0, step_seconds=0.4
        )
    assert not isinstance(error.value, BadQueryError)


def test_an_answer_is_compressed_where_that_is_asked_for() -> None:
    question = Question(Asked.INSTANT, 1500.0, 1500.0, query="a", compressed=True)
    plain = told(Asked.INSTANT, query="a")
    assert json.loads(gzip.decompress(answer_to(question, History()))) == plain
