"""Recorded series put in: the expression gives what the recorded series would have given."""

from __future__ import annotations

import numpy as np
import pytest

from ds4watch.alerting.compiled import compile_rule, evaluate_rule
from ds4watch.alerting.inlined import Recorded, inlined
from ds4watch.alerting.remote import Elsewhere, in_servers_words, recordings_of
from ds4watch.alerting.rulefile import load_rules
from ds4watch.alerting.series import recorded
from ds4watch.model.alert import RecordingRule
from ds4watch.model.errors import QueryError
from ds4watch.model.series import Labels
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.parse import parse
from ds4watch.promql.render import render
from ds4watch.promql.vectors import Vector, drop_names
from tests.unit.promql.memory import WritableMemory, named

RULES = """\
groups:
  - name: g
    interval: 15s
    rules:
      - record: pool:queue:sum
        expr: sum by (pool) (queue)
      - record: pool:queue:share
        expr: pool:queue:sum / scalar(sum(queue))
        labels: {kind: share, cost: "5$1"}
      - record: limit
        expr: 5
      - record: tiered
        expr: sum(queue) * 2
        labels: {tier: high}
      - record: tiered
        expr: sum(queue)
        labels: {tier: low}
"""
STEP = 15.0
GROUPS = load_rules(RULES, "rules.yml")
RECORDINGS = recordings_of(GROUPS, Elsewhere(interval_seconds=STEP))
LAST = 1500.0

EXPRESSIONS = [
    "pool:queue:sum",
    "pool:queue:sum > 10",
    'pool:queue:sum{pool="a"}',
    'pool:queue:sum{pool!="a"} * 2',
    'pool:queue:sum{pool=~"a|b", pool!~"b.*"}',
    'pool:queue:sum{nothing=""}',
    'pool:queue:sum{nothing!=""}',
    'pool:queue:sum{pool="a.b"} or pool:queue:sum{pool=~"a.b"}',
    "pool:queue:share",
    'pool:queue:share{kind="share", cost="5$1"}',
    "sum(pool:queue:share)",
    "pool:queue:share > on (pool) (pool:queue:sum / 100)",
    "max_over_time(pool:queue:sum[1m])",
    "rate(pool:queue:share[2m])",
    "deriv(pool:queue:sum[2m] offset 30s)",
    "pool:queue:sum offset 1m",
    'pool:queue:sum{pool="b"} offset 1m',
    "pool:queue:sum - pool:queue:sum offset 45s",
    "avg_over_time((pool:queue:sum / 2)[1m:15s])",
    "limit",
    "pool:queue:sum > on () group_left () limit",
    "tiered",
    'tiered{tier="low"} > 1',
    "absent(pool:queue:sum)",
    'absent(pool:queue:sum{pool="none"})',
    "count by (tier) (tiered) and on () vector(1)",
    "-pool:queue:sum ^ 2",
    "topk(1, pool:queue:sum)",
]


@pytest.fixture(scope="module")
def storage() -> WritableMemory:
    """Return a queue over time, and beside it what the rules record of it."""
    found = WritableMemory()
    rules = [compile_rule(rule) for group in GROUPS for rule in group.rules]
    pools = ("a", "b", "a.b", "axb")
    for at in np.arange(STEP, LAST + 1, STEP).tolist():
        for number, pool in enumerate(pools):
            for worker in ("x", "y"):
                value = (at // STEP * (number + 1)) % 37 + (worker == "y")
                found.add(named("queue", pool=pool, worker=worker), [(at, value)])
        for compiled in rules:
            assert isinstance(compiled.rule, RecordingRule)
            made = recorded(compiled.rule, evaluate_rule(compiled, found, at).vector)
            for labels, value in zip(made.labels, made.values.tolist(), strict=True):
                found.add(labels, [(at, value)])
    return found


def told(vector: Vector) -> dict[Labels, float]:
    plain = drop_names(vector)
    pairs = zip(plain.labels, plain.values.tolist(), strict=True)
    return {labels: round(value, 9) for labels, value in pairs}


@pytest.mark.parametrize("text", EXPRESSIONS)
@pytest.mark.parametrize("at", [LAST, LAST - 300.0])
def test_what_is_put_in_gives_what_was_recorded(
    storage: WritableMemory, text: str, at: float
) -> None:
    expr = parse(text)
    put_in = inlined(expr, RECORDINGS)
    assert not any(name in render(put_in) for name in RECORDINGS if name != "limit")
    assert parse(render(put_in)) == put_in
    by_record, by_parts = (told(evaluate(it, storage, at).vector) for it in (expr, put_in))
    if text.startswith("absent") and "none" in text:  # it cannot tell the labels it looked for
        by_record = dict.fromkeys([()], *by_record.values())
    assert by_parts == by_record


def test_an_expression_without_recorded_series_stays_as_a_person_wrote_it() -> None:
    text = "sum( queue )   > 5 # many"
    groups = load_rules(
        f"groups: [{{name: g, rules: [{{alert: A, expr: '{text}'}}]}}]", "rules.yml"
    )
    rule = compile_rule(groups[0].rules[0])
    assert in_servers_words(rule, RECORDINGS, ()).text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{__name__=~"pool:.*"}', "selects the recorded series pool:queue:sum by a pattern"),
        ('{__name__!="x", job="y"}', "by a pattern: name it"),
        ("self:a", "self:a is recorded from itself"),
        ("wide", "reads over 64 recorded series"),
    ],
)
def test_what_cannot_be_put_in_is_said(text: str, why: str) -> None:
    own = {
        "self:a": (Recorded(parse("self:b + 1"), (), STEP),),
        "self:b": (Recorded(parse("self:a + queue"), (), STEP),),
        "wide": (Recorded(parse(" + ".join(["pool:queue:sum"] * 70)), (), STEP),),
    }
    with pytest.raises(QueryError, match=why):
        inlined(parse(text), {**RECORDINGS, **own})


def test_a_question_too_long_for_a_server_is_said() -> None:
    long = " or ".join(f'queue{{worker="{"w" * 300}{n}"}}' for n in range(60))
    own = {"long": (Recorded(parse(long), (), STEP),)}
    groups = load_rules("groups: [{name: g, rules: [{alert: A, expr: long > 1}]}]", "rules.yml")
    with pytest.raises(QueryError, match="characters long with recorded series put in"):
        in_servers_words(compile_rule(groups[0].rules[0]), own, ())
