"""What clients see: requests, answer times, errors, retries."""

from __future__ import annotations

from dashboards.kit.views import RATE, Page, Section, graph, stat
from dashboards.pages.common import (
    DURATIONS,
    FAILED_SHARE,
    MODEL,
    REQUESTS,
    RETRY_SHARE,
    answer_time,
)

_CHOSEN = f'rate({REQUESTS}{{model=~"$model"}}{RATE})'
_IN_TIME = 1.2
_COUNT = f"sum(rate({DURATIONS}_count{RATE}))"
_ROUTERS = "without a router (vllm-router, production-stack, LiteLLM) among the targets"

_NOW = (
    stat("Requests a second", "reqps", "Requests that ended.", (f"sum({_CHOSEN})", "requests")),
    stat(
        "Requests open",
        "none",
        "At all gateways, asked each tick.",
        ("sum(ds4_gateway_inflight_requests)", "open"),
    ),
    stat(
        "95 % answered within",
        "s",
        "Arrival to end of the answer; estimated within a bucket.",
        (answer_time(0.95), "95 %"),
        alert="LatencyHigh",
        decimals=2,
    ),
    stat(
        "Requests that fail",
        "percentunit",
        "No worker answered them, or they were turned away.",
        (FAILED_SHARE, "failed"),
        alert="ErrorsHigh",
        decimals=2,
    ),
    stat(
        "Attempts given up",
        "percentunit",
        "Retries at another worker, of all requests.",
        (RETRY_SHARE, "retries"),
        alert="RetriesHigh",
        decimals=2,
    ),
    stat(
        f"Answered within {_IN_TIME} s",
        "percentunit",
        "Share of answered requests; exact, for it is an edge of a bucket.",
        (f'sum(rate({DURATIONS}_bucket{{le="{_IN_TIME}"}}{RATE})) / {_COUNT}', "in time"),
        decimals=1,
    ),
)
_REQUESTS = (
    graph(
        "Requests a second, by outcome",
        "reqps",
        "How they ended: ok, upstream_error, shed, and what clients did wrong or gave up.",
        (f"sum by (outcome) ({_CHOSEN})", "{{outcome}}"),
        is_stacked=True,
    ),
    graph(
        "Requests a second, by model",
        "reqps",
        "By the model that answered; unknown where none did.",
        (f"sum by (model) ({_CHOSEN})", "{{model}}"),
        is_stacked=True,
    ),
    graph(
        "Answer time",
        "s",
        "From a request's arrival to its end, of answered ones; estimated within a bucket.",
        *((answer_time(it), f"{it:.0%} under") for it in (0.5, 0.95, 0.99)),
        alert="LatencyHigh",
    ),
    graph(
        "Requests open",
        "none",
        "At all gateways.",
        ("sum(ds4_gateway_inflight_requests)", "open"),
    ),
)
_TROUBLE = (
    graph(
        "Requests that fail",
        "percentunit",
        "Share of all that no worker answered, or that were turned away.",
        (FAILED_SHARE, "failed"),
        alert="ErrorsHigh",
    ),
    graph(
        "Attempts given up, of all requests",
        "percentunit",
        "Clients do not see these, apart from the time they take.",
        (RETRY_SHARE, "retries"),
        alert="RetriesHigh",
    ),
    graph(
        "Attempts given up a second, by reason",
        "none",
        "Each went to another worker.",
        (f"sum by (reason) (rate(ds4_retry_count_total{RATE}))", "{{reason}}"),
        is_stacked=True,
    ),
    graph(
        "Mean answer time",
        "s",
        "Of answered requests.",
        (f"sum(rate({DURATIONS}_sum{RATE})) / {_COUNT}", "mean"),
    ),
)
_OTHERS = (
    graph(
        "Requests a second at routers",
        "reqps",
        "Routers of others in front of workers.",
        (f"sum by (router) (rate(ds4_router_requests_total{RATE}))", "{{router}}"),
        may_be_empty=_ROUTERS,
    ),
    graph(
        "Retries and errors a second at routers",
        "reqps",
        "As the routers count them.",
        (f"sum by (router) (rate(ds4_router_retries_total{RATE}))", "{{router}} retries"),
        (f"sum by (router) (rate(ds4_router_errors_total{RATE}))", "{{router}} errors"),
        may_be_empty=_ROUTERS,
    ),
)
GATEWAY = Page(
    name="gateway",
    title="ds4watch: gateway",
    text="What clients see: requests, answer times, errors, retries.",
    variables=(MODEL,),
    sections=(
        Section("Now", _NOW),
        Section("Requests", _REQUESTS),
        Section("Trouble", _TROUBLE),
        Section("Other routers", _OTHERS),
    ),
)
