"""GPU readings through NVML. What NVML does not tell is absent, never zero."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

_T = TypeVar("_T")

log = logging.getLogger(__name__)

UNIFIED = "unified memory: NVML does not report it"
MIG = "MIG is on: the whole GPU's utilisation is not measurable"
_NO_LIBRARY = "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"
_NOT_SUPPORTED = "not supported by this GPU"
_MISMATCH = "driver and NVML library do not match (driver updated?): reboot"


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU. None is "not reported"; `why` then says why, as far as it is known.

    utilization_ratio: share of the last sampling period in which a kernel ran, 0 to 1.
    """

    index: int
    uuid: str
    name: str
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilization_ratio: float | None = None
    mig: bool = False
    why: str = ""


class GpuReader:
    """Reads the GPUs of this host. Calls block for milliseconds: keep them off the event loop.

    why_not: why NVML did not answer when it was last asked; empty if it did.
    """

    def __init__(self) -> None:
        self.why_not = ""
        self._open = False
        self._told: str | None = None

    @property
    def available(self) -> bool:
        """Whether NVML answered when it was last asked."""
        return self._open

    def read(self) -> tuple[GpuReading, ...]:
        """Return a reading of each GPU; none if NVML is not there (see `why_not`). Never raises."""
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self._give_up(_why(error))
            return ()
        self._tell("")
        return tuple(_reading_of(index) for index in range(count))

    def close(self) -> None:
        """Let NVML go."""
        if self._open:
            self._open = False
            _ask(pynvml.nvmlShutdown)

    def _give_up(self, why: str) -> None:
        self.close()
        self._tell(why)

    def _tell(self, why: str) -> None:
        self.why_not = why
        if why == self._told:
            return
        if why:
            level = logging.INFO if why == _NO_LIBRARY else logging.WARNING
            log.log(level, "GPU readings unavailable: %s", why)
        elif self._told:
            log.info("GPU readings are available again")
        self._told = why


def _reading_of(index: int) -> GpuReading:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return GpuReading(index, uuid="", name="", why=_why(error))
    memory, no_memory = _ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    mode, _ = _ask(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    mig = bool(mode and mode[0])
    busy, no_busy = (None, MIG) if mig else _ask(lambda: _busy_ratio(handle))
    # A total of 0 is how some drivers say that the GPU has no memory of its own.
    if no_memory == _NOT_SUPPORTED or (memory is not None and memory.total == 0):
        memory, no_memory = None, UNIFIED
    return GpuReading(
        index=index,
        uuid=_ask(lambda: pynvml.nvmlDeviceGetUUID(handle))[0] or "",
        name=_ask(lambda: pynvml.nvmlDeviceGetName(handle))[0] or "",
        memory_used_bytes=int(memory.used) if memory else None,
        memory_total_bytes=int(memory.total) if memory else None,
        utilization_ratio=busy,
        mig=mig,
        why="; ".join(why for why in (no_memory, no_busy) if why),
    )


def _busy_ratio(handle: Any) -> float:
    return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100


def _ask(question: Callable[[], _T]) -> tuple[_T | None, str]:
    """Return (answer, "") or (None, why)."""
    try:
        return question(), ""
    except pynvml.NVMLError as error:
        return None, _why(error)


def _why(error: pynvml.NVMLError) -> str:
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return _NO_LIBRARY
    if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return _MISMATCH
    if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
        return _NOT_SUPPORTED
    return f"NVML: {error}"
