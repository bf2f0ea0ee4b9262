"""What pages of routers mean: requests, retries, errors; bounded whatever their labels."""

from __future__ import annotations

from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary.compile import Origin
from tests.unit.vocabulary.pages import everything, load, plan_of, signals

AT = Origin("edge", "box")


def test_vllm_router_is_a_router_and_no_engine() -> None:
    page = {
        'vllm_router_requests_total{route="/v1/chat/completions"}': 10.0,
        'vllm_router_requests_total{route="/v1/completions"}': 4.0,
        'vllm_router_retries_total{route="/v1/completions"}': 3.0,
        'vllm_router_request_errors_total{route="/v1/completions",error_type="timeout"}': 2.0,
        'vllm_router_request_errors_total{route="/v1/chat/completions",error_type="timeout"}': 1.0,
        "vllm_router_active_workers": 4.0,
    }
    assert everything(page, AT) == {
        ("ds4_router_requests_total", "", "edge"): 14,
        ("ds4_router_retries_total", "", "edge"): 3,
        ("ds4_router_errors_total", "", "timeout", "edge"): 3,
    }
    assert plan_of(page, AT).local


def test_production_stacks_router_does_not_count_its_workers_a_second_time() -> None:
    page = {
        'vllm:num_requests_running{server="http://a:8000"}': 5.0,
        'vllm:num_requests_waiting{server="http://a:8000"}': 60.0,
        'vllm:healthy_pods_total{server="http://a:8000"}': 1.0,
        'vllm:num_incoming_requests_total{model="m"}': 12.0,
        'vllm:request_errors_total{server="http://a:8000",model="m",error_type="5xx"}': 2.0,
    }
    assert load(page) == WorkerLoad()
    assert everything(page, AT) == {
        ("ds4_router_requests_total", "m", "edge"): 12,
        ("ds4_router_errors_total", "m", "5xx", "edge"): 2,
    }


def test_litellm_is_added_up_over_keys_and_teams() -> None:
    page = {
        f'litellm_proxy_total_requests_metric_total{{requested_model="m",api_key_alias="{n}"}}': 2.0
        for n in range(200)
    }
    failed = 'requested_model="m",exception_class="Timeout"'
    page |= {
        f'litellm_proxy_failed_requests_metric_total{{{failed},team="a"}}': 1.0,
        f'litellm_proxy_failed_requests_metric_total{{{failed},team="b"}}': 4.0,
        f"litellm_deployment_failure_responses_total{{{failed}}}": 90.0,
        f"litellm_deployment_successful_fallbacks_total{{{failed}}}": 7.0,
        f"litellm_deployment_failed_fallbacks_total{{{failed}}}": 1.0,
    }
    assert signals(page, AT) == {
        ("ds4_router_requests_total", "m", "edge"): 400,
        ("ds4_router_errors_total", "m", "Timeout", "edge"): 5,
        ("ds4_router_retries_total", "m", "Timeout", "edge"): 8,
    }


def test_reasons_without_end_are_folded() -> None:
    page = {
        f'vllm_router_request_errors_total{{route="r",error_type="e{n}"}}': 1.0 for n in range(900)
    }
    found = signals(page, AT)
    assert len(found) == 65
    assert sum(found.values()) == 900
