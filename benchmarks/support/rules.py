"""Fifty rules as people write them for vLLM, none of which fires; for us and for Prometheus."""

from __future__ import annotations

from typing import Any

import yaml

_GAUGES = (
    "vllm:num_requests_waiting > 1000",
    "vllm:num_requests_running > 1000",
    "vllm:kv_cache_usage_perc > 100",
    "sum by (model_name) (vllm:num_requests_waiting) > 1e9",
    "sum(vllm:num_requests_running) > 1e9",
    "max by (model_name) (vllm:kv_cache_usage_perc) > 100",
    "avg(vllm:kv_cache_usage_perc) > 100",
    "vllm:num_requests_waiting > 1000 and vllm:kv_cache_usage_perc > 100",
    "up == 0",
    "count(up == 0) / count(up) > 0.3",
    'absent(up{job="bench"})',
    "scrape_duration_seconds > 100",
    "scrape_samples_scraped == 0",
)
_COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:num_preemptions_total",
    "vllm:request_success_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:iteration_tokens_total_count",
)
_PER_COUNTER = (
    "rate({0}[1m]) > 1e12",
    "sum by (model_name) (rate({0}[5m])) > 1e12",
    "increase({0}[5m]) > 1e15",
)
_RATIOS = (
    (
        "1 - sum by (instance) (rate(vllm:prefix_cache_hits_total[5m])) / "
        "sum by (instance) (rate(vllm:prefix_cache_queries_total[5m])) > 1e6"
    ),
    (
        "sum(rate(vllm:request_prefill_time_seconds_sum[5m])) / "
        "(sum(rate(vllm:request_prefill_time_seconds_sum[5m])) + "
        "sum(rate(vllm:request_decode_time_seconds_sum[5m]))) > 1e6"
    ),
    (
        "rate(vllm:e2e_request_latency_seconds_sum[5m]) / "
        "rate(vllm:e2e_request_latency_seconds_count[5m]) > 1e12"
    ),
    (
        "histogram_quantile(0.95, sum by (le) "
        "(rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 1e9"
    ),
    (
        "histogram_quantile(0.95, sum by (le, model_name) "
        "(rate(vllm:e2e_request_latency_seconds_bucket[1m]))) > 1e9"
    ),
    "max_over_time(vllm:num_requests_waiting[1m]) > 1e6",
    "avg_over_time(vllm:kv_cache_usage_perc[5m]) > 100",
    "changes(vllm:num_preemptions_total[5m]) > 1e6",
    "resets(vllm:generation_tokens_total[5m]) > 1e6",
    (
        "rate(vllm:generation_tokens_total[1m]) / on (instance) group_left () "
        "sum by (instance) (vllm:num_requests_running + 1) > 1e12"
    ),
    (
        "(vllm:num_requests_running > 1000) unless on (instance) "
        "(rate(vllm:iteration_tokens_total_count[1m]) > -1)"
    ),
    "deriv(vllm:kv_cache_usage_perc[1m]) > 1e9",
    "sum without (instance) (vllm:num_requests_waiting) > 1e9",
)


def expressions() -> list[str]:
    """Return the fifty."""
    counted = [form.format(name) for name in _COUNTERS for form in _PER_COUNTER]
    found = [*_GAUGES, *counted, *_RATIOS]
    assert len(found) == 50, len(found)
    return found


def rule_file() -> str:
    """Return a rule file; evaluated each second."""
    rules: list[dict[str, Any]] = [
        {"alert": f"Bench{number:02}", "expr": expr, "for": "1m", "labels": {"severity": "info"}}
        for number, expr in enumerate(expressions())
    ]
    return yaml.safe_dump({"groups": [{"name": "bench", "interval": "1s", "rules": rules}]})
