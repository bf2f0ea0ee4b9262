from __future__ import annotations

import math

from ds4watch.alerting.explain import MAX_VALUES, Explanation, explain
from ds4watch.promql.memory import MemorySeries
from ds4watch.promql.parse import parse
from tests.unit.promql.memory import named


def seen(text: str) -> Explanation:
    series = MemorySeries()
    for worker, depth in (("a", 20.0), ("b", 3.0)):
        series.add(named("depth", worker=worker), [(90.0, depth), (100.0, depth)])
    series.add(named("stale", worker="b"), [(100.0, 1.0)])
    series.add(named("many"), [(100.0, 0.0)])
    for number in range(30):
        series.add(named("many", n=str(number)), [(100.0, float(number))])
    return explain(parse(text), series, 100.0)


def test_each_part_has_its_values_largest_first() -> None:
    found = seen("sum(depth unless on (worker) stale == 1) > 50")
    shown = [(it.depth, it.expression, [value.value for value in it.values]) for it in found.parts]
    assert shown == [
        (1, "sum(depth unless on (worker) stale == 1)", [20.0]),
        (2, "depth unless on (worker) stale == 1", [20.0]),
        (3, "depth", [20.0, 3.0]),
        (3, "stale == 1", [1.0]),
        (4, "stale", [1.0]),
    ]


def test_it_is_told_how_far_each_condition_is() -> None:
    found = seen("depth > 15 and on (worker) depth < 25 unless on (worker) stale == 1")
    over, under, unless = found.conditions
    assert [(it.value, it.beyond, it.holds) for it in over.nearest] == [
        (20.0, 5.0, True),
        (3.0, -12.0, False),
    ]
    assert [(it.value, it.beyond) for it in under.nearest] == [(3.0, 22.0), (20.0, 5.0)]
    assert (unless.unless, unless.expression, unless.op, unless.threshold) == (
        True,
        "stale",
        "==",
        1.0,
    )
    assert found.elements == 1


def test_a_number_on_the_left_is_a_threshold_too() -> None:
    (condition,) = seen("50 < sum(depth)").conditions
    assert (condition.op, condition.threshold) == (">", 50.0)
    assert condition.nearest[0].beyond == -27.0


def test_a_range_shows_its_newest_values_and_how_many_samples_it_has() -> None:
    (part,) = seen("rate(depth[1m])").parts
    assert (part.expression, part.count) == ("depth[1m]", 4)
    assert [it.value for it in part.values] == [20.0, 3.0]


def test_nothing_and_failures_are_told() -> None:
    nothing = seen("gone > 5")
    assert (nothing.elements, nothing.conditions[0].count) == (0, 0)
    failed = seen("depth * on () many")
    assert failed.error is not None
    assert [it.error for it in failed.parts] == [None, None]


def test_few_of_many_values_are_shown() -> None:
    (part,) = seen("many > 100").parts
    assert (part.count, len(part.values)) == (31, MAX_VALUES)
    assert part.values[0].value == 29.0


def test_a_quotient_of_nothing_is_no_number_and_last() -> None:
    (condition,) = seen("many / many > 1").conditions
    assert math.isnan(seen("many{n='0'} / many{n='0'} > 1").conditions[0].nearest[0].value)
    assert condition.nearest[0].value == 1.0
