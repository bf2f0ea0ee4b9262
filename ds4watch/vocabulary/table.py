"""What engines call things, newest vLLM (0.32) first: the table behind every ds4_* signal.

Of the sources of a signal the first that a page can serve is used, alone: an engine that shows an
old and a new name for one quantity must not count twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ENGINE_PREFIXES = ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_", "kserve_vllm:", "kserve_vllm_")
"""Plain vLLM; behind Ray Serve; as KServe and RHOAI relabel it. A page is read under one only."""

MODEL_LABEL = "model_name"


class Combine(StrEnum):
    """How the series of several engines (data parallel) become one number."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Pick:
    """Series by name without prefix; `x_total` is also looked for as a bare `x`.

    values: only series whose label `label` has one of these values.
    """

    name: str
    label: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One way to get a signal: the sum of `add` less the sum of `subtract`, all required.

    given: a series that has to be on the page for this way to hold; its value is not read.
    """

    add: tuple[Pick, ...]
    subtract: tuple[Pick, ...] = ()
    given: Pick | None = None


@dataclass(frozen=True, slots=True)
class Meaning:
    """A signal and the ways to get it. `split`: (label on the page, label of the signal)."""

    signal: str
    sources: tuple[Source, ...]
    combine: Combine = Combine.SUM
    split: tuple[str, str] | None = None


def _plain(*names: str) -> tuple[Source, ...]:
    return tuple(Source((Pick(name),)) for name in names)


PROMPT = "ds4_prompt_tokens_total"
PREFILL = "ds4_prefill_tokens_total"
CACHED = "ds4_cached_tokens_total"
GENERATED = "ds4_generated_tokens_total"
PREFILL_SECONDS = "ds4_prefill_seconds_total"
DECODE_SECONDS = "ds4_decode_seconds_total"
QUEUE = "ds4_queue_depth"
RUNNING = "ds4_running_requests"
KV_USAGE = "ds4_kv_usage_ratio"

_BY_SOURCE = "prompt_tokens_by_source_total"
_CACHING_IS_OFF = Pick("cache_config_info", "enable_prefix_caching", ("False", "false"))

_PREFILL_SOURCES = (
    # vllm#33290, 2026-02: the tokens really computed.
    Source((Pick(_BY_SOURCE, "source", ("local_compute",)),)),
    Source((Pick("prompt_tokens_total"),), (Pick("prompt_tokens_cached_total"),)),
    Source((Pick("prompt_tokens_total"),), given=_CACHING_IS_OFF),
    # Queries and hits are counted in tokens and at one moment, so that their difference never
    # falls; prompt less hits does, while a prefill is under way. Too high in some versions
    # (vllm#43736, #25780), hence last.
    Source((Pick("prefix_cache_queries_total"),), (Pick("prefix_cache_hits_total"),)),
    Source((Pick("gpu_prefix_cache_queries_total"),), (Pick("gpu_prefix_cache_hits_total"),)),
)

_CACHED_SOURCES = (
    Source((Pick("prompt_tokens_cached_total"),)),
    Source((Pick(_BY_SOURCE, "source", ("local_cache_hit", "external_kv_transfer")),)),
    Source((Pick("prefix_cache_hits_total"), Pick("external_prefix_cache_hits_total"))),
    *_plain("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
)

MEANINGS = (
    Meaning(PROMPT, _plain("prompt_tokens_total")),
    Meaning(PREFILL, _PREFILL_SOURCES),
    Meaning(CACHED, _CACHED_SOURCES),
    Meaning(GENERATED, _plain("generation_tokens_total")),
    Meaning(PREFILL_SECONDS, _plain("request_prefill_time_seconds_sum")),
    Meaning(DECODE_SECONDS, _plain("request_decode_time_seconds_sum")),
    Meaning("ds4_preemptions_total", _plain("num_preemptions_total")),
    Meaning("ds4_engine_steps_total", _plain("iteration_tokens_total_count")),
    Meaning(
        "ds4_finished_requests_total",
        _plain("request_success_total"),
        split=("finished_reason", "reason"),
    ),
    Meaning(QUEUE, _plain("num_requests_waiting")),
    Meaning(RUNNING, _plain("num_requests_running")),
    # Renamed by vllm#18354, hidden by #24245, removed by #29330.
    Meaning(KV_USAGE, _plain("kv_cache_usage_perc", "gpu_cache_usage_perc"), Combine.MAX),
)
