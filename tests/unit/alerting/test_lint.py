from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.alerting.lint.check import lint
from ds4watch.alerting.lint.findings import Check, Finding
from ds4watch.alerting.rulefile import read_rules
from ds4watch.vocabulary.known import KnownMetrics

ROOT = Path(__file__).resolve().parents[3]
BY_OTHERS = ROOT.parent / "shared" / "rules-by-others"
with_others = pytest.mark.skipif(not BY_OTHERS.is_dir(), reason="no ../shared/rules-by-others")

REQUESTS = "sum(rate(ds4_gateway_requests_total[1m]))"
FAILED = 'sum(rate(ds4_gateway_requests_total{outcome="error"}[1m]))'
SHARE = f"{FAILED} / {REQUESTS}"
RUNBOOK = "        annotations: {runbook_url: docs/r.md}\n"


def rule(expr: str, *, severity: str = "warning", more: str = RUNBOOK) -> str:
    labels = f"        labels: {{severity: {severity}}}\n"
    return f"      - alert: A\n        expr: {expr!r}\n{labels}{more}"


def found(*rules: str, interval: float = 15.0) -> list[Finding]:
    text = "groups:\n  - name: g\n    rules:\n" + "".join(rules)
    return list(lint([read_rules(text, "r.yml")], KnownMetrics(), interval_seconds=interval))


def checks(*exprs: str) -> list[Check]:
    return [finding.advice.check for finding in found(*map(rule, exprs))]


@pytest.mark.parametrize(
    "expr",
    [
        f"{SHARE} > 0.01",
        f"{SHARE} > 0.01 and up == 1",
        f"{SHARE} > 0.01 and {REQUESTS} >= 0",
        f"{SHARE} > 0.01 or {REQUESTS} > 5",
        "ds4_queue_depth / ds4_running_requests > 3",
        "sum(ds4_queue_depth) % sum(ds4_running_requests) > 3",
        "ds4_queue_depth / (ds4_running_requests + 0) > 3",
        "(ds4_queue_depth / ds4_running_requests) > 3 unless ds4_running_requests > 0",
    ],
)
def test_a_division_by_what_can_be_zero_is_pointed_out(expr: str) -> None:
    assert checks(expr) == [Check.UNGUARDED_RATIO]


@pytest.mark.parametrize(
    "expr",
    [
        f"{SHARE} > 0.01 and {REQUESTS} > 0.2",
        f"{REQUESTS} > 0.2 and {SHARE} > 0.01",
        f"({SHARE} > 0.01 and {REQUESTS} > 0.2) or vector(0) > 1",
        f"{FAILED} / clamp_min({REQUESTS}, 1) > 0.01",
        f"{FAILED} / ({REQUESTS} > 1) > 0.01",
        "sum(ds4_queue_depth) / count(ds4_queue_depth) > 3",
        "ds4_gpu_memory_used_bytes / ds4_gpu_memory_total_bytes > 0.95",
        "ds4_gpu_memory_used_bytes / 1024 / 1024 > 5",
        "ds4_queue_depth / (ds4_running_requests + 1) > 3",
        "rate(vllm:request_params_n_sum[5m]) / rate(vllm:request_params_n_count[5m]) > 2",
        "ds4_cache_miss_ratio > 0.05 and on (worker) rate(ds4_prompt_tokens_total[1m]) > 100",
        "rate(http_request_duration_seconds_sum[5m]) > 2",
    ],
)
def test_a_guarded_ratio_is_left_alone(expr: str) -> None:
    assert checks(expr) == []


@pytest.mark.parametrize(
    "expr",
    [
        "ds4_cache_miss_ratio > 0.05",
        "avg(ds4_prefill_token_ratio) > 0.15 and up == 1",
        "ds4_cache_miss_ratio > 0.05 and on (worker) ds4_prefill_token_ratio > 0.1",
        f"{SHARE} > 0.01 and {REQUESTS} > 0",
        "vllm:gpu_prefix_cache_hit_rate < 0.5",
    ],
)
def test_a_share_of_nearly_nothing_is_pointed_out(expr: str) -> None:
    assert set(checks(expr)) == {Check.NO_TRAFFIC_GUARD}


def test_one_less_hits_is_silent_without_any_hit() -> None:
    hits, queries = (f"rate(vllm:prefix_cache_{kind}_total[5m])" for kind in ("hits", "queries"))
    guard = f"and {queries} > 10"
    (finding,) = found(rule(f"1 - {hits} / {queries} > 0.5 {guard}"))
    assert finding.advice.check is Check.SILENT_WHEN_ABSENT
    assert f"({hits} or {queries} * 0)" in finding.advice.mend
    assert checks(f"1 - ({hits} or {queries} * 0) / {queries} > 0.5 {guard}") == []


@pytest.mark.parametrize(
    ("expr", "mend"),
    [
        ("vllm:gpu_cache_usage_perc > 50", "0.5 is 50 percent"),
        ("avg(vllm:gpu_cache_usage_perc) > 50", "0.5 is 50 percent"),
        ("max_over_time(ds4_kv_usage_ratio[5m]) < 90", "0.9 is 90 percent"),
        ("1 - ds4_kv_usage_ratio < 10", "0.1 is 10 percent"),
        ("50 < vllm:kv_cache_usage_perc", "0.5 is 50 percent"),
        ("vllm:kv_cache_usage_perc * 100 > 0.5", "write 50 if a share of 0.5 is meant"),
        ("DCGM_FI_DEV_GPU_UTIL > 0.9", "write 90 if a share of 0.9 is meant"),
        (f"{SHARE} > 5 and {REQUESTS} > 1", "0.05 is 5 percent"),
    ],
)
def test_percent_and_shares_are_not_mixed_up(expr: str, mend: str) -> None:
    (finding,) = found(rule(expr))
    assert finding.advice.check is Check.UNIT
    assert finding.advice.mend == mend


@pytest.mark.parametrize(
    "expr",
    [
        "vllm:gpu_cache_usage_perc > 0.5",
        "vllm:gpu_cache_usage_perc * 100 > 50",
        "DCGM_FI_DEV_GPU_UTIL > 90",
        "DCGM_FI_DEV_GPU_UTIL / 100 > 0.9",
        "sum(vllm:kv_cache_usage_perc) > 2",
        "ds4_kv_usage_ratio > 50 / 100",
        "vllm:num_requests_waiting > 50",
    ],
)
def test_the_right_unit_is_left_alone(expr: str) -> None:
    assert checks(expr) == []


def test_a_metric_that_nobody_has_is_named_once_with_the_nearest_known() -> None:
    (finding,) = found(rule("ds4_queue_dept > 5"), rule("ds4_queue_dept > 50"))
    assert finding.advice.check is Check.UNKNOWN_METRIC
    assert finding.advice.mend == "did you mean ds4_queue_depth?"
    assert str(finding).startswith("r.yml:5: A: ")


@pytest.mark.parametrize(
    "name",
    [
        "ds4_queue_depth",
        "ds4_gateway_request_duration_seconds_bucket",
        "vllm:num_requests_waiting",
        "ray_vllm:time_to_first_token_seconds_count",
        "sglang:num_queue_reqs",
        "DCGM_FI_DEV_FB_USED",
        "litellm_proxy_total_requests_metric_total",
        "up",
        "scrape_duration_seconds",
        "ALERTS",
        "process_resident_memory_bytes",
    ],
)
def test_what_is_known_of_pages_is_known(name: str) -> None:
    assert checks(f"{name} > 5") == []


def test_what_a_rule_records_is_known() -> None:
    recording = "      - record: fleet:queue\n        expr: sum(ds4_queue_depth)\n"
    assert found(recording, rule("fleet:queue > 5")) == []
    assert [it.advice.check for it in found(rule("fleet:queue > 5"))] == [Check.UNKNOWN_METRIC]


def test_a_label_that_changes_with_the_value_is_pointed_out() -> None:
    labels = RUNBOOK + "        keep_firing_for: 0s\n"
    text = rule("ds4_queue_depth > 5", more=labels).replace(
        "severity: warning", "severity: warning, depth: '{{ $value }}'"
    )
    (finding,) = found(text)
    assert (finding.advice.check, finding.line) == (Check.CHANGING_LABEL, 6)
    of_labels = text.replace("$value", "$labels.worker")
    assert found(of_labels) == []


@pytest.mark.parametrize(
    ("low", "high", "is_reachable"),
    [
        ("ds4_queue_depth > 50", "ds4_queue_depth > 20", False),
        ("ds4_queue_depth > 20", "ds4_queue_depth > 50", True),
        ("ds4_queue_depth > 20", "ds4_queue_depth > 20", False),
        ("ds4_engines < 2", "ds4_engines < 4", False),
        ("ds4_engines < 4", "ds4_engines < 2", True),
        ("sum(ds4_queue_depth) > 50", "ds4_queue_depth > 20", True),
        (f"{SHARE} > 0.2 and {REQUESTS} > 1", f"{SHARE} > 0.1 and {REQUESTS} > 1", False),
        (f"{SHARE} > 0.1 and {REQUESTS} > 1", f"{SHARE} > 0.2 and {REQUESTS} > 1", True),
    ],
)
def test_a_higher_tier_has_to_ask_for_more(low: str, high: str, *, is_reachable: bool) -> None:
    findings = found(rule(low), rule(high, severity="critical"))
    assert [it.advice.check for it in findings] == ([] if is_reachable else ["unreachable-tier"])


def test_a_higher_tier_may_ask_for_the_same_for_longer() -> None:
    longer = RUNBOOK + "        for: 5m\n"
    low = rule("ds4_queue_depth > 20")
    assert found(low, rule("ds4_queue_depth > 20", severity="critical", more=longer)) == []


def test_a_tier_without_a_runbook_is_pointed_out() -> None:
    (finding,) = found(rule("ds4_queue_depth > 20", severity="critical", more=""))
    assert finding.advice.check is Check.NO_RUNBOOK
    assert "critical" in finding.advice.what


def test_a_for_below_the_interval_says_nothing() -> None:
    waits = rule("ds4_queue_depth > 20", more=RUNBOOK + "        for: 10s\n")
    (finding,) = found(waits)
    assert (finding.advice.check, finding.line) == (Check.SHORT_FOR, 8)
    assert found(waits, interval=1.0) == []


@pytest.mark.parametrize("path", sorted((ROOT / "rules").glob("*.yml")), ids=lambda it: it.name)
def test_the_shipped_rules_have_nothing_to_point_out(path: Path) -> None:
    read = read_rules(path.read_text(), path.name)
    assert [str(it) for it in lint([read], KnownMetrics(), interval_seconds=1.0)] == []


@with_others
def test_what_is_pointed_out_in_rules_by_others_is_true() -> None:
    said = {
        (it.file, it.rule, it.advice.check)
        for path in sorted(BY_OTHERS.glob("rules-awesome-*.yml"))
        for it in lint(
            [read_rules(path.read_text(), path.name)], KnownMetrics(), interval_seconds=15
        )
        if it.advice.check not in (Check.UNKNOWN_METRIC, Check.NO_RUNBOOK)
    }
    assert said == {
        ("rules-awesome-litellm.yml", "LitellmProxyFailedRequestsRateHigh", "unguarded-ratio"),
        ("rules-awesome-node.yml", "HostContextSwitchingHigh", "unguarded-ratio"),
        ("rules-awesome-prom-self.yml", "PrometheusTargetScrapingSlow", "unguarded-ratio"),
    } | {
        ("rules-awesome-node.yml", f"HostNetwork{way}Errors", "no-traffic-guard")
        for way in ("Receive", "Transmit")
    }
