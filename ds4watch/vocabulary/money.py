"""The names of what ds4watch says of cost and quality."""

from __future__ import annotations

from ds4watch.vocabulary.signal import counter, gauge

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
        "A budget: money for a period of UTC. `scope` is total, key or model, `who` its name.",
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
)

QUALITY_SIGNALS = (
    gauge(
        "ds4_quantization_error",
        "Divergence of a quantized profile from its reference on fixed prompts.",
        "profile",
        "reference",
        "metric",
    ),
    gauge(
        "ds4_quality_accuracy_drop_points",
        "Percentage points by which a profile answers fewer golden questions right than its"
        " reference, the same questions for both. Absent until measured.",
        "profile",
        "reference",
    ),
    gauge(
        "ds4_quality_measured_timestamp_seconds",
        "End of the last measurement of a profile against its reference.",
        "profile",
        "reference",
        "metric",
    ),
)
