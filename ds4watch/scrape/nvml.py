"""GPU readings through NVML. Calls block, for milliseconds or for ever: see gpu_watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pynvml

from ds4watch.model.ports import Clock
from ds4watch.scrape.gpu import (
    ALL,
    LOST,
    MIG,
    MISMATCH,
    NO_DRIVER,
    NOT_SUPPORTED,
    UNIFIED,
    GpuReading,
    GpuReport,
)

_T = TypeVar("_T")

LOOK_AGAIN_SECONDS = 30.0
"""How long handles are kept, and how long NVML is left alone after it could not be opened."""

_WORDS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: NO_DRIVER,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: NO_DRIVER,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: MISMATCH,
    pynvml.NVML_ERROR_NOT_SUPPORTED: NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: NOT_SUPPORTED,
    pynvml.NVML_ERROR_GPU_IS_LOST: LOST,
}
_KNOWN_GAPS = (NOT_SUPPORTED, UNIFIED, MIG)
"""Reasons that are the GPU's nature, and no trouble with it."""


@dataclass(frozen=True, slots=True)
class _Device:
    """What is asked once and kept: a GPU's handle, its names, its MIG instances."""

    index: int
    handle: Any = None
    uuid: str = ""
    name: str = ""
    in_mig_mode: bool = False
    instances: tuple[tuple[str, Any], ...] = ()
    lost: str = ""


@dataclass(slots=True)
class _Asker:
    """Asks NVML one thing after another, and keeps why something was not told."""

    missing: list[tuple[str, str]] = field(default_factory=list)

    def ask(self, reading: str, question: Callable[[], _T]) -> _T | None:
        try:
            return question()
        except pynvml.NVMLError as error:
            self.lacks(reading, _why(error))
            return None

    def lacks(self, reading: str, why: str) -> None:
        if (reading, why) not in self.missing:
            self.missing.append((reading, why))


class GpuReader:
    """Reads the GPUs of this host; for one thread at a time."""

    def __init__(self, clock: Clock, *, with_holders: bool = False) -> None:
        """Tell with_holders which processes are on each GPU; it takes NVML longer."""
        self._clock = clock
        self._with_holders = with_holders
        self._open = False
        self._devices: tuple[_Device, ...] = ()
        self._trouble = ""
        self._look_again_at = float("-inf")

    def known(self) -> GpuReport | None:
        """Return why there is nothing to read, while NVML is left alone; else None."""
        if self._open or not self._trouble or self._clock.monotonic() >= self._look_again_at:
            return None
        return GpuReport(why_not=self._trouble)

    def read(self) -> GpuReport:
        """Return a reading of each GPU and each MIG instance. Raises nothing that NVML says."""
        now = self._clock.monotonic()
        if now >= self._look_again_at:
            self._look_again_at = now + LOOK_AGAIN_SECONDS
            self._look()
        if not self._open:
            return GpuReport(why_not=self._trouble)
        ask = self._with_holders
        readings = [
            reading for device in self._devices for reading in _readings_of(device, holders=ask)
        ]
        reasons = (why for reading in readings for _, why in reading.missing)
        self._trouble = next((why for why in reasons if why not in _KNOWN_GAPS), "")
        return GpuReport(tuple(readings))

    def close(self) -> None:
        """Let NVML go."""
        if self._open:
            self._open = False
            _try(pynvml.nvmlShutdown)

    def _look(self) -> None:
        """Find the devices anew; after trouble, through a library that is opened anew."""
        if self._trouble:
            self.close()
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            self._trouble = _why(error)
            return
        known = {device.index: device for device in self._devices}
        self._devices = tuple(_device(index, known.get(index)) for index in range(count))


def _device(index: int, known: _Device | None) -> _Device:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        uuid, name = (known.uuid, known.name) if known else ("", "")
        return _Device(index, uuid=uuid, name=name, lost=_why(error))
    mode = _try(pynvml.nvmlDeviceGetMigMode, handle)
    in_mig_mode = bool(mode and mode[0])
    return _Device(
        index=index,
        handle=handle,
        uuid=_try(pynvml.nvmlDeviceGetUUID, handle) or "",
        name=_try(pynvml.nvmlDeviceGetName, handle) or "",
        in_mig_mode=in_mig_mode,
        instances=_instances(handle) if in_mig_mode else (),
    )


def _instances(gpu: Any) -> tuple[tuple[str, Any], ...]:
    """Return (UUID, handle) of each MIG instance; their indexes may have gaps."""
    places = range(_try(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu) or 0)
    handles = [_try(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, place) for place in places]
    return tuple((_instance_name(handle), handle) for handle in handles if handle is not None)


def _instance_name(handle: Any) -> str:
    uuid = _try(pynvml.nvmlDeviceGetUUID, handle)
    gpu_instance = _try(pynvml.nvmlDeviceGetGpuInstanceId, handle)
    return uuid or f"{gpu_instance}/{_try(pynvml.nvmlDeviceGetComputeInstanceId, handle)}"


def _readings_of(device: _Device, *, holders: bool) -> list[GpuReading]:
    if device.lost:
        return [GpuReading(device.index, device.uuid, device.name, missing=((ALL, device.lost),))]
    readings = [_whole(device), *(_instance(device, *instance) for instance in device.instances)]
    if not holders:
        return readings
    handles = (device.handle, *(handle for _, handle in device.instances))
    return [
        replace(reading, holders=_holders(handle))
        for reading, handle in zip(readings, handles, strict=True)
    ]


def _holders(handle: Any) -> tuple[int, ...] | None:
    found = _try(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return None if found is None else tuple(sorted(int(process.pid) for process in found))


def _whole(device: _Device) -> GpuReading:
    handle, asker = device.handle, _Asker()
    used, total = _memory(handle, asker)
    busy = None
    if device.in_mig_mode:
        asker.lacks("utilization", MIG)
    else:
        busy = asker.ask("utilization", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    milliwatts = asker.ask("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    celsius = asker.ask(
        "temperature",
        lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    )
    return GpuReading(
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        memory_used_bytes=used,
        memory_total_bytes=total,
        utilization_ratio=None if busy is None else busy / 100,
        power_watts=None if milliwatts is None else milliwatts / 1000,
        temperature_celsius=celsius,
        ecc_corrected=_ecc(handle, asker, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ecc_uncorrected=_ecc(handle, asker, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        divided=device.in_mig_mode,
        missing=tuple(asker.missing),
    )


def _instance(device: _Device, mig: str, handle: Any) -> GpuReading:
    """Return an instance's memory; NVML has the other readings for the whole GPU only."""
    asker = _Asker()
    used, total = _memory(handle, asker)
    asker.lacks("utilization", MIG)
    return GpuReading(
        device.index,
        device.uuid,
        device.name,
        mig=mig,
        memory_used_bytes=used,
        memory_total_bytes=total,
        missing=tuple(asker.missing),
    )


def _memory(handle: Any, asker: _Asker) -> tuple[int | None, int | None]:
    """Return (used, total). A total of 0 is how some drivers say "none of its own"."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        why = _why(error)
        asker.lacks("memory", UNIFIED if why == NOT_SUPPORTED else why)
        return None, None
    if memory.total == 0:
        asker.lacks("memory", UNIFIED)
        return None, None
    return int(memory.used), int(memory.total)


def _ecc(handle: Any, asker: _Asker, kind: int) -> int | None:
    return asker.ask(
        "ecc",
        lambda: int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_AGGREGATE_ECC)),
    )


def _try(question: Callable[..., _T], *given: Any) -> _T | None:
    try:
        return question(*given)
    except pynvml.NVMLError:
        return None


def _why(error: pynvml.NVMLError) -> str:
    return _WORDS.get(error.value) or f"NVML: {error}"
