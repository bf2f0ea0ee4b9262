"""Rule unit tests: our verdicts, and beside them those of promtool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ds4watch.alerting.rulefile import load_rules
from ds4watch.alerting.unitfile import load_units
from ds4watch.engine.rule_units import UnitOutcome, run_units

ROOT = Path(__file__).resolve().parents[3]

RULES = """\
groups:
  - name: first
    interval: 10m
    rules:
      - alert: A
        expr: job:x > 5
        for: 2m
        labels: {severity: warning}
        annotations: {s: "{{ $value }} in {{ $externalLabels.zone }} {{ $externalURL }}"}
  - name: second
    rules:
      - record: job:x
        expr: sum by (job) (x)
"""
SERIES = [
    {"series": 'x{job="a", i="1"}', "values": "1+1x20"},
    {"series": 'x{job="a", i="2"}', "values": "0x5 stale _x3 7"},
]
FIRES = {
    "eval_time": "7m",
    "alertname": "A",
    "exp_alerts": [
        {
            "exp_labels": {"severity": "warning", "job": "a"},
            "exp_annotations": {"s": "8 in eu http://p"},
        }
    ],
}
PENDING = 'ALERTS{alertname="A", alertstate="pending", job="a", severity="warning"}'


def alerts(*cases: object) -> dict[str, object]:
    return {"alert_rule_test": list(cases)}


def exprs(expr: str, at: str, *samples: tuple[str, float]) -> dict[str, object]:
    expected = [{"labels": labels, "value": value} for labels, value in samples]
    return {"promql_expr_test": [{"expr": expr, "eval_time": at, "exp_samples": expected}]}


CASES = {
    "an alert that fires": (alerts(FIRES), True),
    "between two evaluations the last counts": (alerts(FIRES | {"eval_time": "7m30s"}), True),
    "an alert that nobody expects": (alerts(FIRES | {"exp_alerts": []}), False),
    "one that is pending": (alerts(FIRES | {"eval_time": "6m", "exp_alerts": []}), True),
    "another annotation": (
        alerts(FIRES | {"exp_alerts": [{"exp_labels": {"severity": "warning", "job": "a"}}]}),
        False,
    ),
    "an alert of no rule": (alerts(FIRES | {"alertname": "B", "exp_alerts": []}), True),
    "a recorded series": (exprs("job:x", "3m", ('job:x{job="a"}', 4)), True),
    "another value": (exprs("job:x", "3m", ('job:x{job="a"}', 4.5)), False),
    "another label": (exprs("job:x", "3m", ('job:x{job="b"}', 4)), False),
    "a stale series": (exprs("count(x)", "6m", ("{}", 1)), True),
    "nothing": (exprs("x > 100", "6m"), True),
    "a number": (exprs("1 + 1", "0s", ("{}", 2)), True),
    "a series of the alert": (exprs("ALERTS", "6m", (PENDING, 1)), True),
}


def document(case: dict[str, object]) -> str:
    unit = {
        "interval": "1m",
        "external_labels": {"zone": "eu"},
        "external_url": "http://p",
        "input_series": SERIES,
    }
    return yaml.safe_dump(
        {
            "rule_files": ["r.yml"],
            "group_eval_order": ["second", "first"],
            "tests": [unit | case],
        }
    )


def ours(case: dict[str, object]) -> UnitOutcome:
    (outcome,) = run_units(load_units(document(case), "t.yml"), load_rules(RULES, "r.yml"))
    return outcome


@pytest.mark.parametrize("name", CASES)
def test_a_case_passes_or_fails_as_it_should(name: str) -> None:
    case, passes = CASES[name]
    assert (not ours(case).mismatches) is passes


@pytest.mark.needs("promtool")
@pytest.mark.prometheus
def test_promtool_says_the_same_of_each_case(tmp_path: Path) -> None:
    (tmp_path / "r.yml").write_text(RULES)
    files = {name: tmp_path / f"t{at}.yml" for at, name in enumerate(CASES)}
    for name, file in files.items():
        file.write_text(document(CASES[name][0]))
    command = ["promtool", "test", "rules", *map(str, files.values())]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = re.findall(r"SUCCESS|FAILED", ended.stdout + ended.stderr)
    assert said.count("SUCCESS") == sum(passes for _, passes in CASES.values())
    assert said.count("FAILED") == sum(not passes for _, passes in CASES.values())


def test_a_mismatch_tells_what_was_expected_and_what_there_was() -> None:
    (mismatch,) = ours(CASES["another value"][0]).mismatches
    assert (mismatch.looked_at, mismatch.at) == ("expr: job:x", 180.0)
    assert mismatch.expected == ('job:x{job="a"} 4.5',)
    assert mismatch.got == ('job:x{job="a"} 4.0',)


def test_a_rule_that_cannot_be_evaluated_ends_the_test_with_its_error() -> None:
    broken = RULES.replace("expr: job:x > 5", "expr: job:x * on () x")
    units = load_units(document(alerts(FIRES)), "t.yml")
    (outcome,) = run_units(units, load_rules(broken, "r.yml"))
    assert [it.looked_at for it in outcome.mismatches] == ["rule: A"]
    assert outcome.mismatches[0].error


def test_values_may_differ_by_a_millionth_if_the_file_says_so() -> None:
    text = document(exprs("job:x", "3m", ('job:x{job="a"}', 4.000001)))
    rules = load_rules(RULES, "r.yml")
    (strict,) = run_units(load_units(text, "t.yml"), rules)
    (fuzzy,) = run_units(load_units(text + "fuzzy_compare: true\n", "t.yml"), rules)
    assert strict.mismatches
    assert not fuzzy.mismatches


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] * (path.name == "store.yml"))
        for path in sorted((ROOT / "rules" / "tests").glob("*.yml"))
    ],
)
def test_the_shipped_unit_tests_pass_here_too(path: Path) -> None:
    units = load_units(path.read_text(), path.name)
    groups = [
        group
        for name in units.rule_files
        for group in load_rules((path.parent / name).read_text(), name)
    ]
    outcomes = run_units(units, groups)
    assert outcomes
    for outcome in outcomes:
        assert outcome.mismatches == (), outcome.group.name
