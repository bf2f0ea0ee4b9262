"""Columns give an instant query what series in memory give it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.model.errors import QueryError
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.instants import InstantStorage
from ds4watch.promql.parse import parse
from ds4watch.promql.storage import Matcher, SeriesMatrix
from tests.unit.promql.expressions import expression
from tests.unit.promql.memory import MemoryStorage, named
from tests.unit.promql.test_evaluate_range import END, START, fleet, instant


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_an_instant_query_gives_the_same_over_columns(seed: int) -> None:
    expr, storage = parse(expression(random.Random(seed))), fleet(seed % 7)
    at = START + seed % 300
    try:
        wanted = instant(expr, storage, at)
    except QueryError:
        with pytest.raises(QueryError):
            evaluate(expr, InstantStorage(storage, at), at)
        return
    found = instant(expr, InstantStorage(storage, at), at)  # type: ignore[arg-type]
    assert found.keys() == wanted.keys()
    assert list(found.values()) == pytest.approx(
        [wanted[labels] for labels in found], rel=1e-12, nan_ok=True
    )


@pytest.mark.parametrize("query", ["queue[2m]", "queue[3s]", "{job='x'}[1m] offset 1m"])
def test_ranges_are_given_whole(query: str) -> None:
    storage, expr = fleet(3), parse(query)
    wanted = evaluate(expr, storage, END).windows
    found = evaluate(expr, InstantStorage(storage, END), END).windows
    assert wanted is not None
    assert found is not None

    def rows(windows: object) -> dict[object, list[float]]:
        return {
            labels: times[:count].tolist()
            for labels, times, count in zip(
                windows.labels,  # type: ignore[attr-defined]
                windows.times,  # type: ignore[attr-defined]
                windows.counts,  # type: ignore[attr-defined]
                strict=True,
            )
        }

    assert rows(found) == rows(wanted)


class Counted:
    """A storage that counts how often it is asked."""

    def __init__(self) -> None:
        self.reads = 0
        self._storage = MemoryStorage()
        self._storage.add(named("m"), [(15.0 * n, float(n)) for n in range(4000)])

    def columns(self, matchers: Sequence[Matcher], start: float, end: float) -> SeriesMatrix:
        self.reads += 1
        return self._storage.columns(matchers, start, end)


def test_a_subquery_reads_a_few_times_not_at_each_step() -> None:
    counted = Counted()
    storage = InstantStorage(counted, 50_000.0)
    result = evaluate(parse("count_over_time(rate(m[5m])[10h:1m])"), storage, 50_000.0)
    assert result.samples[0].value == 600
    assert counted.reads < 12
