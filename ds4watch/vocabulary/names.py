"""Every name under which ds4watch exposes something: type, help, labels. One table."""

from __future__ import annotations

from ds4watch.vocabulary.money import (
    COST_SIGNALS,
    KEY_BUDGET_SIGNALS,
    OPENCOST_SIGNALS,
    QUALITY_SIGNALS,
)
from ds4watch.vocabulary.signal import Signal, SignalType, counter, gauge, histogram
from ds4watch.vocabulary.states import STATE_SIGNALS

PER_WORKER = ("worker", "profile", "model")
PER_ENGINE = (*PER_WORKER, "engine")
PER_GPU = ("gpu", "uuid", "mig", "host")
_MIG = "With `mig`, of that instance alone; without, of the whole GPU."
REQUEST_EDGES = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.2, 1.5, 2, 3, 5, 10, 30, 60, 120)
TICK_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10)

WORKER_SIGNALS = (
    counter("ds4_prompt_tokens_total", "Prompt tokens, cached ones included.", *PER_WORKER),
    counter("ds4_prefill_tokens_total", "Prompt tokens computed in prefill.", *PER_WORKER),
    counter(
        "ds4_cached_tokens_total", "Prompt tokens taken from a prefix or KV cache.", *PER_WORKER
    ),
    counter("ds4_generated_tokens_total", "Tokens generated.", *PER_WORKER),
    counter("ds4_prefill_seconds_total", "Time finished requests spent in prefill.", *PER_WORKER),
    counter("ds4_decode_seconds_total", "Time finished requests spent in decode.", *PER_WORKER),
    counter("ds4_preemptions_total", "Requests preempted for want of KV cache.", *PER_WORKER),
    counter("ds4_engine_steps_total", "Steps of the engine loop: its heartbeat.", *PER_WORKER),
    counter(
        "ds4_finished_requests_total",
        "Requests finished, by the engine's finish reason. vLLM may miss aborts by clients: a"
        " zero of `abort` is not believed; the gateway counts those.",
        *PER_WORKER,
        "reason",
    ),
    counter("ds4_queue_seconds_total", "Time finished requests spent in the queue.", *PER_WORKER),
    gauge("ds4_queue_depth", "Requests waiting in the engine.", *PER_WORKER),
    gauge("ds4_running_requests", "Requests in the running batch.", *PER_WORKER),
    gauge("ds4_kv_usage_ratio", "KV cache in use, 0 to 1; the fullest engine.", *PER_WORKER),
    gauge("ds4_swapped_requests", "Requests swapped out to CPU memory.", *PER_WORKER),
    gauge("ds4_cpu_kv_usage_ratio", "KV swap space in CPU memory in use, 0 to 1.", *PER_WORKER),
    gauge(
        "ds4_engine_running_requests", "Running requests of each of several engines.", *PER_ENGINE
    ),
    gauge("ds4_engine_queue_depth", "Waiting requests of each of several engines.", *PER_ENGINE),
    gauge("ds4_engine_kv_usage_ratio", "KV cache of each of several engines in use.", *PER_ENGINE),
    counter("ds4_engine_loop_steps_total", "Steps of each of several engines.", *PER_ENGINE),
    gauge("ds4_engines", "Engines on a worker's page, told by their label.", "worker", "profile"),
    gauge(
        "ds4_engines_missing",
        "Engines that were on a worker's page and are not; meanwhile what is summed over engines"
        " is absent. After 600 s the rest counts as the whole.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_engine_reported",
        "1 if a worker's page has metrics of an engine, 0 if it has none: unknown, not idle.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_gauges_stale",
        "1 if requests run or wait and no counter of the engine moved for 60 s, or only by canaries"
        " of our own: the gauges are frozen, or the requests stand still.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_cache_block_tokens",
        "Tokens of a KV cache block: a shared prefix shorter than that is never found.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_gpu_memory_granted_ratio",
        "Share of its GPU's memory that an engine may take, as it was told at its start, 0 to 1.",
        "worker",
        "profile",
    ),
    gauge("ds4_lora_running_adapters", "LoRA adapters in the batch.", "worker", "profile"),
    gauge("ds4_lora_waiting_adapters", "LoRA adapters waited for.", "worker", "profile"),
    gauge(
        "ds4_cache_miss_ratio",
        "Prompt tokens not found in the cache, of all, over 60 s; absent without prompts.",
        *PER_WORKER,
    ),
    gauge(
        "ds4_prefill_token_ratio",
        "Computed prompt tokens, of these and the generated, over 60 s; absent without traffic.",
        *PER_WORKER,
    ),
    gauge(
        "ds4_prefill_time_ratio",
        "Prefill time, of prefill and decode time, over 60 s; absent without finished requests.",
        *PER_WORKER,
    ),
    gauge(
        "ds4_tokens_per_second",
        "Tokens a second over 60 s, prompt or generated; absent without traffic.",
        *PER_WORKER,
        "kind",
    ),
    gauge(
        "ds4_vocabulary_missing",
        "1 for each signal that a worker's engine does not report, and why.",
        "worker",
        "profile",
        "signal",
        "why",
    ),
    gauge(
        "ds4_vocabulary_info",
        "1, with the engine of a worker's page and the generation of its metric names: the oldest"
        " version that has them all.",
        "worker",
        "profile",
        "engine",
        "generation",
    ),
)

GPU_SIGNALS = (
    gauge("ds4_gpu_memory_used_bytes", f"GPU memory in use. {_MIG}", *PER_GPU),
    gauge("ds4_gpu_memory_total_bytes", f"GPU memory there is. {_MIG}", *PER_GPU),
    gauge(
        "ds4_gpu_utilization_ratio",
        "Share of time a kernel ran; on MIG known of instances only, and from DCGM.",
        *PER_GPU,
    ),
    gauge("ds4_gpu_power_watts", "Power drawn.", *PER_GPU),
    gauge("ds4_gpu_temperature_celsius", "Temperature of the GPU.", *PER_GPU),
    gauge("ds4_gpu_last_xid", "Code of the last XID error, 0 for none.", *PER_GPU),
    counter(
        "ds4_gpu_ecc_errors_total",
        "Memory errors in the GPU's whole life (aggregate), corrected or uncorrected; an exporter"
        " without those gives the ones since its driver loaded.",
        *PER_GPU,
        "kind",
    ),
    gauge(
        "ds4_gpu_unavailable",
        "1 for each reading that a GPU does not give, or `all`, and why.",
        *PER_GPU,
        "reading",
        "why",
    ),
)
"""From NVML, without `host`; from the page of an exporter with it."""

ROUTER_SIGNALS = (
    counter("ds4_router_requests_total", "Requests at a router.", "router", "model"),
    counter(
        "ds4_router_retries_total", "Attempts repeated elsewhere.", "router", "model", "reason"
    ),
    counter("ds4_router_errors_total", "Requests that failed.", "router", "model", "reason"),
)
"""From the page of a router in front of workers: vllm-router, production-stack, LiteLLM."""

FLEET_SIGNALS = (
    *STATE_SIGNALS,
    *COST_SIGNALS,
    *KEY_BUDGET_SIGNALS,
    *OPENCOST_SIGNALS,
    gauge("ds4_degradation_level", "Degradation level in force; 0 is normal.", "pool"),
    gauge(
        "ds4_actions_attention",
        "Actions that want a person: to be approved, without effect, kept back by a shared cause.",
        "reason",
    ),
    counter("ds4_gateway_requests_total", "Requests ended at the gateway.", "outcome", "model"),
    histogram(
        "ds4_gateway_request_duration_seconds",
        "Time from a request's arrival to its end at the gateway.",
        edges=REQUEST_EDGES,
    ),
    counter(
        "ds4_output_filter_matches_total",
        "What the output filter found in answers.",
        "rule",
        "action",
    ),
    counter(
        "ds4_answers_scored_total",
        "Answers scored for the signs of a broken model; a sample of them all.",
        "worker",
        "profile",
    ),
    counter(
        "ds4_answer_score_sum_total",
        "Sum of their scores, each from 0 (repeats itself, mixes scripts, says nothing) to 1. By"
        " ds4_answers_scored_total, the mean.",
        "worker",
        "profile",
    ),
    gauge("ds4_gateway_inflight_requests", "Requests open at the gateway."),
    gauge(
        "ds4_gateway_set_aside",
        "Gateway processes that leave a worker out: unreachable, errors, slow, probe_failed; absent"
        " where none does.",
        "worker",
        "reason",
    ),
    gauge(
        "ds4_gateway_long_requests",
        "Long prompts at the gateways: open at workers, or waiting for their turn.",
        "state",
    ),
    gauge(
        "ds4_session_error_ratio",
        "Failed share of the requests of the last five minutes in conversations of more than 20"
        " turns; absent without any.",
    ),
    gauge("ds4_gateway_waiting_requests", "Requests that wait for a place.", "gateway"),
    counter("ds4_gateway_waited_total", "Requests that had to wait for a place.", "gateway"),
    counter("ds4_gateway_waited_seconds_total", "Time that requests waited for one.", "gateway"),
    counter("ds4_gateway_shed_total", "Requests turned away.", "reason", "gateway"),
    counter("ds4_gateway_abnormal_total", "Requests out of the ordinary.", "oddity", "gateway"),
    counter("ds4_gateway_degraded_total", "Changes made to requests.", "change", "gateway"),
    counter(
        "ds4_gateway_prefix_waits_total",
        "Requests that waited for one that begins alike.",
        "gateway",
    ),
    counter(
        "ds4_gateway_prefix_wait_seconds_total", "Time that requests waited for one.", "gateway"
    ),
    counter("ds4_gateway_compression_compressed_total", "Prompts made shorter.", "gateway"),
    counter(
        "ds4_gateway_compression_skipped_total",
        "Prompts that were to be compressed and were passed on whole: too large, too many at once, "
        "too slow, or a fault.",
        "gateway",
    ),
    counter(
        "ds4_gateway_compression_tokens_before_total",
        "Estimated tokens of prompts that were looked at.",
        "gateway",
    ),
    counter(
        "ds4_gateway_compression_tokens_after_total",
        "Estimated tokens of the same prompts as they were passed on.",
        "gateway",
    ),
    counter("ds4_retry_count_total", "Attempts given up for another worker.", "reason"),
    *QUALITY_SIGNALS,
    gauge(
        "ds4_alerts",
        "Alerts of a name and tier that are pending or firing; 0 where none is.",
        "alertname",
        "severity",
        "state",
    ),
    gauge(
        "ds4_worker_alert_tier",
        "Highest tier that fires about a worker: 0 none, 1 info, 2 warning, 3 critical.",
        "worker",
        "profile",
    ),
    gauge(
        "ds4_rule_evaluation_failed",
        "1 for a rule that could not be evaluated last time; its alerts stay as they are.",
        "group",
        "rule",
    ),
    gauge(
        "ds4_source_up",
        "1 if the server that evaluates rules answered last time, with data that are fresh enough,"
        " else 0; only with `source.kind: prometheus`.",
    ),
    gauge("ds4_source_data_age_seconds", "Age of the newest `up` on that server."),
    counter(
        "ds4_source_questions_total",
        "Questions to that server: ok, partial (it warned that something may be missing), failed.",
        "outcome",
    ),
    counter("ds4_samples_dropped_total", "Samples that rules do not see.", "reason"),
    counter(
        "ds4_scrapes_left_out_total",
        "Scrapes left out to spare targets whose pages are slow or time out.",
    ),
    gauge("ds4_store_waiting_rows", "Scrapes that wait for a database that fails."),
    counter("ds4_store_lost_rows_total", "Scrapes lost because too many waited."),
    counter(
        "ds4_store_damaged_parts_total",
        "Parts of the history that were left out since the start, for they are damaged.",
    ),
    gauge(
        "ds4_store_set_aside_timestamp_seconds",
        "When this daemon set a corrupt database aside; absent if it did not.",
        "store",
    ),
)

PROCESS_SIGNALS = (
    histogram("ds4_tick_seconds", "Duration of a tick, wave included.", edges=TICK_EDGES),
    histogram("ds4_wave_seconds", "Duration of a wave of scrapes.", edges=TICK_EDGES),
    counter("ds4_tick_overruns_total", "Ticks that took longer than the interval."),
    counter("ds4_scrapes_total", "Scrapes of targets, failed ones included."),
    counter("ds4_scrape_failures_total", "Scrapes that gave no samples.", "reason"),
    gauge("ds4_discovery_targets", "Targets of a scrape group.", "group"),
    counter(
        "ds4_discovery_failures_total",
        "Lists of targets that could not be had, and targets refused.",
        "group",
        "kind",
    ),
    gauge(
        "ds4_gpu_leftover_bytes",
        "Memory of a GPU still in use after the worker that used it has ended; 0 once it is free.",
        "device",
    ),
    counter("ds4_job_failures_total", "Runs of a job that failed.", "job"),
    gauge("ds4_job_last_success_timestamp_seconds", "End of a job's last good run.", "job"),
    counter("ds4_actions_total", "Actions, by how they ended.", "kind", "status"),
    counter("ds4_notifications_total", "Notifications, by outcome.", "channel", "outcome"),
    gauge("ds4_outbox_groups", "Messages that are due and not sent yet.", "channel"),
    gauge("ds4_outbox_oldest_seconds", "How long the longest of them has been due.", "channel"),
    gauge(
        "ds4_notify_channel_up", "1 while a channel takes messages, 0 while it does not.", "channel"
    ),
    counter("ds4_notify_commands_total", "Buttons pressed, by what came of it.", "outcome"),
    counter(
        "ds4_external_alerts_left_out_total",
        "Alerts of Alertmanager's webhook for which there was no room.",
    ),
    gauge(
        "ds4_heartbeat_last_success_timestamp_seconds",
        "When the dead man's switch was last told that we live.",
    ),
    gauge(
        "ds4_leader",
        "1 if this daemon may act; 0 on standby, and while it does not know that it may.",
    ),
    gauge("ds4_build_info", "1, labelled with the version that runs.", "version"),
)
"""About ds4watch itself; kept by telemetry, the others are handed to it."""

TARGET_SERIES = (
    gauge("up", "1 if the last scrape of a target succeeded, else 0.", "worker", "profile"),
    gauge("scrape_duration_seconds", "Duration of a target's scrape.", "worker", "profile"),
    gauge("scrape_samples_scraped", "Samples on a target's page.", "worker", "profile"),
)
"""Written beside each target's samples; queried, but not exposed on /metrics."""

PAGE_SIGNALS = {it.name: it for it in (*WORKER_SIGNALS, *GPU_SIGNALS, *ROUTER_SIGNALS)}
"""What is read from pages; a page that has one of these by its own name is taken at its word."""

EXPOSED = {**PAGE_SIGNALS, **{it.name: it for it in (*FLEET_SIGNALS, *PROCESS_SIGNALS)}}

_PARTS = ("_bucket", "_sum", "_count")


def signal_of(series_name: str) -> Signal | None:
    """Return the signal a series belongs to; `x_bucket` belongs to the histogram `x`."""
    if series_name in EXPOSED:
        return EXPOSED[series_name]
    for part in _PARTS:
        signal = EXPOSED.get(series_name.removesuffix(part))
        if signal and series_name.endswith(part) and signal.type is SignalType.HISTOGRAM:
            return signal
    return None
