from __future__ import annotations

import pytest

from ds4watch.alerting.unitfile import load_units
from ds4watch.model.errors import ConfigError
from tests.unit.promql.memory import named

GOOD = """\
rule_files: [a.yml, more/*.yml]
evaluation_interval: 30s
group_eval_order: [b, a]
fuzzy_compare: true
tests:
  - name: one
    interval: 1m
    external_labels: {zone: eu}
    input_series:
      - {series: 'up{job="x"}', values: 0x90}
      - {series: down, values: 1}
    alert_rule_test:
      - {eval_time: 90s, alertname: A, exp_alerts: [{exp_labels: {n: 1}}]}
    promql_expr_test:
      - {expr: up, eval_time: 1m, exp_samples: [{labels: 'up{job="x"}', value: .inf}]}
  - input_series:
      - {series: h, values: '{{schema:0 count:1}}'}
"""


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_units(text, "t.yml")
    return [str(finding) for finding in caught.value.findings]


def test_a_file_is_read_as_promtool_reads_it() -> None:
    file = load_units(GOOD, "t.yml")
    assert (file.evaluation_seconds, file.group_order, file.fuzzy) == (30.0, ("b", "a"), True)
    one, histograms = file.groups
    assert one.series[0].labels == named("up", job="x")
    assert one.series[0].values == (0.0,) * 91
    assert one.series[1].values == (1.0,)
    assert (one.interval_seconds, one.last_at) == (60.0, 90.0)
    assert one.alerts[0].expected[0].labels == (("n", "1"),)
    assert one.exprs[0].expected == ((named("up", job="x"), float("inf")),)
    assert histograms.skip == "native histograms"


def test_what_is_not_said_has_promtools_defaults() -> None:
    file = load_units("tests: [{input_series: []}]", "t.yml")
    assert (file.evaluation_seconds, file.groups[0].interval_seconds) == (60.0, 60.0)


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("values: 1}", "values: one}", "t.yml:11: tests[0].input_series[1]: not a value: 'one' "),
        ("series: down", "series: 'down{'", "t.yml:11: tests[0].input_series[1]: "),
        ("eval_time: 90s", "eval_time: soon", "t.yml:13: tests[0].alert_rule_test[0].eval_time: "),
        ("expr: up", "expr: up +", "t.yml:15: tests[0].promql_expr_test[0]: "),
        ("alertname: A", "alertnme: A", "t.yml:13: tests[0].alert_rule_test[0].alert"),
        ("interval: 30s", "interval: 0s", "t.yml:2: evaluation_interval: must be over 0"),
    ],
)
def test_faults_are_told_with_their_places(was: str, now: str, said: str) -> None:
    assert any(line.startswith(said) for line in faults(GOOD.replace(was, now, 1)))
