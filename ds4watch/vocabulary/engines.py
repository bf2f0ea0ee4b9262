"""What inference engines call things: vLLM from V0 to 0.32, newest names first, and SGLang."""

from __future__ import annotations

from ds4watch.vocabulary.table import (
    RATIO,
    Combine,
    Engine,
    Generation,
    Meaning,
    Pick,
    Source,
    plain,
)

PROMPT = "ds4_prompt_tokens_total"
PREFILL = "ds4_prefill_tokens_total"
CACHED = "ds4_cached_tokens_total"
GENERATED = "ds4_generated_tokens_total"
PREFILL_SECONDS = "ds4_prefill_seconds_total"
DECODE_SECONDS = "ds4_decode_seconds_total"
STEPS = "ds4_engine_steps_total"
QUEUE = "ds4_queue_depth"
RUNNING = "ds4_running_requests"
KV_USAGE = "ds4_kv_usage_ratio"
MISS_RATIO = "ds4_cache_miss_ratio"
BLOCK_TOKENS = "ds4_cache_block_tokens"
MEMORY_GRANTED = "ds4_gpu_memory_granted_ratio"

MODEL_LABEL = "model_name"
CACHE_CONFIG = "cache_config_info"
LORA_INFO = "lora_requests_info"

BY_ENGINE = {
    RUNNING: "ds4_engine_running_requests",
    QUEUE: "ds4_engine_queue_depth",
    KV_USAGE: "ds4_engine_kv_usage_ratio",
    STEPS: "ds4_engine_loop_steps_total",
}

_BY_SOURCE = "prompt_tokens_by_source_total"
_BY_SOURCE_SINCE = "2026-02 (vllm#33290)"
_CACHING_IS_OFF = Pick(CACHE_CONFIG, "enable_prefix_caching", ("False", "false"))
_STATS = "vLLM reports it unless started with --disable-log-stats"
_CACHE_WHY = "needs vLLM 0.8 or later, or SGLang, with prefix caching on (--enable-prefix-caching)"

_PREFILL_SOURCES = (
    # The tokens really computed.
    Source((Pick(_BY_SOURCE, "source", ("local_compute",)),), since=_BY_SOURCE_SINCE),
    Source(
        (Pick("prompt_tokens_total"),),
        (Pick("prompt_tokens_cached_total"),),
        since=_BY_SOURCE_SINCE,
    ),
    Source((Pick("prompt_tokens_total"),), given=_CACHING_IS_OFF),
    # Queries and hits are counted in tokens and at one moment, so that their difference never
    # falls; prompt less hits does, while a prefill is under way. Too high in some versions
    # (vllm#43736, #25780), hence last.
    Source(
        (Pick("prefix_cache_queries_total"),), (Pick("prefix_cache_hits_total"),), since="0.9.2"
    ),
    Source(
        (Pick("gpu_prefix_cache_queries_total"),),
        (Pick("gpu_prefix_cache_hits_total"),),
        since="0.8",
        until="0.11",
    ),
)

_CACHED_SOURCES = (
    Source((Pick("prompt_tokens_cached_total"),), since=_BY_SOURCE_SINCE),
    Source(
        (Pick(_BY_SOURCE, "source", ("local_cache_hit", "external_kv_transfer")),),
        since=_BY_SOURCE_SINCE,
    ),
    Source(
        (Pick("prefix_cache_hits_total"), Pick("external_prefix_cache_hits_total")),
        since="vllm#26245",
    ),
    *plain("prefix_cache_hits_total", since="0.9.2"),
    *plain("gpu_prefix_cache_hits_total", since="0.8", until="0.11"),
)

VLLM_MEANINGS = (
    Meaning(PROMPT, plain("prompt_tokens_total"), why=_STATS),
    Meaning(PREFILL, _PREFILL_SOURCES, why=_CACHE_WHY),
    Meaning(CACHED, _CACHED_SOURCES, why=_CACHE_WHY),
    Meaning(GENERATED, plain("generation_tokens_total"), why=_STATS),
    Meaning(
        PREFILL_SECONDS,
        plain("request_prefill_time_seconds_sum", since="0.7"),
        why="needs vLLM 0.7 or later",
    ),
    Meaning(
        DECODE_SECONDS,
        plain("request_decode_time_seconds_sum", since="0.7"),
        why="needs vLLM 0.7 or later",
    ),
    Meaning(
        "ds4_queue_seconds_total",
        (
            *plain("request_queue_time_seconds_sum", since="0.7"),
            *plain("time_in_queue_requests_sum", until="0.8 (V0)"),
        ),
        why="needs vLLM 0.7 or later",
    ),
    Meaning("ds4_preemptions_total", plain("num_preemptions_total"), why=_STATS),
    Meaning(
        STEPS,
        plain("iteration_tokens_total_count", since="0.7"),
        why="needs vLLM 0.7 or later",
    ),
    Meaning(
        "ds4_finished_requests_total",
        plain("request_success_total"),
        split=(("finished_reason",), "reason"),
        # Clients that leave never reach it (vllm#31503).
        no_zero=("abort",),
        why="V0 shows it from the first finished request on",
    ),
    Meaning(QUEUE, plain("num_requests_waiting"), why=_STATS),
    Meaning(RUNNING, plain("num_requests_running"), why=_STATS),
    Meaning("ds4_swapped_requests", plain("num_requests_swapped", until="0.10 (V0)")),
    # Renamed by vllm#18354, hidden by #24245, removed by #29330.
    Meaning(
        KV_USAGE,
        (
            *plain("kv_cache_usage_perc", since="0.9.2"),
            *plain("gpu_cache_usage_perc", until="0.11"),
        ),
        Combine.MAX,
        upper=RATIO,
        why=_STATS,
    ),
    Meaning(
        "ds4_cpu_kv_usage_ratio",
        plain("cpu_cache_usage_perc", until="0.10 (V0)"),
        Combine.MAX,
        upper=RATIO,
    ),
    # A gauge of V0, -1 with prefix caching off; used where there are no counters.
    Meaning(
        MISS_RATIO,
        (
            Source(
                (Pick("gpu_prefix_cache_hit_rate"),),
                scale=-1.0,
                offset=1.0,
                until="0.9 (vllm#15458)",
            ),
        ),
        Combine.MAX,
        upper=RATIO,
    ),
)

VLLM = Engine(
    "vllm",
    # Plain vLLM; behind Ray Serve; as KServe and RHOAI relabel it.
    ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_", "kserve_vllm:", "kserve_vllm_"),
    VLLM_MEANINGS,
    "engine",
    BY_ENGINE,
    (
        Generation("v1-0.32", ("prompt_tokens_cached_by_source_total", _BY_SOURCE)),
        Generation("v1-2026.02", (_BY_SOURCE,)),
        Generation("v1-0.11", ("kv_cache_usage_perc",), ("gpu_cache_usage_perc",)),
        Generation("v1-0.9.2", ("kv_cache_usage_perc",), ("num_requests_swapped",)),
        Generation("v1-0.8", ("gpu_prefix_cache_hits_total",)),
        Generation("v0", ("gpu_cache_usage_perc",)),
    ),
    # production-stack's router repeats its workers' metrics under `server`: theirs, not its own.
    strange=("server",),
    skipped=("vllm_router_", "vllm_tokenizer_"),
    information=(CACHE_CONFIG, LORA_INFO),
)

SGLANG_MEANINGS = (
    Meaning(PROMPT, plain("prompt_tokens_total"), why="needs --enable-metrics"),
    Meaning(
        PREFILL,
        (Source((Pick("prompt_tokens_total"),), (Pick("cached_tokens_total"),)),),
        why="SGLang counts cached tokens from the first hit on, since 0.4.4",
    ),
    Meaning(
        CACHED,
        plain("cached_tokens_total"),
        why="SGLang counts cached tokens from the first hit on, since 0.4.4",
    ),
    Meaning(GENERATED, plain("generation_tokens_total"), why="needs --enable-metrics"),
    Meaning("ds4_queue_seconds_total", plain("queue_time_seconds_sum"), why="needs SGLang 0.5"),
    Meaning("ds4_preemptions_total", plain("num_retracted_requests_total"), why="needs SGLang 0.5"),
    Meaning(STEPS, plain("cuda_graph_passes_total"), why="needs SGLang 0.5.6"),
    Meaning(QUEUE, plain("num_queue_reqs"), why="needs --enable-metrics"),
    Meaning(RUNNING, plain("num_running_reqs"), why="needs --enable-metrics"),
    Meaning(KV_USAGE, plain("token_usage"), Combine.MAX, upper=RATIO, why="needs --enable-metrics"),
    Meaning(BLOCK_TOKENS, plain("page_size"), Combine.MAX, why="needs SGLang 0.5"),
    Meaning(
        MISS_RATIO,
        (Source((Pick("cache_hit_rate"),), scale=-1.0, offset=1.0),),
        Combine.MAX,
        upper=RATIO,
    ),
    Meaning(PREFILL_SECONDS, (), why="SGLang does not report it"),
    Meaning(DECODE_SECONDS, (), why="SGLang does not report it"),
    Meaning("ds4_finished_requests_total", (), why="SGLang does not report reasons"),
)

SGLANG = Engine(
    "sglang",
    ("sglang:", "sglang_", "ray_sglang_"),
    SGLANG_MEANINGS,
    "dp_rank",
    BY_ENGINE,
    (
        Generation("0.5.6", ("cuda_graph_passes_total",)),
        Generation("0.5", ("num_retracted_requests_total",)),
        Generation("0.4", ("num_running_reqs",)),
    ),
    # With metrics of all ranks on, tensor-parallel ranks repeat each other; priorities split what
    # the empty one has in whole.
    strange=("priority",),
    repeated=("tp_rank", "pp_rank"),
)

ENGINES = (VLLM, SGLANG)
