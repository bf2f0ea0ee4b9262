"""What the fleet costs, and what drives it."""

from __future__ import annotations

from dashboards.kit.views import RATE, Page, Section, graph, stat
from dashboards.pages.common import ALL_REQUESTS, CURRENCY

_PER_HOUR = 'sum by (currency) (ds4_cost_per_hour{currency=~"$currency"})'
_SPENT = 'ds4_cost_spent_total{currency=~"$currency"}'
_GENERATED = f"scalar(sum(rate(ds4_generated_tokens_total{RATE})))"
_PER_TOKENS = f"{_PER_HOUR} / (3600 * {_GENERATED}) * 1000"
_PER_REQUEST = f"{_PER_HOUR} / (3600 * scalar({ALL_REQUESTS}))"
_IDLE = "avg(ds4_running_requests == bool 0)"
_MOST, _LEAST = (f"{it}_over_time({_SPENT}[$__range])" for it in ("max", "min"))

_NOW = (
    stat(
        "Cost an hour",
        "none",
        "Price of an hour of the workers that run now.",
        (_PER_HOUR, "{{currency}}"),
        decimals=2,
    ),
    stat(
        "Spent in the time shown",
        "none",
        "Difference of the ledger's total between the ends; nothing is estimated.",
        (
            f"max by (currency) ({_MOST} - {_LEAST})",
            "{{currency}}",
        ),
        decimals=2,
    ),
    stat(
        "Spent since the beginning",
        "none",
        "All that is in the ledger.",
        (f"max by (currency) ({_SPENT})", "{{currency}}"),
        decimals=2,
    ),
    stat(
        "For 1,000 generated tokens",
        "none",
        "What all workers cost at this pace of tokens; much, where they idle.",
        (_PER_TOKENS, "{{currency}}"),
        decimals=4,
    ),
    stat(
        "For a request",
        "none",
        "What all workers cost at this pace of requests at the gateway.",
        (_PER_REQUEST, "{{currency}}"),
        decimals=4,
    ),
    stat(
        "Workers that idle",
        "percentunit",
        "Share of the workers that are paid for and have no request in the batch.",
        (_IDLE, "idle"),
        decimals=0,
    ),
)
_MONEY = (
    graph(
        "Cost an hour",
        "none",
        "Price of an hour of all workers that run, now and at the same time a day before.",
        (_PER_HOUR, "{{currency}}"),
        (
            'sum by (currency) (ds4_cost_per_hour{currency=~"$currency"} offset 1d)',
            "{{currency}}, a day before",
        ),
    ),
    graph(
        "Spent",
        "none",
        "The ledger's total.",
        (f"max by (currency) ({_SPENT})", "{{currency}}"),
        decimals=2,
    ),
    graph(
        "For 1,000 generated tokens",
        "none",
        "What all workers cost at the pace of that moment.",
        (_PER_TOKENS, "{{currency}}"),
    ),
    graph(
        "Workers that idle",
        "percentunit",
        "Share of the workers with no request in the batch.",
        (_IDLE, "idle"),
        maximum=1.0,
    ),
)
_DRIVERS = (
    graph(
        "What tokens were",
        "none",
        "Tokens a second. Computed in prefill and generated ones take time on a GPU, cached ones "
        "nearly none.",
        (f"sum(rate(ds4_generated_tokens_total{RATE}))", "generated"),
        (f"sum(rate(ds4_prefill_tokens_total{RATE}))", "computed in prefill"),
        (f"sum(rate(ds4_cached_tokens_total{RATE}))", "cached"),
        is_stacked=True,
    ),
    graph(
        "Prefill's share of the tokens",
        "percentunit",
        "Computed prompt tokens, of these and the generated ones, over 60 s.",
        ("max by (worker) (ds4_prefill_token_ratio)", "{{worker}}"),
        alert="PrefillShareHigh",
        maximum=1.0,
    ),
    graph(
        "Prefill's share of the time",
        "percentunit",
        "Of the time that finished requests spent in prefill and decode, over 60 s.",
        ("max by (worker) (ds4_prefill_time_ratio)", "{{worker}}"),
        maximum=1.0,
    ),
    graph(
        "Work done twice",
        "none",
        "A second: attempts given up for another worker, and requests put back for want of room.",
        (f"sum(rate(ds4_retry_count_total{RATE}))", "retries"),
        (f"sum(rate(ds4_preemptions_total{RATE}))", "preemptions"),
    ),
)
COST = Page(
    name="cost",
    title="ds4watch: cost",
    text="What the fleet costs, for what, and what makes it dear.",
    variables=(CURRENCY,),
    sections=(
        Section("Now", _NOW),
        Section("Money", _MONEY),
        Section("What drives it", _DRIVERS),
    ),
)
