"""Which elements a failed scrape casts doubt on."""

from __future__ import annotations

import pytest

from ds4watch.promql.columns import NO_LABELS, LabelColumn
from ds4watch.promql.doubt import Doubt, Shared, shared_by
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.parse import parse
from tests.unit.promql.memory import MemoryStorage, named

A = {"w": "a", "m": "x"}


def in_doubt(query: str, element: dict[str, str], made: frozenset[str] = frozenset()) -> bool:
    """Say whether worker a's failed scrape may be why the element is missing."""
    storage = MemoryStorage()
    for metric in ("load", "up", "h_bucket"):
        for worker, model in (("a", "x"), ("b", "x"), ("c", "y")):
            le = {"le": "1"} if metric == "h_bucket" else {}
            series = storage.add(named(metric, w=worker, m=model, **le), [(10, 1.0)])
            series.failed = worker == "a"
    expr = parse(query)
    missing = evaluate(expr, storage, 10).missing
    shared = shared_by(expr)
    doubts = [Doubt(found, each) for where, found in missing.items() for each in shared[where]]
    return any(doubt.touches(element, made) for doubt in doubts)


@pytest.mark.parametrize(
    ("query", "element", "doubtful"),
    [
        ("load > 5", A, True),
        ("load > 5", {"w": "b", "m": "x"}, False),
        ("rate(load[5s]) > 5", {"w": "b", "m": "x"}, False),
        ("sum(load) > 5", {}, True),
        ("sum by (m) (load) > 5", {"m": "x"}, True),
        ("sum by (m) (load) > 5", {"m": "y"}, False),
        ("sum without (w) (load) > 5", {"m": "y"}, False),
        ("topk by (m) (1, load)", {"w": "b", "m": "x"}, True),
        ("load / on (w) up", {"w": "b"}, False),
        ("load / on (w) up", {"w": "a"}, True),
        ("load and on (m) up", {"w": "b", "m": "x"}, True),
        ("load{w='b'} and on () up", {"w": "b", "m": "x"}, True),
        ("load * on (w) group_left (m) up", {"w": "b", "m": "z"}, False),
        ("load * on (w) group_left (m) up", {"w": "a", "m": "z"}, True),
        ("load > scalar(sum(up))", {"w": "c", "m": "y"}, True),
        ("label_replace(load, 'w', 'n$1', 'w', '(.)')", {"w": "nb", "m": "x"}, True),
        ("label_replace(load, 'w', 'n$1', 'w', '(.)')", {"w": "nc", "m": "y"}, False),
        ("histogram_quantile(0.5, h_bucket)", {"w": "b", "m": "x"}, False),
        ("histogram_quantile(0.5, h_bucket)", A, True),
        ("max_over_time((load > 1)[5s:1s])", {"w": "b", "m": "x"}, False),
        ("load{w='b'}", {"w": "b", "m": "x"}, False),
    ],
)
def test_an_element_is_in_doubt_if_a_missing_series_may_bear_upon_it(
    query: str, element: dict[str, str], *, doubtful: bool
) -> None:
    assert in_doubt(query, element) is doubtful


def test_labels_that_the_rule_made_say_nothing() -> None:
    assert in_doubt("load > 5", {"w": "all", "m": "x"}, made=frozenset({"w"}))


def test_if_it_is_not_known_what_is_missing_all_is_in_doubt() -> None:
    assert Doubt(NO_LABELS, Shared()).touches(A, frozenset())
    assert not Doubt(LabelColumn((named("load", w="b"),)), Shared()).touches(A, frozenset())
