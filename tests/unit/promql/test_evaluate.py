from __future__ import annotations

import math

import pytest

from ds4watch.model.errors import QueryError
from ds4watch.model.series import STALE_NAN, Sample
from ds4watch.promql.ast import ValueType
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.parse import parse
from ds4watch.promql.result import QueryResult
from tests.unit.promql.memory import MemoryStorage, named


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage()
    storage.add(named("up", worker="a"), [(float(at), 1.0) for at in range(0, 101, 10)])
    storage.add(named("up", worker="b"), [(0.0, 1.0), (50.0, STALE_NAN)])
    storage.add(named("c", worker="a"), [(float(at), at * 2.0) for at in range(0, 101, 10)])
    return storage


def ask(storage: MemoryStorage, query: str, at: float = 100.0) -> QueryResult:
    return evaluate(parse(query), storage, at)


def values(result: QueryResult) -> dict[str, float]:
    return {dict(s.labels).get("worker", ""): s.value for s in result.samples}


@pytest.mark.parametrize(
    ("query", "at", "expected"),
    [
        ("up", 49, {"a": 1, "b": 1}),
        ("up", 50, {"a": 1}),
        ("up", 399, {"a": 1}),
        ("up", 400, {}),
        ("count_over_time(up[100s])", 100, {"a": 10}),
        ("count_over_time(up[101s])", 100, {"a": 11, "b": 1}),
        ("c offset 30s", 100, {"a": 140}),
        ("c offset -30s", 50, {"a": 160}),
        ("c @ 20", 100, {"a": 40}),
        ("c @ start()", 60, {"a": 120}),
        ("sum_over_time(c[20s:10s] @ end())", 60, {"a": 220}),
        ("increase(c[50s])", 100, {"a": 100}),
        ("rate(c[50s])", 100, {"a": 2}),
        ("sum(c) / count(up)", 100, {"": 200}),
        ("c > 100 and on (worker) up == 1", 100, {"a": 200}),
        ("timestamp(c)", 105, {"a": 100}),
    ],
)
def test_windows_offsets_and_markers(
    storage: MemoryStorage, query: str, at: float, expected: dict[str, float]
) -> None:
    assert values(ask(storage, query, at)) == expected


def test_a_selector_keeps_the_name_and_arithmetic_drops_it(storage: MemoryStorage) -> None:
    assert ask(storage, "c").samples == (Sample("c", (("worker", "a"),), 200.0),)
    assert ask(storage, "c * 1").samples == (Sample("", (("worker", "a"),), 200.0),)
    assert ask(storage, "c > 1").samples[0].name == "c"


def test_division_by_zero_is_silent_for_nothing_and_loud_for_something(
    storage: MemoryStorage,
) -> None:
    assert ask(storage, "c * 0 / (c * 0) > 0.1").samples == ()
    assert values(ask(storage, "c / (c * 0) > 0.1")) == {"a": math.inf}
    assert ask(storage, "c / none > 0.1").samples == ()


def test_instants_with_odd_fractions_see_the_sample_of_that_very_instant() -> None:
    storage = MemoryStorage()
    at = 1_790_000_000.123456789
    storage.add(named("m"), [(at, 5.0)])
    assert values(ask(storage, "m", at)) == {"": 5.0}
    assert values(ask(storage, "count_over_time(m[1s])", at)) == {"": 1.0}


def test_a_failed_target_makes_the_result_incomplete_with_and_without_samples() -> None:
    storage = MemoryStorage()
    storage.add(named("m", worker="a"), [(90.0, 1.0)])
    storage.add(named("m", worker="b"), []).failed = True
    result = ask(storage, "sum(m) > 5")
    assert (result.incomplete, result.no_data) == (True, False)
    assert not ask(storage, 'm{worker="a"}').incomplete


@pytest.mark.parametrize(
    ("query", "no_data"),
    [
        ("none", True),
        ("absent(none)", True),
        ("sum(none) or vector(0)", True),
        ("c > 1e9", False),
        ("none or up", False),
        ("rate(none[1m])", True),
        ("vector(1)", False),
        ("time()", False),
        ('up{worker="b"}', True),
    ],
)
def test_no_data_is_told_from_nothing_found(
    storage: MemoryStorage, query: str, *, no_data: bool
) -> None:
    assert ask(storage, query).no_data is no_data


def test_kinds_of_results(storage: MemoryStorage) -> None:
    assert ask(storage, "1 + 1").scalar == 2.0
    assert ask(storage, '"text"').text == "text"
    matrix = ask(storage, "up[30s]")
    assert matrix.kind is ValueType.MATRIX
    assert matrix.windows is not None
    assert matrix.windows.times.tolist() == [[80.0, 90.0, 100.0]]
    (labels,) = matrix.windows.labels
    assert dict(labels)["__name__"] == "up"


def test_a_subquery_of_too_many_steps_is_refused(storage: MemoryStorage) -> None:
    with pytest.raises(QueryError, match="over 11000 steps"):
        ask(storage, "count_over_time(up[1d:1s])")


def test_a_quantile_of_a_histogram_is_interpolated_and_forgives_a_falling_count() -> None:
    storage = MemoryStorage()
    for le, count in (("0.5", 10.0), ("1.0", 9.0), ("2", 20.0), ("+Inf", 20.0)):
        storage.add(named("h_bucket", le=le), [(0.0, count)])
    assert values(ask(storage, "histogram_quantile(0.75, h_bucket)", 0)) == {"": 1.5}
    assert values(ask(storage, "histogram_fraction(0, 0.5, h_bucket)", 0)) == {"": 0.5}


def test_a_counter_reset_is_no_fall() -> None:
    storage = MemoryStorage()
    points = [(0, 10), (10, 20), (20, 5), (30, 15)]
    storage.add(named("c"), [(float(at), float(value)) for at, value in points])
    (sample,) = ask(storage, "increase(c[40s])", 30).samples
    assert sample.value == pytest.approx(25 * 40 / 30)
