from __future__ import annotations

import pytest

from ds4watch.alerting.rulefile import load_rules
from ds4watch.model.alert import AlertRule, OnNoData, RecordingRule, Tier
from ds4watch.model.errors import ConfigError

GOOD = """\
groups:
  - name: load
    interval: 1m30s
    labels: {team: ops}
    rules:
      - record: job:up:sum
        expr: sum by (job) (up)
        labels: {kind: sum}
      - alert: Down
        expr: up == 0
        for: 5m
        keep_firing_for: 10s
        labels: {severity: critical, team: core}
        annotations:
          summary: gone
          ds4_on_no_data: hold
          ds4_exit: up == 1
      - alert: Always
        expr: 1
  - name: empty
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_rules(text, "r.yml")
    return str(caught.value).splitlines()


def faults_of_rule(*lines: str) -> list[str]:
    body = "\n".join(f"    {line}" for line in lines)
    return faults(f"groups:\n- name: g\n  rules:\n  -\n{body}\n")


def test_a_file_becomes_groups_of_rules_in_order() -> None:
    load, empty = load_rules(GOOD, "r.yml")
    assert (load.name, load.file, load.interval_seconds) == ("load", "r.yml", 90.0)
    record, down, always = load.rules
    labels = (("kind", "sum"), ("team", "ops"))
    assert record == RecordingRule("load", "job:up:sum", "sum by (job) (up)", labels)
    assert isinstance(down, AlertRule)
    assert (down.for_seconds, down.keep_firing_seconds) == (300.0, 10.0)
    assert down.on_no_data is OnNoData.HOLD
    assert down.tier is Tier.CRITICAL
    assert dict(down.labels) == {"severity": "critical", "team": "core"}
    assert isinstance(always, AlertRule)
    assert (always.expression, always.on_no_data) == ("1", OnNoData.RESOLVE)
    assert empty.rules == ()


def test_rules_with_one_name_and_the_same_labels_have_different_ids() -> None:
    rule = "  - {alert: A, expr: up > %d}\n"
    text = "groups:\n- name: g\n  rules:\n" + rule % 1 + rule % 2
    (group,) = load_rules(text, "r.yml")
    first, second = group.rules
    assert isinstance(first, AlertRule)
    assert isinstance(second, AlertRule)
    assert first.id != second.id


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["expr: 1"], "r.yml:5: groups[0].rules[0]: neither `record` nor `alert`"),
        (["alert: A"], "groups[0].rules[0].expr: A: is missing"),
        (["alert: A", "record: b", "expr: 1"], "both `record: b` and `alert: A`"),
        (["alert: A", "expr: 1", "fro: 5m"], "r.yml:7: groups[0].rules[0].fro: unknown key (did"),
        (["alert: A", "expr: 1", "for: 5"], "for: must be a duration such as 30s, 5m or 1h30m"),
        (["alert: A", "expr: 1", "keep_firing_for: x"], "keep_firing_for: must be a duration"),
        (["record: b", "expr: 1", "for: 5m"], "for: is for alerts only"),
        (["record: b-c", "expr: 1"], "record: not a metric name: 'b-c'"),
        (["record: b", "expr: 1", "labels: {__name__: x}"], "not a label name: '__name__'"),
        (["alert: A", "expr: sum(up"], "expr: A: unclosed left parenthesis, at character 4"),
        (["alert: A", "expr: up > foo(1)"], "unknown function with name 'foo', at character 6"),
        (
            ["alert: A", "expr: up > histogram_sum(x)"],
            "A: the function histogram_sum() is not supported, at character 6",
        ),
        (
            ["alert: A", "expr: |", "  up", "  > limit_ratio(1, x)"],
            "limit_ratio() is not supported, at line 2, character 3 of the expression",
        ),
        (["alert: A", "expr: up[5m]"], "A: is a matrix, which a rule cannot be"),
        (["alert: A", "expr: '\"text\"'"], "A: is a string, which a rule cannot be"),
        (
            ["alert: A", "expr: 1", "annotations: {ds4_on_no_data: keep}"],
            "ds4_on_no_data: must be one of hold, resolve, alert, got 'keep'",
        ),
        (["alert: A", "expr: 1", "annotations: {ds4_exit: up +}"], "ds4_exit: A: invalid promql"),
        (["alert: A", "expr: 1", "labels: {a: yes}"], "must be text"),
    ],
)
def test_a_fault_is_one_line_that_says_where(lines: list[str], fault: str) -> None:
    (found,) = faults_of_rule(*lines)
    assert found.startswith("r.yml:")
    assert fault in found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("groups:\n- name: a\n- name: a\n", "r.yml:3: groups[1].name: a second group with the"),
        ("groups:\n- rules: []\n", "groups[0].name: is missing"),
        ("groups:\n- {name: a, limit: 5}\n", "groups[0].limit: is not supported (take it out"),
        ("groups:\n- {name: a, query_offset: 1m}\n", "query_offset: is not supported"),
        ("groups:\n- {name: a, interval: 5}\n", "interval: must be a duration"),
        ("rules: []\n", "r.yml:1: rules: unknown key (known here: groups)"),
        ("- a\n", "r.yml:1: must be a mapping"),
        ("groups: [\n", "not valid YAML"),
    ],
)
def test_a_fault_of_a_group_is_one_line_that_says_where(text: str, fault: str) -> None:
    (found,) = faults(text)
    assert fault in found


def test_every_fault_is_told_at_once_in_the_order_of_the_file() -> None:
    rules = "  - {alert: A, expr: up >}\n  - {record: b, expr: 1, for: 5m}\n  - {expr: 1}\n"
    found = faults("groups:\n- name: g\n  rules:\n" + rules)
    assert [line.split(":")[1] for line in found] == ["4", "5", "6"]


def test_an_empty_file_has_no_groups() -> None:
    assert load_rules("", "r.yml") == ()
