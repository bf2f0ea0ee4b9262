"""The names of what ds4watch says of cost and quality."""

from __future__ import annotations

from ds4watch.vocabulary.signal import counter, gauge, histogram

_BUDGET = ("scope", "who", "period", "currency")

COST_SIGNALS = (
    gauge("ds4_cost_per_hour", "Price of an hour of all workers that run.", "currency"),
    counter("ds4_cost_spent_total", "Money spent, from the ledger.", "currency"),
    counter(
        "ds4_cost_used_total",
        "Money of the time with requests running, since the start, by stage time: prefill, decode,"
        " or unknown while no request of the last minute was timed.",
        "profile",
        "stage",
        "currency",
    ),
    gauge(
        "ds4_cost_hour_so_far",
        "Money of the running hour (UTC) of the time that was watched: spent; used, with requests"
        " running; used_per_1k_tokens, absent under 1,000 tokens.",
        "measure",
        "currency",
    ),
    gauge(
        "ds4_cost_hour_part",
        "Money of the running hour (UTC) by what it is spent on, as docs/cost.md has it; of all"
        " workers, summing to what they cost. `method` says how the part is known.",
        "part",
        "method",
        "currency",
    ),
    gauge(
        "ds4_cost_hour_context",
        "Money of the running hour with requests running, by the tokens of their prompts: up to"
        " 1k, 2k, 4k, … 128k, over; shared out by tokens computed.",
        "band",
        "currency",
    ),
    gauge(
        "ds4_context_hour_requests",
        "Requests that ended in the running hour, by the tokens of their prompts.",
        "band",
    ),
    gauge(
        "ds4_context_hour_seconds",
        "Time that these were at workers, added up.",
        "band",
    ),
    gauge(
        "ds4_context_hour_kv_token_seconds",
        "Tokens that these kept in KV caches (the prompt, half of the answer) times that time.",
        "band",
    ),
    gauge(
        "ds4_cost_hour_expected",
        "What `ds4_cost_hour_so_far` would be if the hour were like the same one `yesterday`, or"
        " the `median` of up to 7 earlier days (weekdays and weekends apart; else the hour before)."
        " Absent without history, for ten minutes, and where 5 % of an hour was not watched.",
        "measure",
        "basis",
        "currency",
    ),
    gauge(
        "ds4_cost_hour_difference",
        "Money by which the running hour is above what is expected, or below (negative).",
        "measure",
        "basis",
        "currency",
    ),
    gauge(
        "ds4_cost_anomaly_deviation_ratio",
        "How far what moves the running hour's cost (`driver`) is from what the same hour of"
        " earlier days and the last hours let expect: 0.5 is half more. Absent where"
        " `ds4_cost_hour_expected` is, and without two days and 24 hours of history.",
        "driver",
        "currency",
    ),
    gauge(
        "ds4_cost_anomaly_score",
        "The same over the bound at which it is unusual: over 1 or under -1 is an anomaly.",
        "driver",
        "currency",
    ),
    gauge(
        "ds4_cost_anomaly_impact",
        "Money of the running hour, so far, that is due to it; negative: less than usual.",
        "driver",
        "currency",
    ),
    gauge(
        "ds4_cost_budget_limit",
        "A budget: money for a period of UTC. `scope` is total, key or model, `who` its name;"
        " `api_key`: a key's own (of 100 keys at most), which is for money of busy workers.",
        *_BUDGET,
    ),
    gauge(
        "ds4_cost_budget_spent",
        "Money of it spent so far. A key or a model has its share, by tokens computed, of the hours"
        " in which it had requests.",
        *_BUDGET,
    ),
    gauge(
        "ds4_cost_budget_projected",
        "What the period comes to if the rest of it is like the last 24 hours (an hour: like its"
        " time so far). Absent in the first hour, of an hour in the first ten minutes.",
        *_BUDGET,
    ),
    gauge(
        "ds4_cost_budget_lasts_seconds",
        "Of a budget that would be gone within half an hour: how long the rest of it lasts at the"
        " speed of the last minute (without its largest step). Absent else, if it lasts beyond the"
        " period, before 5 % of it is spent, and once all is.",
        *_BUDGET,
    ),
)

KEY_BUDGET_SIGNALS = (
    gauge(
        "ds4_key_budget_easing",
        "How far a key is degraded before its own budget runs out: 0 not, 1 gently, 2 firmly.",
        "key",
    ),
    gauge(
        "ds4_model_budget_easing",
        "How far requests for a model are degraded before its budget of `cost.budgets` runs out:"
        " 0 not, 1 gently, 2 firmly.",
        "model",
    ),
)

_OPENCOST = ("model_name", "model_version", "namespace", "workload_type")

OPENCOST_SIGNALS = (
    gauge(
        "llm_total_hourly_cost",
        "As OpenCost's: what a model's workers cost an hour now (`cost_basis` allocation), or the"
        " busy part of it (usage), in the currency of the settings.",
        *_OPENCOST,
        "cost_basis",
    ),
    gauge(
        "llm_cost_per_million_tokens",
        "As OpenCost's: money for a million tokens, of the running hour and the one before. Without"
        " `phase` of all tokens; `prompt` and `generation` by `allocation_method`: compute_time, or"
        " multiplier (2.5 for a token of an answer). Absent under 1,000 tokens.",
        *_OPENCOST,
        "cost_basis",
        "phase",
        "allocation_method",
    ),
    gauge(
        "llm_cache_savings_fraction",
        "As OpenCost's: share of prompt tokens from the prefix cache, of the same time.",
        *_OPENCOST,
    ),
)
REGRET_EDGES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

QUALITY_SIGNALS = (
    histogram(
        "ds4_route_regret_seconds",
        "By how much another worker would have answered sooner, in hindsight: of one in eight"
        " streamed requests, by what up to eight others answered at about the same time.",
        edges=REGRET_EDGES,
    ),
    gauge(
        "ds4_slo_cost_per_thousand_tokens",
        "Money of a profile's workers in the last 10 minutes by 1,000 tokens, prompt and answer, of"
        " requests answered within quality.slo_seconds.",
        "profile",
        "currency",
    ),
    gauge(
        "ds4_quantization_error",
        "Divergence of a quantized profile from its reference on fixed prompts. `metric` is"
        " mean_abs_delta_logp, mean_kl_nats, kl_tail_mass_ratio, top1_agreement_ratio or"
        " perplexity_ratio (docs/quality.md).",
        "profile",
        "reference",
        "metric",
    ),
    gauge(
        "ds4_start_check_doubt",
        "1: the worker serves though it did not give at its start what its profile gave before,"
        " and nobody else could serve, or engine, GPU or batch are others than then.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_quality_accuracy_drop_points",
        "Percentage points by which a profile answers fewer golden questions right than its"
        " reference, the same questions for both. Absent until measured.",
        "profile",
        "reference",
    ),
    gauge(
        "ds4_quality_class_loss_points",
        "The same by class of work.",
        "profile",
        "reference",
        "class",
    ),
    gauge(
        "ds4_quality_class_loss_least_points",
        "What of it is lost at least, with 95 % certainty; below 0 where nothing is proved.",
        "profile",
        "reference",
        "class",
    ),
    gauge(
        "ds4_quality_measured_timestamp_seconds",
        "End of the last measurement of a profile against its reference.",
        "profile",
        "reference",
        "metric",
    ),
)
