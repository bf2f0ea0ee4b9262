"""Faults that can be switched while a worker runs."""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ds4watch.model.errors import ConfigError, Located

OOM_MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.25 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process "
    "has 78.12 GiB memory in use. Of the allocated memory 76.90 GiB is allocated by PyTorch, and "
    "512.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
RUN_OOM_MESSAGE = (
    f"EngineCore encountered a fatal error.\n{OOM_MESSAGE}\n"
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
    "See stack trace (above) for the root cause."
)


class Fault(StrEnum):
    """What can go wrong.

    `slow`, `http_500`, `slow_metrics`, `queue` and `kv_full` take a value: a factor, a share of
    requests, seconds, by how many requests the queue on the page is longer than it is, and the
    share of the KV cache that is in use on the page at least.
    `oom_over`: out of memory, and the process ends, once more sequences run than its value.
    `stuck`: the requests in the batch stand still, later ones do not. `metrics_error`: a line in
    the log about a negative increment, and the process ends. `no_numbers`: weights that are NaN:
    text is answered, log-probabilities are refused.
    """

    HANG = "hang"
    HTTP_500 = "http_500"
    SLOW = "slow"
    CRASH = "crash"
    OOM_AT_START = "oom_at_start"
    OOM_OVER = "oom_over"
    COUNTERS_RESET = "counters_reset"
    MALFORMED_METRICS = "malformed_metrics"
    METRICS_500 = "metrics_500"
    METRICS_EMPTY = "metrics_empty"
    HALF_METRICS = "half_metrics"
    METRICS_NO_ENGINE = "metrics_no_engine"
    METRICS_ERROR = "metrics_error"
    SLOW_METRICS = "slow_metrics"
    STUCK = "stuck"
    QUEUE = "queue"
    KV_FULL = "kv_full"
    NO_NUMBERS = "no_numbers"


_LONGEST_PAGE_SECONDS = 60.0
_DEFAULTS = {Fault.SLOW: 10.0, Fault.HTTP_500: 1.0, Fault.QUEUE: 100.0, Fault.KV_FULL: 0.99}
_KV_USAGE = re.compile(rb"^(vllm:kv_cache_usage_perc\{[^}\n]*\} )(\S+)$", re.MULTILINE)
_WAITING = re.compile(rb"^(vllm:num_requests_waiting\{[^}\n]*\} )(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FaultSwitch:
    """A fault as asked for on the command line or over HTTP."""

    fault: Fault
    value: float


def parse_fault(text: str) -> FaultSwitch:
    """Read `name` or `name=value`. Raises ConfigError."""
    name, _, value = text.partition("=")
    try:
        return switch(name, float(value) if value else None)
    except ValueError as error:
        raise ConfigError(
            Located(str(error), field="--fault", mend=f"known: {', '.join(Fault)}")
        ) from error


def switch(name: str, value: float | None) -> FaultSwitch:
    """Return a switch with the fault's own default value. Raises ValueError."""
    if name not in set(Fault):
        message = f"there is no fault {name!r}"
        raise ValueError(message)
    fault = Fault(name)
    value = _DEFAULTS.get(fault, 1.0) if value is None else value
    if fault is Fault.SLOW and not value > 0:
        message = f"slow needs a factor above 0, not {value}"
        raise ValueError(message)
    if fault is Fault.SLOW_METRICS and not 0 <= value <= _LONGEST_PAGE_SECONDS:
        message = f"slow_metrics needs 0 to {_LONGEST_PAGE_SECONDS:g} seconds, not {value}"
        raise ValueError(message)
    if fault is Fault.QUEUE and not value >= 0:
        message = f"queue needs a number of requests, not {value}"
        raise ValueError(message)
    if fault in (Fault.HTTP_500, Fault.KV_FULL) and not 0 <= value <= 1:
        message = f"{fault} needs a share between 0 and 1, not {value}"
        raise ValueError(message)
    return FaultSwitch(fault, value)


class Faults:
    """The faults of one worker that are on."""

    def __init__(self, initial: tuple[FaultSwitch, ...] = ()) -> None:
        self._values = {item.fault: item.value for item in initial}
        self._failing_share = 0.0
        self._not_hung = asyncio.Event()
        self._settle()

    def has(self, fault: Fault) -> bool:
        """Tell whether a fault is on."""
        return fault in self._values

    def set(self, item: FaultSwitch, *, on: bool) -> None:
        """Switch one fault."""
        if on:
            self._values[item.fault] = item.value
        else:
            self._values.pop(item.fault, None)
        self._settle()

    def _settle(self) -> None:
        if self.has(Fault.HANG):
            self._not_hung.clear()
        else:
            self._not_hung.set()

    @property
    def is_hung(self) -> bool:
        """Tell whether generation hangs."""
        return not self._not_hung.is_set()

    async def until_not_hung(self) -> None:
        """Wait while `hang` is on."""
        await self._not_hung.wait()

    @property
    def metrics_seconds(self) -> float:
        """Time for which each page holds up everything else, as a starved event loop does."""
        return self._values.get(Fault.SLOW_METRICS, 0.0)

    @property
    def more_waiting(self) -> float:
        """By how many requests the queue on the page is longer than it is."""
        return self._values.get(Fault.QUEUE, 0.0)

    @property
    def least_kv_usage(self) -> float:
        """What the page says of the KV cache at least."""
        return self._values.get(Fault.KV_FULL, 0.0)

    @property
    def most_running(self) -> float:
        """Sequences that may run at once before memory is out."""
        return self._values.get(Fault.OOM_OVER, math.inf)

    @property
    def slowness(self) -> float:
        """Factor on the duration of each step."""
        return self._values.get(Fault.SLOW, 1.0)

    def next_request_fails(self) -> bool:
        """Tell whether `http_500` takes this request: evenly spread, so that 0.5 is each second."""
        self._failing_share += self._values.get(Fault.HTTP_500, 0.0)
        if self._failing_share < 1.0:
            return False
        self._failing_share -= 1.0
        return True

    def as_json(self) -> list[dict[str, Any]]:
        """List all faults, on or off."""
        return [
            {"fault": str(fault), "on": fault in self._values, "value": self._values.get(fault)}
            for fault in Fault
        ]


def with_longer_queue(page: bytes, more: float) -> bytes:
    """Return the metrics page with so many more requests waiting."""
    return _WAITING.sub(lambda it: it[1] + repr(float(it[2]) + more).encode(), page)


def with_fuller_cache(page: bytes, least: float) -> bytes:
    """Return the metrics page with at least such a share of the KV cache in use."""
    return _KV_USAGE.sub(lambda it: it[1] + repr(max(float(it[2]), least)).encode(), page)


def crash(last_words: str) -> None:
    """End the process at once, as a segmentation fault would."""
    sys.stderr.write(f"{last_words}\n")
    sys.stderr.flush()
    os._exit(1)


def spoil(fault: Fault, page: bytes) -> bytes:
    """Return the metrics page as a fault leaves it."""
    if fault is Fault.METRICS_EMPTY:
        return b""
    if fault is Fault.METRICS_NO_ENGINE:
        return b"\n".join(line for line in page.split(b"\n") if b"vllm:" not in line)
    if fault is Fault.HALF_METRICS:
        return page[: len(page) // 2]
    lines = page.split(b"\n")
    lines[len(lines) // 3] = b'vllm:num_requests_running{engine="0",model_name=} not a number'
    lines[len(lines) // 2] = b"}}} \xff\xfe"
    return b"\n".join(lines)
