"""What a look at the GPUs of this host found. What NVML does not tell is absent, never zero."""

from __future__ import annotations

from dataclasses import dataclass

UNIFIED = "unified memory: NVML does not report it"
MIG = "not measurable on MIG"
NOT_SUPPORTED = "not supported by this GPU"
LOST = "GPU is lost: reset it or reboot"
NO_DRIVER = "no NVIDIA driver on this machine"
MISMATCH = "driver and NVML library do not match: reboot"
LATE = "NVML does not answer in time"

ALL = "all"
"""The reading that is said to be missing where all of them are."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU, or one MIG instance of it. None is "not reported"; `missing` says why.

    mig: the instance's UUID; empty for the whole GPU, whose memory includes its instances'.
    utilization_ratio: share of the last sampling period in which a kernel ran, 0 to 1.
    ecc_corrected, ecc_uncorrected: the aggregate counts, of the GPU's whole life.
    divided: the GPU is in MIG mode: its instances are used, and not itself.
    holders: the processes on it, if they were asked for. A container is told of none.
    missing: (reading, why) for each that was expected.
    """

    index: int
    uuid: str = ""
    name: str = ""
    mig: str = ""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilization_ratio: float | None = None
    power_watts: float | None = None
    temperature_celsius: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    divided: bool = False
    holders: tuple[int, ...] | None = None
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether it answers, and is no mere sum of its instances."""
        return not self.divided and all(reading != ALL for reading, _ in self.missing)


@dataclass(frozen=True, slots=True)
class GpuReport:
    """All GPUs of this host at one instant. why_not: why there is no reading; empty if NVML told.

    A GPU may be there though NVML says nothing of it; only `NO_DRIVER` says that there is none.
    """

    readings: tuple[GpuReading, ...] = ()
    why_not: str = ""

    @property
    def available(self) -> bool:
        """Whether NVML answered."""
        return not self.why_not

    @property
    def has_gpu(self) -> bool:
        """Whether workers are to be started for a GPU; so it is if NVML merely fails."""
        return bool(self.readings) or self.why_not not in ("", NO_DRIVER)
