"""Counts what vLLM tells of one engine. Knows vLLM's objects by the names of their fields only.

Those are no stable interface: a field that a version does not have leaves its series absent, not 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from ds4watch_vllm.families import Families, families_in

log = logging.getLogger(__name__)

_KV_USAGE = ("kv_cache_usage", "gpu_cache_usage")
"""The second was its name before vllm#18354."""


@dataclass(frozen=True)
class Before:
    """vLLM's objects as they are before any request; None for one that it does not have."""

    scheduler: Any = None
    iteration: Any = None
    finished: Any = None
    reasons: tuple[Any, ...] = ()


class EngineMeter:
    """The series of one engine. Never raises: after a first failure it is silent for good."""

    def __init__(self, model: str, engine: str, registry: CollectorRegistry = REGISTRY) -> None:
        self._labels = (model, engine)
        self._registry = registry
        self._families: Families | None = None
        self._reasons: set[str] = set()
        self._silent = False

    def begin(self, before: Callable[[], Before]) -> None:
        """Show 0 for all that this vLLM can tell."""
        self._guard(lambda: self._begin(before()))

    def record(self, scheduler: Any, iteration: Any) -> None:
        """Take in what vLLM tells after a step; either may be None."""
        self._guard(lambda: self._record(scheduler, iteration))

    def _fail(self, error: Exception) -> None:
        """Say so in one line, count it, and take the series back: they would stand still."""
        self._silent = True
        log.warning(
            "ds4watch's plugin failed and is silent from now on; vLLM is not affected: %r", error
        )
        try:
            families = self._open()
            families.plugin_errors.labels(*self._labels).inc()
            families.forget(self._labels, sorted(self._reasons))
        except Exception:  # there is nobody left to tell
            log.debug("the failure could not be counted", exc_info=True)

    def _guard(self, work: Callable[[], None]) -> None:
        if self._silent:
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - serving goes on, whatever is wrong here
            self._fail(error)

    def _open(self) -> Families:
        if self._families is None:
            self._families = families_in(self._registry)
            self._families.plugin_errors.labels(*self._labels)
        return self._families

    def _begin(self, before: Before) -> None:
        families = self._open()
        self._scheduler(families, before.scheduler)
        self._iteration(families, before.iteration)
        self._times(families, [before.finished])
        for reason in before.reasons:
            self._finished_by(families, reason)
        families.engine_steps.labels(*self._labels)

    def _record(self, scheduler: Any, iteration: Any) -> None:
        families = self._open()
        if scheduler is not None:
            self._scheduler(families, scheduler)
        if iteration is not None:
            self._iteration(families, iteration)
            families.engine_steps.labels(*self._labels).inc()
            self._finished(families, getattr(iteration, "finished_requests", ()))

    def _finished(self, families: Families, requests: Sequence[Any]) -> None:
        self._times(families, requests)
        for request in requests:
            reason = getattr(request, "finish_reason", None)
            if reason is not None:
                self._finished_by(families, reason).inc()

    def _scheduler(self, families: Families, stats: Any) -> None:
        waiting = getattr(stats, "num_waiting_reqs", None)
        if waiting is not None:
            # held back for another reason than room, but waiting all the same
            waiting += getattr(stats, "num_skipped_waiting_reqs", 0)
        usage = (getattr(stats, name, None) for name in _KV_USAGE)
        self._set(families.queue_depth, waiting)
        self._set(families.running_requests, getattr(stats, "num_running_reqs", None))
        self._set(families.kv_usage_ratio, next((it for it in usage if it is not None), None))

    def _iteration(self, families: Families, stats: Any) -> None:
        by_source = getattr(stats, "prompt_token_stats", None)
        self._add(families.prompt_tokens, getattr(stats, "num_prompt_tokens", None))
        self._add(families.prefill_tokens, getattr(by_source, "computed", None))
        self._add(families.cached_tokens, getattr(by_source, "cached_tokens", None))
        self._add(families.generated_tokens, getattr(stats, "num_generation_tokens", None))
        self._add(families.preemptions, getattr(stats, "num_preempted_reqs", None))

    def _times(self, families: Families, requests: Sequence[Any]) -> None:
        """Add what is told; a request that ended before its first token has a negative time."""
        for counter, name in (
            (families.prefill_seconds, "prefill_time"),
            (families.decode_seconds, "decode_time"),
        ):
            for request in requests:
                seconds = getattr(request, name, None)
                self._add(counter, None if seconds is None else max(0.0, seconds))

    def _finished_by(self, families: Families, reason: Any) -> Counter:
        self._reasons.add(str(reason))
        return families.finished_requests.labels(*self._labels, str(reason))

    def _add(self, counter: Counter, amount: float | None) -> None:
        if amount is not None:
            counter.labels(*self._labels).inc(amount)

    def _set(self, gauge: Gauge, value: float | None) -> None:
        if value is not None:
            gauge.labels(*self._labels).set(value)
