"""A range query gives at each of its steps what an instant query gives there."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds4watch.model.errors import QueryError
from ds4watch.model.series import STALE_NAN, Labels
from ds4watch.promql.ast import Expr, ValueType
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.parse import parse
from ds4watch.promql.range_steps import MAX_STEPS
from tests.unit.promql.expressions import expression
from tests.unit.promql.memory import MemoryStorage, named

START, STEPS, STEP = 1000.0, 9, 40.0
END = START + (STEPS - 1) * STEP


def fleet(seed: int) -> MemoryStorage:
    """Counters that reset, gauges, gaps, markers, histograms: some at shared instants."""
    chance = random.Random(seed)
    storage = MemoryStorage()
    shared = [START - 700 + 15 * n for n in range(int((END - START + 700) / 15))]
    for host in "abc":
        times = [t for t in shared if chance.random() > 0.1]
        for job in "xy":
            if chance.random() < 0.2:
                continue
            own = times if chance.random() < 0.6 else [t + chance.random() * 9 for t in times]
            for name in ("requests_total", "hits_total"):
                storage.add(named(name, host=host, job=job), counter(chance, own))
            storage.add(named("queue", host=host, job=job), gauge(chance, own))
            if chance.random() < 0.6:
                storage.add(named("queue", host=host, job=job, extra="1"), gauge(chance, own))
            bounds = ["0.1", "1", "10", "+Inf"]
            for place, le in enumerate(bounds):
                points = [(t, float(n * (place + 1))) for n, t in enumerate(own)]
                storage.add(named("seconds_bucket", host=host, job=job, le=le), points)
    return storage


def counter(chance: random.Random, times: list[float]) -> list[tuple[float, float]]:
    value, points = float(chance.randint(0, 50)), []
    for at in times:
        value = value + chance.randint(0, 20) if chance.random() > 0.05 else chance.random()
        points.append((at, STALE_NAN if chance.random() < 0.03 else value))
    return points


def gauge(chance: random.Random, times: list[float]) -> list[tuple[float, float]]:
    pool = [0.0, 1.0, 2.5, -3.0, math.nan, math.inf, STALE_NAN]
    weights = [6, 6, 6, 6, 1, 0.3, 0.5]
    return [(at, chance.choices(pool, weights)[0]) for at in times]


@settings(max_examples=150, deadline=None)
@example(896118)
@given(seed=st.integers(0, 2**32))
def test_a_range_is_its_instants(seed: int) -> None:
    text = expression(random.Random(seed))
    expr, storage = parse(text), fleet(seed % 7)
    # To an instant query, its own instant is both start and end.
    alone = parse(text.replace("@ start()", f"@ {START}").replace("@ end()", f"@ {END}"))
    try:
        expected = [instant(alone, storage, START + n * STEP) for n in range(STEPS)]
    except QueryError:
        with pytest.raises(QueryError):
            evaluate_range(expr, storage, START, END, STEP)
        return
    got = evaluate_range(expr, storage, START, END, STEP)
    for step, wanted in enumerate(expected):
        there = got.there[:, step]
        found = dict(zip(got.labels.where(there), got.values[there, step].tolist(), strict=True))
        assert found.keys() == wanted.keys(), (text, step)
        assert list(found.values()) == pytest.approx(
            [wanted[labels] for labels in found], rel=1e-9, abs=1e-9, nan_ok=True
        ), (text, step)


def instant(expr: Expr, storage: MemoryStorage, at: float) -> dict[Labels, float]:
    result = evaluate(expr, storage, at)
    if result.kind is ValueType.SCALAR:
        return {(): result.scalar}
    return dict(zip(result.vector.labels, result.vector.values.tolist(), strict=True))


def one_counter() -> MemoryStorage:
    storage = MemoryStorage()
    storage.add(named("m", n="1"), [(15.0 * n, float(n)) for n in range(100)])
    return storage


def test_edges_of_the_query_are_known() -> None:
    for text, wanted in {
        "start()": [60, 60, 60],
        "end()": [90, 90, 90],
        "step()": [15, 15, 15],
        "range()": [30, 30, 30],
        "time()": [60, 75, 90],
        "m @ start()": [4, 4, 4],
        "m @ end() offset 15s": [5, 5, 5],
        "m @ 30": [2, 2, 2],
        "sum_over_time(m[30s:10s])": [9, 11, 15],
    }.items():
        got = evaluate_range(parse(text), one_counter(), 60, 90, 15)
        assert got.values.tolist() == [wanted], text


def test_result_is_sorted_by_labels_and_absence_is_marked() -> None:
    storage = MemoryStorage()
    storage.add(named("m", n="2"), [(10.0, 1.0)])
    storage.add(named("m", n="1"), [(400.0, 2.0)])
    got = evaluate_range(parse("m"), storage, 0, 400, 200)
    assert [dict(labels)["n"] for labels in got.labels] == ["1", "2"]
    assert got.there.tolist() == [[False, False, True], [False, True, False]]
    assert np.isnan(got.values[~got.there]).all()
    assert got.steps.tolist() == [0, 200, 400]


@pytest.mark.parametrize(
    ("text", "window", "told"),
    [
        ("m", (0, 100, 0), "step"),
        ("m", (100, 0, 10), "before it starts"),
        ("m", (0, MAX_STEPS + 1, 1), "11001 steps, 11000 are allowed"),
        ("m[5m]", (0, 100, 10), "needs a scalar or an instant vector, not a matrix"),
        ('"text"', (0, 100, 10), "not a string"),
        ("max_over_time(m[1d:1s])", (0, 100, 10), "a subquery of over 11000 steps"),
        ("max_over_time(m[3h:1s])", (0, 1e7, 1e5), "a subquery of over 1000000 steps in all"),
        ("topk(0/0, m)", (0, 100, 10), "NaN"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    text: str, window: tuple[float, float, float], told: str
) -> None:
    with pytest.raises(QueryError, match=told):
        evaluate_range(parse(text), one_counter(), *window)


def test_too_many_points_are_refused() -> None:
    with pytest.raises(QueryError, match="1 series at 11 steps are 11 points, 10 are allowed"):
        evaluate_range(parse("m"), one_counter(), 0, 100, 10, max_points=10)


def test_series_whose_names_are_dropped_become_one_where_they_never_meet() -> None:
    storage = MemoryStorage()
    storage.add(named("m1", n="1"), [(0.0, 1.0), (10.0, STALE_NAN)])
    storage.add(named("m2", n="1"), [(20.0, 2.0)])
    got = evaluate_range(parse('-{__name__=~"m.", n="1"}'), storage, 0, 20, 10)
    assert got.there.tolist() == [[True, False, True]]
    storage.add(named("m1", n="1"), [(20.0, 1.0)])
    with pytest.raises(QueryError, match="same labelset"):
        evaluate_range(parse('-{__name__=~"m.", n="1"}'), storage, 0, 20, 10)
