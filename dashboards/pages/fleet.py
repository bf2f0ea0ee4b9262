"""The fleet at a glance."""

from __future__ import annotations

from dashboards.kit.views import RATE, Codes, Page, Section, graph, stat, table, timeline
from dashboards.pages.common import (
    CHOSEN,
    FAILED_SHARE,
    FIRING,
    LEVEL,
    NVML,
    PROFILE,
    WAITING,
    WORKER,
    phase,
)

_NOW = (
    stat(
        "Level in force",
        "none",
        "Degradation level of the service; normal is level 0.",
        (LEVEL, "{{pool}}"),
        codes=Codes.LEVEL,
    ),
    stat(
        "Ready workers missing",
        "none",
        "How many are ready less than fleet.min_hot, or than all where there are fewer.",
        ("max(ds4_hot_workers_missing)", "missing"),
        alert="FewHotWorkers",
    ),
    stat(
        "Requests waiting",
        "none",
        "In the queues of all engines whose figures move.",
        (WAITING, "waiting"),
        alert="QueueDepthHigh",
    ),
    stat(
        "Alerts firing",
        "none",
        "By tier; the watchdog, which always fires, is left out.",
        (FIRING, "{{severity}}"),
    ),
    stat(
        "Requests that fail",
        "percentunit",
        "Share that no worker answered, or that was turned away, at the gateway.",
        (FAILED_SHARE, "failed"),
        alert="ErrorsHigh",
        decimals=2,
    ),
    stat(
        "Cost an hour",
        "none",
        "Price of an hour of the workers that run now.",
        ("sum by (currency) (ds4_cost_per_hour)", "{{currency}}"),
        decimals=2,
    ),
)
_WORKERS = (
    table(
        "Workers",
        "Each worker as it is now; click a name to see that worker alone.",
        (phase('profile=~"$profile",worker=~"$worker"'), "state"),
        (f"max by (worker) (ds4_worker_alert_tier{CHOSEN})", "highest alert"),
        (f"sum by (worker) (ds4_queue_depth{CHOSEN})", "waiting"),
        (f"sum by (worker) (ds4_running_requests{CHOSEN})", "running"),
        (f"max by (worker) (ds4_kv_usage_ratio{CHOSEN})", "KV cache"),
        (f"sum by (worker) (ds4_tokens_per_second{CHOSEN})", "tokens/s"),
        (f"max by (worker) (ds4_cache_miss_ratio{CHOSEN})", "cache misses"),
    ),
    timeline(
        "States",
        "The state each worker was in.",
        (phase('profile=~"$profile",worker=~"$worker"'), "{{worker}}"),
        codes=Codes.PHASE,
    ),
    timeline(
        "Highest alert of each worker",
        "The highest tier that fired about it.",
        (f"max by (worker) (ds4_worker_alert_tier{CHOSEN})", "{{worker}}"),
        codes=Codes.TIER,
    ),
)
_LOAD = (
    graph(
        "Requests waiting, all engines",
        "none",
        "What the alert looks at: the queues of all engines whose figures move.",
        (WAITING, "waiting"),
        alert="QueueDepthHigh",
    ),
    graph(
        "Requests in the engines",
        "none",
        "Running: in the batch. Waiting: not yet.",
        (f"sum by (worker) (ds4_running_requests{CHOSEN})", "{{worker}} running"),
        (f"sum by (worker) (ds4_queue_depth{CHOSEN})", "{{worker}} waiting"),
    ),
    graph(
        "Tokens a second",
        "none",
        "Over 60 s; absent without traffic. Prompt tokens include cached ones.",
        (f"sum by (worker, kind) (ds4_tokens_per_second{CHOSEN})", "{{worker}} {{kind}}"),
    ),
    graph(
        "KV cache in use",
        "percentunit",
        "Room for tokens taken, of the fullest engine of each worker.",
        (f"max by (worker) (ds4_kv_usage_ratio{CHOSEN})", "{{worker}}"),
        alert="KvCachePressure",
        maximum=1.0,
    ),
)
_EFFICIENCY = (
    graph(
        "Prompt tokens that miss the cache",
        "percentunit",
        "Of all prompt tokens, over 60 s; each is computed in prefill.",
        (f"max by (worker) (ds4_cache_miss_ratio{CHOSEN})", "{{worker}}"),
        alert="CacheMissHigh",
        maximum=1.0,
    ),
    graph(
        "Prefill's share of the tokens",
        "percentunit",
        "Computed prompt tokens, of these and the generated ones, over 60 s.",
        (f"max by (worker) (ds4_prefill_token_ratio{CHOSEN})", "{{worker}}"),
        alert="PrefillShareHigh",
        maximum=1.0,
    ),
    graph(
        "Preemptions a second",
        "none",
        "Requests put back for want of KV cache; their tokens are computed again.",
        (f"sum by (worker) (rate(ds4_preemptions_total{CHOSEN}{RATE}))", "{{worker}}"),
        alert="PreemptionsHigh",
    ),
    graph(
        "GPU memory in use",
        "percentunit",
        "Of the whole device. An engine takes its share at its start and keeps it.",
        ("ds4_gpu_memory_used_bytes / ds4_gpu_memory_total_bytes", "GPU {{gpu}} {{host}}"),
        alert="GpuMemoryNearlyFull",
        maximum=1.0,
        may_be_empty=NVML,
    ),
)
_WATCHER = (
    graph(
        "Scrapes a second",
        "none",
        "How often pages were asked for, and how many gave nothing.",
        (f"sum(rate(ds4_scrapes_total{RATE}))", "all"),
        (f"sum(rate(ds4_scrape_failures_total{RATE})) or vector(0)", "failed"),
        width=8,
    ),
    graph(
        "Duration of a tick",
        "s",
        "Mean, and what 95 % stay under, estimated within a bucket; the wave of scrapes included.",
        (f"rate(ds4_tick_seconds_sum{RATE}) / rate(ds4_tick_seconds_count{RATE})", "mean"),
        (
            f"histogram_quantile(0.95, sum by (le) (rate(ds4_tick_seconds_bucket{RATE})))",
            "95 % under",
        ),
        width=8,
    ),
    graph(
        "Scrapes that wait or are lost",
        "none",
        "Waiting: the database cannot be written. Lost: too many waited.",
        ("max(ds4_store_waiting_rows)", "waiting"),
        ("max(ds4_store_lost_rows_total)", "lost since the start"),
        alert="StoreFailing",
        width=8,
    ),
)
FLEET = Page(
    name="fleet",
    title="ds4watch: fleet",
    text="The fleet at a glance: state, load, efficiency, and the level in force.",
    variables=(PROFILE, WORKER),
    sections=(
        Section("Now", _NOW),
        Section("Workers", _WORKERS),
        Section("Load", _LOAD),
        Section("Efficiency", _EFFICIENCY),
        Section("ds4watch itself", _WATCHER),
    ),
)
