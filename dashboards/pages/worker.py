"""One worker, from its state to its engine's own figures."""

from __future__ import annotations

from dashboards.kit.views import RATE, Codes, Page, Section, graph, stat, table, timeline
from dashboards.pages.common import ONE_WORKER, phase

_THIS = '{worker=~"$worker"}'
_FINISHED = f"sum(rate(ds4_finished_requests_total{_THIS}{RATE}))"
_ALONE = 'worker=~"$worker"'


def _mean(stage: str) -> tuple[str, str]:
    """Return the time that a request spends in a stage."""
    return f"sum(rate(ds4_{stage}_seconds_total{_THIS}{RATE})) / {_FINISHED}", stage


def _engine(*names: str) -> str:
    """Return the buckets of a histogram, under whichever name the engine has it."""
    either = "|".join(f"{name}_bucket" for name in names)
    return f'sum by (le) (rate({{__name__=~"{either}",{_ALONE}}}{RATE}))'


_FIRST = _engine("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds")
_BETWEEN = _engine(
    "vllm:inter_token_latency_seconds",
    "vllm:time_per_output_token_seconds",
    "sglang:time_per_output_token_seconds",
)


def _drafted(what: str) -> str:
    return f"sum(rate(vllm:spec_decode_num_{what}_tokens_total{_THIS}{RATE}))"


_NOW = (
    stat(
        "State",
        "none",
        "Requests go to ready workers only.",
        (phase(_ALONE), "{{worker}}"),
        codes=Codes.PHASE,
    ),
    stat(
        "Highest alert",
        "none",
        "The highest tier that fires about this worker.",
        (f"max by (worker) (ds4_worker_alert_tier{_THIS})", "{{worker}}"),
        codes=Codes.TIER,
    ),
    stat(
        "Requests running",
        "none",
        "In the engine's batch.",
        (f"sum(ds4_running_requests{_THIS})", "running"),
    ),
    stat(
        "Requests waiting",
        "none",
        "In the engine's queue.",
        (f"sum(ds4_queue_depth{_THIS})", "waiting"),
    ),
    stat(
        "KV cache in use",
        "percentunit",
        "Room for tokens taken, of its fullest engine.",
        (f"max(ds4_kv_usage_ratio{_THIS})", "in use"),
        alert="KvCachePressure",
        decimals=0,
    ),
    stat(
        "Standing still for",
        "s",
        "Time for which requests are in its engine and nothing but canaries moves.",
        (f"max(ds4_worker_standstill_seconds{_THIS})", "still"),
        alert="RequestsStandStill",
    ),
)
_LOAD = (
    timeline("State", "The state it was in.", (phase(_ALONE), "{{worker}}"), codes=Codes.PHASE),
    graph(
        "Requests in the engine",
        "none",
        "Running: in the batch. Waiting: not yet.",
        (f"sum(ds4_running_requests{_THIS})", "running"),
        (f"sum(ds4_queue_depth{_THIS})", "waiting"),
        height=7,
    ),
    graph(
        "KV cache in use",
        "percentunit",
        "When it is full, requests are put back and computed again.",
        (f"max(ds4_kv_usage_ratio{_THIS})", "in use"),
        alert="KvCachePressure",
        maximum=1.0,
    ),
    graph(
        "Tokens a second",
        "none",
        "Generated, computed in prefill, and taken from the cache.",
        (f"sum(rate(ds4_generated_tokens_total{_THIS}{RATE}))", "generated"),
        (f"sum(rate(ds4_prefill_tokens_total{_THIS}{RATE}))", "computed in prefill"),
        (f"sum(rate(ds4_cached_tokens_total{_THIS}{RATE}))", "cached"),
    ),
)
_EFFICIENCY = (
    graph(
        "Prompt tokens that miss the cache",
        "percentunit",
        "Of all prompt tokens, over 60 s.",
        (f"max(ds4_cache_miss_ratio{_THIS})", "missed"),
        alert="CacheMissHigh",
        maximum=1.0,
    ),
    graph(
        "Prefill's share",
        "percentunit",
        "Of the tokens worked on (the alert's measure), and of the time, over 60 s.",
        (f"max(ds4_prefill_token_ratio{_THIS})", "of tokens"),
        (f"max(ds4_prefill_time_ratio{_THIS})", "of time"),
        alert="PrefillShareHigh",
        maximum=1.0,
    ),
    graph(
        "Preemptions a second",
        "none",
        "Requests put back for want of KV cache.",
        (f"sum(rate(ds4_preemptions_total{_THIS}{RATE}))", "preemptions"),
        alert="PreemptionsHigh",
    ),
    graph(
        "Drafted tokens that were used",
        "percentunit",
        "Speculative decoding: the rest was work for nothing.",
        (f"{_drafted('accepted')} / {_drafted('draft')}", "used"),
        alert="DraftAcceptanceLow",
        maximum=1.0,
        engine_series=True,
        may_be_empty="without speculative decoding",
    ),
)
_TIMES = (
    graph(
        "Mean time of a request, by stage",
        "s",
        "Of the requests that finished: in the queue, in prefill, in decode.",
        _mean("queue"),
        _mean("prefill"),
        _mean("decode"),
        is_stacked=True,
    ),
    graph(
        "Requests finished a second",
        "none",
        "By the engine's reason: stop, length, abort.",
        (f"sum by (reason) (rate(ds4_finished_requests_total{_THIS}{RATE}))", "{{reason}}"),
        is_stacked=True,
    ),
    graph(
        "Time to the first token",
        "s",
        "What 50 % and 95 % of requests stay under, estimated within a bucket.",
        *(
            (
                f"histogram_quantile({it}, {_FIRST})",
                f"{it:.0%} under",
            )
            for it in (0.5, 0.95)
        ),
        alert="FirstTokenSlow",
        engine_series=True,
    ),
    graph(
        "Time between two tokens",
        "s",
        "What 50 % and 95 % stay under, estimated within a bucket.",
        *(
            (
                f"histogram_quantile({it}, {_BETWEEN})",
                f"{it:.0%} under",
            )
            for it in (0.5, 0.95)
        ),
        engine_series=True,
    ),
)
_ENGINE = (
    graph(
        "Steps of the engine a second",
        "none",
        "Its heartbeat: it stands still when there is nothing to do, or when it hangs.",
        (f"sum(rate(ds4_engine_steps_total{_THIS}{RATE}))", "steps"),
        width=8,
    ),
    graph(
        "Starts in 15 minutes",
        "none",
        "How often its process was another one.",
        (f"max(changes(process_start_time_seconds{_THIS}[15m]))", "starts"),
        alert="CrashLoop",
        width=8,
        engine_series=True,
    ),
    graph(
        "Memory of its process",
        "bytes",
        "Of the machine, not of the GPU.",
        (f"max(process_resident_memory_bytes{_THIS})", "resident"),
        width=8,
        engine_series=True,
    ),
    table(
        "What its page is",
        "The engine, and the oldest version that has all of its metric names.",
        (
            f"max by (worker, profile, engine, generation) (ds4_vocabulary_info{_THIS})",
            "found",
        ),
        width=8,
    ),
    table(
        "Signals it does not report",
        "Absent is not zero; the reason says what version or flag is needed.",
        (f"max by (signal, why) (ds4_vocabulary_missing{_THIS})", "missing"),
        width=16,
        may_be_empty="where the engine reports all that ds4watch knows",
    ),
)
WORKER_PAGE = Page(
    name="worker",
    title="ds4watch: one worker",
    text="One worker: state, load, efficiency, times, and its engine.",
    variables=(ONE_WORKER,),
    sections=(
        Section("Now", _NOW),
        Section("Load", _LOAD),
        Section("Efficiency", _EFFICIENCY),
        Section("Requests", _TIMES),
        Section("Engine", _ENGINE),
    ),
)
