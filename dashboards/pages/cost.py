"""What the fleet costs, and what drives it."""

from __future__ import annotations

from dashboards.kit.views import RATE, Page, Section, graph, stat
from dashboards.pages.common import ALL_REQUESTS, CURRENCY

_PER_HOUR = 'sum by (currency) (ds4_cost_per_hour{currency=~"$currency"})'
_SPENT = 'ds4_cost_spent_total{currency=~"$currency"}'
_GENERATED = f"scalar(sum(rate(ds4_generated_tokens_total{RATE})))"
_PER_TOKENS = f"{_PER_HOUR} / (3600 * {_GENERATED}) * 1000"
_PER_REQUEST = f"{_PER_HOUR} / (3600 * scalar({ALL_REQUESTS}))"
_USED = "ds4_cost_used_total"
_CHOSEN = 'currency=~"$currency"'
_BY_STAGE = f"sum by (stage, currency) (rate({_USED}{{{_CHOSEN}}}{RATE})) * 3600"


def _of_stages(stages: str) -> str:
    """Return what these stages cost, by profile."""
    return f'sum by (profile) (rate({_USED}{{stage=~"{stages}",{_CHOSEN}}}{RATE}))'


_OFF = (
    f"abs(ds4_cost_hour_so_far{{{_CHOSEN}}} / on (measure, currency) group_right ()"
    f' ds4_cost_hour_expected{{basis="median",{_CHOSEN}}} - 1)'
)
_NO_PAST = "without history, and in the first ten minutes of an hour"
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
_HOUR = (
    graph(
        "This hour so far",
        "none",
        "Money of the running hour (UTC): spent, of it used with requests running, and used for "
        "1,000 tokens.",
        (f"ds4_cost_hour_so_far{{{_CHOSEN}}}", "{{measure}} {{currency}}"),
        (
            f'ds4_cost_hour_expected{{basis="median",{_CHOSEN}}}',
            "{{measure}} {{currency}}, as the same hour of earlier days",
        ),
        may_be_empty="until the first minute of the hour was watched",
    ),
    graph(
        "Off the same hour of earlier days",
        "percentunit",
        "How far the running hour is above or below the median of up to seven earlier ones.",
        (_OFF, "{{measure}} {{currency}}"),
        alert="HourlyCostOff",
        may_be_empty=_NO_PAST,
    ),
)
_BUDGET = "{{who}} ({{scope}}), this {{period}}, {{currency}}"
_LIMIT = f"ds4_cost_budget_limit{{{_CHOSEN}}}"
_NO_BUDGET = "without `budgets`"
_NO_DRIVERS = "without earlier days, and in the first minutes of an hour"
_BUDGETS = (
    graph(
        "Of budgets, spent",
        "percentunit",
        "Share of each budget that its period has spent so far.",
        (f"ds4_cost_budget_spent{{{_CHOSEN}}} / {_LIMIT}", _BUDGET),
        alert="BudgetUsed",
        may_be_empty=_NO_BUDGET,
    ),
    graph(
        "Of budgets, what the period comes to",
        "percentunit",
        "If the rest of the period is like the last 24 hours.",
        (f"ds4_cost_budget_projected{{{_CHOSEN}}} / {_LIMIT}", _BUDGET),
        alert="BudgetProjected",
        may_be_empty=_NO_BUDGET,
    ),
)
_UNUSUAL = (
    graph(
        "How unusual each driver of cost is",
        "none",
        "Over 1, or under -1: unlike the same hour of earlier days and the last hours.",
        (f"ds4_cost_anomaly_score{{{_CHOSEN}}}", "{{driver}} {{currency}}"),
        may_be_empty=_NO_DRIVERS,
        is_signed=True,
    ),
    graph(
        "Money of this hour that is due to it",
        "none",
        "More than usual, or less (negative), by what moves the cost.",
        (f"ds4_cost_anomaly_impact{{{_CHOSEN}}}", "{{driver}} {{currency}}"),
        may_be_empty=_NO_DRIVERS,
        is_signed=True,
    ),
)
_DRIVERS = (
    graph(
        "Cost of the time with requests, by stage",
        "none",
        "Money an hour, by the time that requests spend in prefill and in decode.",
        (_BY_STAGE, "{{stage}} {{currency}}"),
        is_stacked=True,
    ),
    graph(
        "Prefill's share of the cost",
        "percentunit",
        "Of what prefill and decode cost, by profile.",
        (
            f"{_of_stages('prefill')} / {_of_stages('prefill|decode')}",
            "{{profile}}",
        ),
        alert="PrefillCostShareHigh",
        maximum=1.0,
    ),
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
        Section("This hour", _HOUR),
        Section("Budgets", _BUDGETS),
        Section("What is unusual", _UNUSUAL),
        Section("What drives it", _DRIVERS),
    ),
)
