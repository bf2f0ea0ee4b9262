"""The metric families, with the names and types that ds4watch gives them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge

LABELS = ("model", "engine")


@dataclass(frozen=True)
class Families:
    """One family for each signal; a label set of it exists only if its value is known."""

    prompt_tokens: Counter
    prefill_tokens: Counter
    cached_tokens: Counter
    generated_tokens: Counter
    prefill_seconds: Counter
    decode_seconds: Counter
    preemptions: Counter
    engine_steps: Counter
    finished_requests: Counter
    queue_depth: Gauge
    running_requests: Gauge
    kv_usage_ratio: Gauge
    plugin_errors: Counter

    def forget(self, labels: Sequence[str], reasons: Sequence[str]) -> None:
        """Take an engine's series off the page, but for the count of errors.

        With several API servers prometheus_client keeps what was counted in files, and goes on
        showing it.
        """
        for field in fields(self):
            family = getattr(self, field.name)
            if family is self.finished_requests:
                for reason in reasons:
                    _remove(family, *labels, reason)
            elif family is not self.plugin_errors:
                _remove(family, *labels)


def _remove(family: Counter | Gauge, *labels: str) -> None:
    with suppress(KeyError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with several API servers: see `forget`
        family.remove(*labels)


@cache
def families_in(registry: CollectorRegistry) -> Families:
    """Return the families of a registry, made once: an engine that starts anew counts on."""

    def counter(name: str, text: str, *more: str) -> Counter:
        return Counter(name, text, (*LABELS, *more), registry=registry)

    def gauge(name: str, text: str) -> Gauge:
        # as vLLM's: of several API servers the one that was told last knows
        return Gauge(name, text, LABELS, registry=registry, multiprocess_mode="mostrecent")

    return Families(
        prompt_tokens=counter("ds4_prompt_tokens_total", "Prompt tokens, cached ones included."),
        prefill_tokens=counter("ds4_prefill_tokens_total", "Prompt tokens computed in prefill."),
        cached_tokens=counter(
            "ds4_cached_tokens_total", "Prompt tokens taken from a prefix or KV cache."
        ),
        generated_tokens=counter("ds4_generated_tokens_total", "Tokens generated."),
        prefill_seconds=counter(
            "ds4_prefill_seconds_total", "Time finished requests spent in prefill."
        ),
        decode_seconds=counter(
            "ds4_decode_seconds_total", "Time finished requests spent in decode."
        ),
        preemptions=counter("ds4_preemptions_total", "Requests preempted for want of KV cache."),
        engine_steps=counter("ds4_engine_steps_total", "Steps of the engine loop: its heartbeat."),
        finished_requests=counter(
            "ds4_finished_requests_total",
            "Requests finished, by the engine's finish reason.",
            "reason",
        ),
        queue_depth=gauge("ds4_queue_depth", "Requests waiting in the engine."),
        running_requests=gauge("ds4_running_requests", "Requests in the running batch."),
        kv_usage_ratio=gauge("ds4_kv_usage_ratio", "KV cache in use, 0 to 1."),
        plugin_errors=counter(
            "ds4_plugin_errors_total",
            "Failures of ds4watch's plugin; after one it is silent, and its series are gone.",
        ),
    )
