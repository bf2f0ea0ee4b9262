from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.model.errors import QueryError
from ds4watch.promql.ast import (
    AtEdge,
    Binary,
    Cardinality,
    InstantSelector,
    Matching,
    Number,
    RangeSelector,
    Subquery,
    ValueType,
    When,
    value_type,
    walk,
)
from ds4watch.promql.parse import parse
from ds4watch.promql.selection import matches, windows_read
from ds4watch.promql.storage import Matcher, MatchOp

UP = Matcher("__name__", MatchOp.EQUAL, "up")


def test_a_selector_has_its_name_as_a_matcher() -> None:
    assert parse('up{a!="b", c=~"d|e", f!~"g"} offset -5m @ 100.5') == InstantSelector(
        (
            UP,
            Matcher("a", MatchOp.NOT_EQUAL, "b"),
            Matcher("c", MatchOp.REGEX, "d|e"),
            Matcher("f", MatchOp.NOT_REGEX, "g"),
        ),
        When(-300.0, 100.5),
    )


def test_ranges_subqueries_and_edges() -> None:
    assert parse("up[5m] @ start()") == RangeSelector((UP,), 300.0, When(0.0, AtEdge.START))
    assert parse("up[1h:]") == Subquery(InstantSelector((UP,)), 3600.0, None)


def test_matching_of_a_binary_operator() -> None:
    node = parse("up * on (a) group_left (b) up")
    assert isinstance(node, Binary)
    assert node.matching == Matching(
        Cardinality.MANY_TO_ONE, on=True, labels=("a",), include=("b",)
    )


def test_raw_strings_are_raw() -> None:
    assert parse(r"up{a=~`\d+`}") == InstantSelector((UP, Matcher("a", MatchOp.REGEX, r"\d+")))


@pytest.mark.parametrize(
    ("query", "message", "position"),
    [
        ("sum(up) + histogram_sum(x)", "the function histogram_sum() is not supported", 10),
        ("limit_ratio(1, up)", "the aggregation limit_ratio() is not supported", 0),
        ('{a="info"} + info(up)', "the function info() is not supported", 13),
        ('{a="b" or c="d"}', "`or` between matchers is not supported", 7),
        ("up + fill(0) up", "fill() is not supported", 5),
        ("up @ -5", "`@` before 1970 is not supported", 3),
        (r'up{a="\xc5"}', r"the escape \xc5 is not supported", 6),
        ("rate(up)", "expected type matrix in call to function 'rate'", 0),
        ("nope(up)", "unknown function with name 'nope'", 0),
        ("sum((up)", "unclosed left parenthesis", 3),
        ("up >", "invalid promql query", None),
        ('up{a=~"("}', "illegal regex", None),
        ('label_replace(up, "a", "b", "c", "(")', "bad regular expression", None),
        ("-" * 5000 + "up", "too long", None),
        ("+".join(["up"] * 500), "nested too deeply", None),
    ],
)
def test_what_cannot_be_evaluated_is_refused_by_name(
    query: str, message: str, position: int | None
) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)
    assert message in str(caught.value)
    assert caught.value.position == position


@given(st.text(alphabet="up()[]{}=~\"'`#@-+*/ 15msabyorn,:<>!^%\\\n", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        expr = parse(text)
    except QueryError:
        return
    assert list(walk(expr))


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("rate(a[5m]) / on (x) b", {"a": 300, "b": 0}),
        ('{__name__=~"a|b", x="y"}', {"a": 0, "b": 0}),
        ('{__name__="a.b"}', {"a.b": 0}),
        ("vector(1)", {}),
        ('{__name__=~"a.*"}', None),
        ('a + {x="y"}', None),
        ("max_over_time(sum(c)[5m:1m]) > scalar(d)", {"c": 300, "d": 0}),
        ("a[1m] offset 5m", {"a": 360}),
        ("a offset -5m", {"a": 0}),
        ("a - a offset 1h", {"a": 3600}),
        ("rate(a[1m])[5m:1m] offset 2m", {"a": 480}),
        ("max_over_time(rate(a[1m])[5m:1m] @ end() offset 1m)", {"a": 420}),
        ("max_over_time(a[1m] @ start())", {"a": 60}),
        ("max_over_time((a @ end())[1h:1m])", {"a": 0}),
        ("a @ 100", {"a": math.inf}),
    ],
)
def test_how_far_back_each_metric_is_read(query: str, read: dict[str, float] | None) -> None:
    assert windows_read(parse(query)) == read


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("1 + time()", ValueType.SCALAR),
        ("-scalar(up)", ValueType.SCALAR),
        ("1 + up", ValueType.VECTOR),
        ("sum(up)", ValueType.VECTOR),
        ("up[5m]", ValueType.MATRIX),
        ('"x"', ValueType.STRING),
    ],
)
def test_value_types(query: str, kind: ValueType) -> None:
    assert value_type(parse(query)) is kind


@pytest.mark.parametrize(
    ("op", "pattern", "label", "expected"),
    [
        (MatchOp.REGEX, "a.*", "a\nb", True),
        (MatchOp.REGEX, "b", "abc", False),
        (MatchOp.REGEX, "a|b", "b", True),
        (MatchOp.NOT_REGEX, "a|b", "c", True),
        (MatchOp.EQUAL, "", "", True),
        (MatchOp.NOT_EQUAL, "", "x", True),
    ],
)
def test_matchers_are_anchored(op: MatchOp, pattern: str, label: str, *, expected: bool) -> None:
    labels = (("l", label),) if label else ()
    assert matches([Matcher("l", op, pattern)], labels) is expected


def test_numbers_may_be_durations() -> None:
    assert parse("1h30m") == Number(5400.0)
