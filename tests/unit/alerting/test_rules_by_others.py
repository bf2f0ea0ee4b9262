"""Rules and dashboards in use elsewhere: they can be evaluated, or one line says why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds4watch.alerting.compiled import compile_group, evaluate_rule
from ds4watch.alerting.lint.check import lint
from ds4watch.alerting.lint.findings import Check
from ds4watch.alerting.rulefile import load_rules, read_rules
from ds4watch.model.errors import ConfigError
from ds4watch.model.series import NAME_LABEL, Labels, labels_of
from ds4watch.promql.ast import Expr
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.memory import MemorySeries
from ds4watch.promql.parse import parse
from ds4watch.promql.selection import selectors_of
from ds4watch.promql.storage import MatchOp
from ds4watch.vocabulary.known import KnownMetrics

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "rules-by-others"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no ../shared/rules-by-others")

NOW = 7200.0
REFUSED = {
    "rulefmt-bad_expr.bad.yaml": "yolo: expected type matrix in call to function 'rate'",
    "rulefmt-bad_field.bad.yaml": "unknown key (did you mean `annotations`?)",
    "rulefmt-duplicate_grp.bad.yaml": "a second group with the name 'yolo'",
    "rulefmt-invalid_label_name.bad.yaml": "not a label name: '__name__'",
    "rulefmt-no_rec_alert.bad.yaml": "neither `record` nor `alert`",
    "rulefmt-noexpr.bad.yaml": "ylo: is missing",
    "rulefmt-record_and_alert.bad.yaml": "both `record: Hi` and `alert: Hello`",
    "rulefmt-record_and_for.bad.yaml": "is for alerts only",
    "rules-semrouter-helm-template.yaml": "not valid YAML",
    "rules-semrouter-k8s.yaml": "not a rule file: a Kubernetes ConfigMap",
    "rules-prodstack-prom-adapter.yaml": "not a rule file: it has loglevel, prometheus, rules",
    "scale-aibrix-apa.yaml": "not a rule file: a Kubernetes PodAutoscaler",
    "scale-aibrix-hpa.yaml": "not a rule file: a Kubernetes PodAutoscaler",
    "scale-prodstack-keda.yaml": "not a rule file: a Kubernetes ScaledObject",
}


def good_files() -> dict[str, str]:
    """Return the texts of files that Prometheus would load, those within a ConfigMap too."""
    found = {
        path.name: path.read_text()
        for path in sorted(FOLDER.glob("rul*.y*ml"))
        if path.name not in REFUSED
    }
    inside: dict[str, str] = yaml.safe_load((FOLDER / "rules-semrouter-k8s.yaml").read_text())[
        "data"
    ]
    return found | inside


def series_for(expr: Expr) -> MemorySeries:
    """Return two hours of series that each selector with plain matchers finds."""
    storage = MemorySeries()
    asked = [
        {it.name: it.value for it in selector.matchers if it.op is MatchOp.EQUAL}
        for selector in selectors_of(expr)
    ]
    # The sides of an operator find each other if they have the same labels.
    shared = {"instance": "a:1", "job": "j"}
    for labels in asked:
        shared |= {name: value for name, value in labels.items() if name != NAME_LABEL}
    made: set[Labels] = set()
    for labels in asked:
        bound = {"le": "+Inf"} if labels.get(NAME_LABEL, "").endswith("_bucket") else {}
        if NAME_LABEL in labels:
            made.add(labels_of(shared | bound | labels))
    for number, series in enumerate(sorted(made)):
        storage.add(series, [(60.0 * n, float(n * (number + 1))) for n in range(121)])
    return storage


@pytest.mark.parametrize("name", good_files() if FOLDER.is_dir() else ())
def test_a_file_in_use_elsewhere_loads_and_every_rule_of_it_can_be_evaluated(name: str) -> None:
    groups = load_rules(good_files()[name], name)
    compiled = [rule for group in groups for rule in compile_group(group)]
    assert compiled
    for rule in compiled:
        for storage in (MemorySeries(), series_for(rule.expr)):
            assert evaluate_rule(rule, storage, NOW).error is None, rule.rule.name


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_rule_file_is_refused_with_one_line(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rules((FOLDER / name).read_text(), name)
    (finding,) = caught.value.findings
    assert str(finding).startswith(f"{name}:{finding.line}: ")
    assert REFUSED[name] in str(finding)
    assert "\n" not in str(finding)


def test_no_file_of_the_folder_is_left_out() -> None:
    tried = {*good_files(), *REFUSED, *(path.name for path in FOLDER.glob("*.json"))}
    assert {path.name for path in FOLDER.iterdir()} <= tried


def test_check_tells_the_autoscaler_that_means_percent_from_the_one_that_means_a_share() -> None:
    """One engine, one metric, 0.5 in one file and 50 in the other."""
    said = {}
    for name in ("scale-aibrix-apa.yaml", "scale-aibrix-hpa.yaml"):
        (source,) = yaml.safe_load((FOLDER / name).read_text())["spec"]["metricsSources"]
        metric, target = source["targetMetric"], source["targetValue"]
        alert = {"alert": "Full", "expr": f"vllm:{metric} > {target}"}
        rules = [{**alert, "annotations": {"runbook_url": "x"}}]
        text = yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]})
        findings = lint([read_rules(text, name)], KnownMetrics(), interval_seconds=15)
        said[target] = [(it.advice.check, it.advice.mend) for it in findings]
    assert said == {"0.5": [], "50": [(Check.UNIT, "0.5 is 50 percent")]}


def queries(node: Any) -> Iterator[str]:
    """Yield every PromQL text of a dashboard, its variables filled in."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "prometheusQuery") and isinstance(value, str):
                yield re.sub(r"\$\{?__(rate_)?interval\}?", "5m", value)
            yield from queries(value)
    elif isinstance(node, list):
        for value in node:
            yield from queries(value)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_the_queries_of_dashboards_by_others_can_be_evaluated(path: Path) -> None:
    texts = list(queries(json.loads(path.read_text())))
    assert texts
    for text in texts:
        expr = parse(text)
        evaluate(expr, MemorySeries(), NOW)
        assert len(evaluate(expr, series_for(expr), NOW).vector) > 0, text
