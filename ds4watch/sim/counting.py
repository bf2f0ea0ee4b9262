"""What the engine counts, and when: as vLLM 0.32 does.

Prefix cache queries and hits count when a request is first scheduled, prompt tokens with its first
token, and the request's own histograms when it finishes; an abort by the client leaves those out.
"""

from __future__ import annotations

from ds4watch.sim.generation import Finish, Generation
from ds4watch.sim.meters import Meters


def count_lookup(meters: Meters, generation: Generation) -> None:
    """Count the look-up in the prefix cache; prompt_logprobs make none."""
    if generation.reads_cache:
        meters.add("vllm:prefix_cache_queries_total", len(generation.prompt))
        meters.add("vllm:prefix_cache_hits_total", generation.cached)
        meters.add('vllm:prompt_tokens_cached_by_source_total{source="device"}', generation.cached)


def count_prompt(meters: Meters, generation: Generation, now: float) -> int:
    """Count the prompt with its first token; return the tokens that were computed for it."""
    computed = len(generation.prompt) - generation.cached
    meters.add("vllm:prompt_tokens_total", len(generation.prompt))
    meters.add('vllm:prompt_tokens_by_source_total{source="local_compute"}', computed)
    meters.add('vllm:prompt_tokens_by_source_total{source="local_cache_hit"}', generation.cached)
    meters.add("vllm:prompt_tokens_cached_total", generation.cached)
    meters.observe("vllm:time_to_first_token_seconds", now - generation.arrived_at)
    return computed


def count_finished(meters: Meters, generation: Generation, finish: Finish, *, now: float) -> None:
    """Count a finished request."""
    meters.add(f'vllm:request_success_total{{finished_reason="{finish}"}}')
    for name, seconds in _durations(generation, now).items():
        meters.observe(f"vllm:{name}_seconds", seconds)
    meters.observe("vllm:request_prompt_tokens", len(generation.prompt))
    meters.observe("vllm:request_generation_tokens", generation.generated)
    meters.observe("vllm:request_params_max_tokens", generation.max_tokens)
    meters.observe("vllm:request_num_preemptions", generation.preemptions)
    meters.observe(
        "vllm:request_prefill_kv_computed_tokens", len(generation.prompt) - generation.cached
    )
    if generation.is_first_of_request:
        meters.observe("vllm:request_params_n", generation.params_n)
        meters.observe("vllm:request_max_num_generation_tokens", generation.generated)


def _durations(generation: Generation, now: float) -> dict[str, float]:
    """Return a request's stages; those never reached take no time."""
    arrived, last = generation.arrived_at, generation.last_token_at
    scheduled = now if generation.scheduled_at is None else generation.scheduled_at
    first = generation.first_token_at
    decode = last - first if first is not None else 0.0
    prefill = first - scheduled if first is not None else 0.0
    return {
        "e2e_request_latency": now - arrived,
        "request_queue_time": scheduled - arrived,
        "request_prefill_time": prefill,
        "request_decode_time": decode,
        "request_inference_time": prefill + decode,
        "request_time_per_output_token": decode / max(1, generation.generated - 1),
    }
