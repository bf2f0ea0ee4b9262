"""Metric families on pages of engines, beyond those that the ds4_* signals are made of.

For telling a metric from a slip of the pen. Names without the engine's prefix; histograms stand
for their parts too.
"""

from __future__ import annotations

from typing import Final

VLLM_GAUGES_AND_COUNTERS: Final = (
    "admission_rejections_total",
    "avg_generation_throughput_toks_per_s",
    "avg_prompt_throughput_toks_per_s",
    "cache_config_info",
    "corrupted_requests_total",
    "cpu_cache_usage_perc",
    "cpu_prefix_cache_hit_rate",
    "engine_sleep_state",
    "estimated_flops_per_gpu_total",
    "estimated_read_bytes_per_gpu_total",
    "estimated_write_bytes_per_gpu_total",
    "external_prefix_cache_hits_total",
    "external_prefix_cache_queries_total",
    "generation_tokens_total",
    "gpu_cache_usage_perc",
    "gpu_prefix_cache_hit_rate",
    "gpu_prefix_cache_hits_total",
    "gpu_prefix_cache_queries_total",
    "kv_cache_usage_perc",
    "lora_requests_info",
    "mm_cache_hits_total",
    "mm_cache_queries_total",
    "num_preemptions_total",
    "num_requests_running",
    "num_requests_swapped",
    "num_requests_waiting",
    "num_requests_waiting_by_reason",
    "prefix_cache_hits",
    "prefix_cache_hits_total",
    "prefix_cache_queries",
    "prefix_cache_queries_total",
    "prompt_tokens_by_source_total",
    "prompt_tokens_cached_by_source_total",
    "prompt_tokens_cached_total",
    "prompt_tokens_recomputed_total",
    "prompt_tokens_total",
    "request_failure_total",
    "request_success_total",
    "spec_decode_draft_acceptance_rate",
    "spec_decode_efficiency",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_accepted_tokens_per_pos_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_drafts_total",
    "spec_decode_num_emitted_tokens_total",
)
VLLM_HISTOGRAMS: Final = (
    "e2e_request_latency_seconds",
    "inter_token_latency_seconds",
    "iteration_tokens_total",
    "kv_block_lifetime_seconds",
    "request_decode_time_seconds",
    "request_generation_tokens",
    "request_inference_time_seconds",
    "request_max_num_generation_tokens",
    "request_num_preemptions",
    "request_params_best_of",
    "request_params_max_tokens",
    "request_params_n",
    "request_prefill_kv_computed_tokens",
    "request_prefill_time_seconds",
    "request_prompt_tokens",
    "request_queue_time_seconds",
    "request_time_per_output_token_seconds",
    "time_in_queue_requests",
    "time_per_output_token_seconds",
    "time_to_first_token_seconds",
)
SGLANG_GAUGES_AND_COUNTERS: Final = (
    "cache_hit_rate",
    "cached_tokens_total",
    "cuda_graph_passes_total",
    "gen_throughput",
    "generation_tokens_total",
    "num_queue_reqs",
    "num_retracted_requests_total",
    "num_running_reqs",
    "num_used_tokens",
    "page_size",
    "prompt_tokens_total",
    "token_usage",
)
SGLANG_HISTOGRAMS: Final = (
    "e2e_request_latency_seconds",
    "func_latency_seconds",
    "queue_time_seconds",
    "time_per_output_token_seconds",
    "time_to_first_token_seconds",
)
CLIENT_FAMILIES: Final = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "python_gc_collections_total",
    "python_gc_objects_collected_total",
    "python_gc_objects_uncollectable_total",
    "python_info",
    "http_requests_total",
    "http_request_duration_highr_seconds",
    "http_request_duration_seconds",
    "http_request_size_bytes",
    "http_response_size_bytes",
)
"""What Python's client and the HTTP server write on an engine's page, without a prefix."""

OPEN_PREFIXES: Final = ("DCGM_", "nvidia_smi_", "litellm_", "vllm_router_", "go_", "promhttp_")
"""Exporters whose fields are a matter of their settings: any name of theirs may be there."""
