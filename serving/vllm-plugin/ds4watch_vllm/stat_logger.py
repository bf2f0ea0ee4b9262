"""What vLLM loads: group `vllm.stat_logger_plugins`, one object for each engine.

vLLM refuses to start with a stat logger that is not of its own class, and calls it from the loop
that hands out tokens: so nothing here may raise, whatever a later vLLM asks for.
"""

from __future__ import annotations

from typing import Any

from vllm.v1 import engine
from vllm.v1.metrics import stats
from vllm.v1.metrics.loggers import StatLoggerBase

from ds4watch_vllm.meter import Before, EngineMeter


class Ds4StatLogger(StatLoggerBase):
    """Shows an engine's ds4_* series on vLLM's own metrics page."""

    def __init__(self, vllm_config: Any = None, engine_index: int = 0, **_: Any) -> None:
        """Take what vLLM gives to each engine's logger."""
        model_config = getattr(vllm_config, "model_config", None)
        model = getattr(model_config, "served_model_name", None)
        self._meter = EngineMeter(str(model or "unknown"), str(engine_index))
        self._meter.begin(_before)

    def record(
        self, scheduler_stats: Any = None, iteration_stats: Any = None, *_: Any, **__: Any
    ) -> None:
        """Take in a step."""
        self._meter.record(scheduler_stats, iteration_stats)

    def log_engine_initialized(self) -> None:
        """Say nothing: the page says it."""


# a method that a later vLLM asks for is missing then, and no reason not to start
Ds4StatLogger.__abstractmethods__ = frozenset()


def _before() -> Before:
    return Before(
        _empty("SchedulerStats"),
        _empty("IterationStats"),
        getattr(stats, "FinishedRequestStats", None),
        tuple(getattr(engine, "FinishReason", ())),
    )


def _empty(name: str) -> Any:
    """Return vLLM's object as it is before any request; None if it cannot be had."""
    try:
        return getattr(stats, name)()
    except (AttributeError, TypeError):
        return None
