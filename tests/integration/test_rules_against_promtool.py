"""The rule pack checked by promtool, and our alert machine checked against promtool's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from ds4watch.alerting.compiled import compile_group, evaluate_rule
from ds4watch.alerting.rulefile import load_rules
from ds4watch.alerting.templates import Template
from ds4watch.model.alert import AlertPhase, AlertRule
from ds4watch.model.series import STALE_NAN
from tests.unit.alerting.rules import Run
from tests.unit.promql.memory import MemoryStorage, named

ROOT = Path(__file__).resolve().parents[2]
RULES = sorted((ROOT / "rules").glob("*.yml"))
needs_promtool = pytest.mark.needs("promtool")


def promtool(*args: str) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


@needs_promtool
@pytest.mark.prometheus
def test_promtool_accepts_the_shipped_rules() -> None:
    result = promtool("check", "rules", *map(str, RULES))
    assert result.returncode == 0, result.stdout + result.stderr


@needs_promtool
@pytest.mark.prometheus
def test_the_shipped_rules_pass_their_own_tests() -> None:
    files = sorted((ROOT / "rules" / "tests").glob("*.yml"))
    result = promtool("test", "rules", *map(str, files))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_each_shipped_alert_loads_and_has_a_tier_a_test_and_a_runbook(path: Path) -> None:
    tests = "".join(file.read_text() for file in (ROOT / "rules" / "tests").glob("*.yml"))
    rules = [rule for group in load_rules(path.read_text(), path.name) for rule in group.rules]
    for rule in rules:
        assert isinstance(rule, AlertRule)
        annotations = dict(rule.annotations)
        assert dict(rule.labels)["severity"] == rule.tier
        assert annotations["ds4_on_no_data"] == rule.on_no_data
        assert annotations["runbook_url"] == f"docs/runbooks/{rule.name}.md"
        assert (ROOT / annotations["runbook_url"]).read_text().startswith(f"# {rule.name}\n")
        assert re.search(rf"alertname: {rule.name}\b", tests)


def test_each_runbook_is_of_an_alert_that_ships() -> None:
    shipped = {
        rule.name
        for path in RULES
        for group in load_rules(path.read_text(), path.name)
        for rule in group.rules
    }
    assert {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")} == shipped


CASES = {
    "pending then firing": ("5s", "0s", "0 0 2 2 2 2 2 2 2 2 0 0"),
    "a dip starts the wait anew": ("3s", "0s", "2 2 2 0 2 2 2 2 2 2 2"),
    "keep firing over dips": ("2s", "3s", "2 2 2 2 0 0 2 0 0 0 0 0 0 2 2 2 2"),
    "without for": ("0s", "0s", "0 2 0 2 2 0"),
    "without for, keeping": ("0s", "2s", "2 0 0 0 0 2 0 2 0 0 0"),
    "a stale marker": ("2s", "0s", "2 2 2 2 stale 2 2 2 2"),
    "gaps are bridged by the lookback": ("3s", "0s", "2 _ _ _ _ 2 0 _ 2 _ _ _ _"),
}


@needs_promtool
@pytest.mark.prometheus
def test_alerts_fire_when_promtool_says_so(tmp_path: Path) -> None:
    rules = [_rule_text(f"Case{n}", n, case) for n, case in enumerate(CASES.values())]
    text = yaml.safe_dump({"groups": [{"name": "g", "interval": "1s", "rules": rules}]})
    (tmp_path / "rules.yml").write_text(text)
    (group,) = load_rules(text, "rules.yml")
    storage = _storage()
    checks = []
    for compiled in compile_group(group):
        assert isinstance(compiled.rule, AlertRule)
        run = Run(compiled.rule)
        for second in range(20):
            run.at(second, evaluate_rule(compiled, storage, second))
            firing = [state for state in run.states.values() if state.phase is AlertPhase.FIRING]
            expected = [
                {
                    "exp_labels": {k: v for k, v in state.labels if k != "alertname"},
                    "exp_annotations": dict(state.annotations),
                }
                for state in firing
            ]
            checks.append(
                {
                    "alertname": compiled.rule.name,
                    "eval_time": f"{second}s",
                    "exp_alerts": expected,
                }
            )
    assert any(check["exp_alerts"] for check in checks)
    result = _test_rules(tmp_path, checks)
    assert result.returncode == 0, result.stdout + result.stderr


VALUES = [0.0, 1.0, 0.25, 1234567.0, 123456.0, 1e15, 1.5e-5, 59.5, 3723.0, 100000.0, -0.004]
TEMPLATES = [
    "{{ $value }}",
    "{{ $value | humanize }}",
    "{{ $value | humanize1024 }}",
    "{{ $value | humanizePercentage }}",
    "{{ $value | humanizeDuration }}",
    '{{ printf "%.2f|%g|%e|%v" $value $value $value $value }}',
    "{{ $labels.n }} {{ $labels }} [{{ $labels.none }}]",
    "a {{- $value -}} b",
]


@needs_promtool
@pytest.mark.prometheus
def test_templates_expand_as_promtool_expands_them(tmp_path: Path) -> None:
    annotations = {f"t{n}": template for n, template in enumerate(TEMPLATES)}
    rule = {"alert": "A", "expr": "m", "annotations": annotations}
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "g", "rules": [rule]}]})
    )
    series = [{"series": f'm{{n="{n}"}}', "values": str(v)} for n, v in enumerate(VALUES)]
    expected = [
        {
            "exp_labels": {"n": str(n)},
            "exp_annotations": {
                name: Template(template).filled(named("m", n=str(n))).text(value)
                for name, template in annotations.items()
            },
        }
        for n, value in enumerate(VALUES)
    ]
    check = {"alertname": "A", "eval_time": "0s", "exp_alerts": expected}
    result = _test_rules(tmp_path, [check], series)
    assert result.returncode == 0, result.stdout + result.stderr


def _rule_text(name: str, number: int, case: tuple[str, str, str]) -> dict[str, object]:
    hold, keep, _values = case
    return {
        "alert": name,
        "expr": f'm{{case="{number}"}} > 1',
        "for": hold,
        "keep_firing_for": keep,
        "labels": {"where": "{{ $labels.case }}"},
        "annotations": {"summary": "{{ $labels.where }}{{ $value }}"},
    }


def _storage() -> MemoryStorage:
    storage = MemoryStorage()
    for number, (_hold, _keep, values) in enumerate(CASES.values()):
        points = [
            (float(second), STALE_NAN if word == "stale" else float(word))
            for second, word in enumerate(values.split())
            if word != "_"
        ]
        storage.add(named("m", case=str(number)), points)
    return storage


def _test_rules(
    folder: Path, checks: Sequence[object], series: list[dict[str, str]] | None = None
) -> subprocess.CompletedProcess[str]:
    loaded = series or [
        {"series": f'm{{case="{number}"}}', "values": values}
        for number, (_hold, _keep, values) in enumerate(CASES.values())
    ]
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1s",
        "tests": [{"interval": "1s", "input_series": loaded, "alert_rule_test": checks}],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(document))
    return promtool("test", "rules", str(folder / "test.yml"))
