"""Label work is done once per column, and is forgotten with it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.model.errors import QueryError
from ds4watch.model.series import STALE_NAN, Labels
from ds4watch.promql.columns import NO_LABELS, LabelColumn
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.parse import parse
from tests.unit.promql.memory import MemoryStorage, named

QUERIES = [
    "a",
    "a > 1",
    "-a",
    "a > 1 and b < 2",
    "a unless on (w) b",
    "a or b",
    "a or ignoring (m) b",
    "a + on (w) b",
    "a > on (w) group_left (m) b",
    "b * on (w) group_right a",
    "sum by (m) (a) / count by (m) (a > 1)",
    "avg without (w) (rate(a[10s]))",
    "topk by (m) (1, a)",
    'label_replace(a, "x", "$1", "w", "(.)")',
    "max_over_time((a > 1)[5s:1s])",
    "count_values('v', a)",
    "sort_by_label(a, 'w')",
    "absent(a > 2)",
    "vector(1) + on () group_right a",
    "histogram_quantile(0.5, label_replace(a, 'le', '$1', 'w', '(.)'))",
]


def column(*workers: str) -> LabelColumn:
    return LabelColumn(tuple(named("a", w=worker) for worker in workers))


@pytest.mark.parametrize(
    "query", ["a", "a > 0", "a > on (w) b", "a + on (w) b", "sum by (m) (a)", "rate(a[9s]) * 2"]
)
def test_the_labels_of_the_same_series_are_the_same_object_each_time(query: str) -> None:
    storage = MemoryStorage()
    for name in "ab":
        storage.add(named(name, w="1", m="x"), [(1, 5.0), (2, 6.0 if name == "a" else 1.0)])
    first, again = (evaluate(parse(query), storage, 2).vector for _ in range(2))
    assert len(first)
    assert first.labels is again.labels


SAMPLES = st.dictionaries(
    st.sampled_from([named(name, w=w, m=m) for name in "ab" for w in "123" for m in "xy"]),
    st.sampled_from([0.0, 1.0, 2.0, 3.0, STALE_NAN]),
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_what_was_kept_changes_no_result(
    waves: list[dict[Labels, float]],
) -> None:
    warm = MemoryStorage()
    exprs = [parse(query) for query in QUERIES]
    for second, wave in enumerate(waves):
        for labels, value in wave.items():
            warm.add(labels, [(second, value)])
        for expr in exprs:
            cold = MemoryStorage(warm.series)
            assert told(expr, warm, second) == told(expr, cold, second)


def told(expr: object, storage: MemoryStorage, at: float) -> str:
    try:
        return str(evaluate(expr, storage, at).samples)  # type: ignore[arg-type]
    except QueryError as error:
        return str(error)


def test_what_a_pair_made_goes_with_either_column() -> None:
    left, right = column("1"), column("2")
    sets = left.sets + right.sets
    made = left.paired(right, "both", lambda: LabelColumn(sets))
    assert left.paired(right, "both", lambda: NO_LABELS) is made
    seen = weakref.ref(made)
    del made, right
    gc.collect()
    assert seen() is None


def test_subsets_are_kept_while_there_are_few_of_them() -> None:
    whole = column(*(str(number) for number in range(10)))
    mask = np.arange(10) < 3
    subset = whole.where(mask)
    assert subset.sets == whole.sets[:3]
    assert whole.where(mask) is subset
    assert whole.where(np.ones(10, dtype=np.bool_)) is whole
    assert len(whole.where(np.zeros(10, dtype=np.bool_))) == 0
    for number in range(10):
        whole.where(np.arange(10) != number)
    assert whole.where(mask) is not subset


def test_positions_may_turn_the_order_around() -> None:
    whole = column("1", "2", "3")
    assert whole.take(np.array([2, 0])).sets == (whole.sets[2], whole.sets[0])
    assert whole.take(np.array([0, 1, 2])) is whole
    assert whole.take(np.array([2, 1, 0])) is not whole


def test_what_was_derived_is_bounded() -> None:
    whole = column("1")
    calls: list[int] = []
    for number in [*range(2000), 1999, 0]:
        whole.derived(number, lambda _sets, number=number: calls.append(number))  # type: ignore[misc]
    assert len(calls) == 2001
