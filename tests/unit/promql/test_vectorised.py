"""What is computed for all series at once is what a series alone would give."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.model.series import STALE_NAN, is_stale
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.numbers import row_sums
from ds4watch.promql.parse import parse
from tests.unit.promql.memory import MemoryStorage, named
from tests.unit.promql.reference import AGGREGATIONS, OVER_TIME

END = 1000.0
VALUES = st.one_of(
    st.integers(-5, 100).map(float),
    st.floats(-1e6, 1e6).map(lambda value: round(value, 3)),
    st.sampled_from([math.nan, math.inf, -math.inf, STALE_NAN]),
)
COUNTERS = st.one_of(st.integers(0, 9).map(float), st.just(STALE_NAN))
TIMES = st.lists(st.integers(850, 1000).map(float), unique=True, max_size=12).map(sorted)


def series(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[float, float]]]:
    return TIMES.flatmap(
        lambda times: st.lists(values, min_size=len(times), max_size=len(times)).map(
            lambda chosen: list(zip(times, chosen, strict=True))
        )
    )


FLEETS = st.lists(st.one_of(series(VALUES), series(COUNTERS)), min_size=1, max_size=5)


def close(got: float, wanted: float) -> bool:
    if math.isnan(got) or math.isnan(wanted):
        return math.isnan(got) and math.isnan(wanted)
    return got == wanted or math.isclose(got, wanted, rel_tol=1e-6, abs_tol=1e-3)


def stale(value: float) -> bool:
    return bool(is_stale(np.array([value]))[0])


@pytest.mark.parametrize("query", OVER_TIME)
@settings(max_examples=20, deadline=None)
@given(fleet=FLEETS, window=st.sampled_from([1, 20, 100]))
def test_functions_over_time(
    query: str, fleet: list[list[tuple[float, float]]], window: int
) -> None:
    storage = MemoryStorage()
    expected: dict[str, float] = {}
    for number, points in enumerate(fleet):
        storage.add(named("m", n=str(number)), points)
        inside = [(t, v) for t, v in points if END - window < t <= END and not stale(v)]
        value = OVER_TIME[query](inside, END - window, END) if inside else None
        if value is not None:
            expected[str(number)] = value
    got = evaluate(parse(query.format(w=f"{window}s")), storage, END)
    found = {dict(sample.labels)["n"]: sample.value for sample in got.samples}
    assert found.keys() == expected.keys()
    assert all(close(found[n], expected[n]) for n in found), (found, expected)


@settings(max_examples=25, deadline=None)
@given(fleet=FLEETS)
def test_a_subquery_of_samples_at_its_steps_is_the_range_itself(
    fleet: list[list[tuple[float, float]]],
) -> None:
    storage = MemoryStorage()
    for number, points in enumerate(fleet):
        storage.add(named("m", n=str(number)), [(t, v) for t, v in points if not stale(v)])
    for function in ("count", "sum", "max", "last"):
        direct = evaluate(parse(f"{function}_over_time(m[100s])"), storage, END)
        # Only steps with a sample of their own count, as a range has it.
        steps = evaluate(
            parse(f"{function}_over_time((m and (timestamp(m) == time()))[100s:1s])"), storage, END
        )
        assert {s.labels: s.value for s in steps.samples} == pytest.approx(
            {s.labels: s.value for s in direct.samples}, nan_ok=True
        )


@pytest.mark.parametrize("op", AGGREGATIONS)
@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), VALUES), max_size=12))
def test_aggregations(op: str, elements: list[tuple[str, float]]) -> None:
    storage = MemoryStorage()
    groups: dict[str, list[float]] = defaultdict(list)
    for number, (group, value) in enumerate(elements):
        if not stale(value):
            storage.add(named("m", n=str(number), group=group), [(END, value)])
            groups[group].append(value)
    by = evaluate(parse(f"{op} by (group) (m)"), storage, END)
    without = evaluate(parse(f"{op} without (n) (m)"), storage, END)
    found = {dict(sample.labels)["group"]: sample.value for sample in by.samples}
    assert list(found) == list(groups)
    assert all(close(found[group], AGGREGATIONS[op](groups[group])) for group in found)
    assert str(without.samples) == str(by.samples)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_rows_are_summed_without_loss(numbers: list[float]) -> None:
    assert row_sums(np.array([numbers, numbers])).tolist() == pytest.approx(
        [math.fsum(numbers)] * 2, rel=1e-15, abs=0
    )


def test_rows_that_cancel_out_are_summed_exactly() -> None:
    rows = np.array([[1.0, 1e100, 1.0, -1e100], [0.1] * 4])
    assert row_sums(rows).tolist() == [2.0, math.fsum([0.1] * 4)]
