"""The storage of unit tests gives what the plain one of our own tests gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.series import STALE_NAN
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.memory import MemorySeries
from ds4watch.promql.parse import parse
from tests.unit.promql.memory import MemoryStorage, named

QUERIES = [
    "a",
    "sum(a)",
    "rate(a[1m])",
    "increase(a[90s])",
    "delta(a[1m])",
    "count_over_time(a[2m])",
    "last_over_time(a[1m])",
    "a offset 30s",
    "absent(a)",
]
values = st.lists(st.sampled_from([0.0, 1.0, 5.0, 2.5, STALE_NAN, None]), min_size=1, max_size=20)


@given(st.dictionaries(st.sampled_from("xyz"), values, min_size=1), st.integers(0, 260))
def test_expressions_give_the_same_as_on_the_plain_storage(
    series: dict[str, list[float | None]], at: int
) -> None:
    quick, simple = MemorySeries(), MemoryStorage()
    for name, given_values in series.items():
        points = [(15.0 * n, value) for n, value in enumerate(given_values) if value is not None]
        for storage in (quick, simple):
            storage.add(named("a", n=name), points)
    for query in QUERIES:
        expr = parse(query)
        left, right = evaluate(expr, quick, at).vector, evaluate(expr, simple, at).vector
        assert sorted(zip(left.labels, map(repr, left.values), strict=True)) == sorted(
            zip(right.labels, map(repr, right.values), strict=True)
        ), query


def test_nothing_past_the_horizon_is_seen() -> None:
    series = MemorySeries()
    series.add(named("a"), [(10.0, 1.0), (20.0, 2.0)])
    expr = parse("a offset -10s")
    series.horizon = 10.0
    assert evaluate(expr, series, 10.0).vector.values.tolist() == [1.0]
    series.horizon = 20.0
    assert evaluate(expr, series, 10.0).vector.values.tolist() == [2.0]


def test_what_a_producer_no_longer_writes_has_ended() -> None:
    series = MemorySeries()
    series.write("r", LabelColumn((named("a", n="1"), named("a", n="2"))), np.ones(2), 10.0)
    series.write("r", LabelColumn((named("a", n="2"),)), np.array([3.0]), 20.0)
    found = evaluate(parse("a"), series, 20.0).vector
    assert [*found.labels] == [named("a", n="2")]
    assert found.values.tolist() == [3.0]
