"""What routers in front of workers call their requests, retries and errors.

vllm-router: vllm-project/router, in Rust. The router of production-stack repeats its workers'
metrics too; those are read from the workers. LiteLLM's counters have a series for each key, team
and end user: only the model and the reason are kept.
"""

from __future__ import annotations

from ds4watch.vocabulary.table import Meaning, Pick, Source, plain

REQUESTS = "ds4_router_requests_total"
RETRIES = "ds4_router_retries_total"
ERRORS = "ds4_router_errors_total"

MODEL_LABELS = ("model", "requested_model", "litellm_model_name")
_REASON = (("error_type", "exception_class", "reason"), "reason")

_FALLBACKS = Source(
    (Pick("litellm_deployment_successful_fallbacks_total"),),
)
_FAILED_FALLBACKS = Source((Pick("litellm_deployment_failed_fallbacks_total"),))

ROUTER_MEANINGS = (
    Meaning(
        REQUESTS,
        plain(
            "vllm_router_requests_total",
            "vllm:num_incoming_requests_total",
            "litellm_proxy_total_requests_metric_total",
            "litellm_deployment_total_requests_total",
        ),
    ),
    Meaning(
        RETRIES,
        (
            *plain("vllm_router_retries_total"),
            Source((*_FALLBACKS.add, *_FAILED_FALLBACKS.add)),
            _FALLBACKS,
            _FAILED_FALLBACKS,
        ),
        split=_REASON,
    ),
    Meaning(
        ERRORS,
        plain(
            "vllm_router_request_errors_total",
            "vllm:request_errors_total",
            "litellm_proxy_failed_requests_metric_total",
            "litellm_deployment_failure_responses_total",
        ),
        split=_REASON,
    ),
)
