"""Which GPUs a worker gets: pure, from what NVML told and what other workers hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ds4watch.config.lints.arguments import gpus_of
from ds4watch.config.profile import Engine, Profile

VISIBLE = "CUDA_VISIBLE_DEVICES"
_FOREIGN_RATIO = 0.05
_FOREIGN_BYTES = 1 << 30
_WHOLE = 1.0
_ROUNDING = 1e-9


class Reading(Protocol):
    """What is needed of a reading of one GPU, or of one MIG instance of it."""

    @property
    def index(self) -> int:
        """Number of the GPU."""
        ...

    @property
    def uuid(self) -> str:
        """UUID of the GPU."""
        ...

    @property
    def mig(self) -> str:
        """UUID of the instance; empty for the whole GPU."""
        ...

    @property
    def is_usable(self) -> bool:
        """Whether it answers, and is no GPU in MIG mode, of which the instances are used."""
        ...

    @property
    def memory_used_bytes(self) -> int | None:
        """None if not told."""
        ...

    @property
    def memory_total_bytes(self) -> int | None:
        """None if not told."""
        ...

    @property
    def holders(self) -> tuple[int, ...] | None:
        """Processes that NVML says are on it; None if not told. A container sees none."""
        ...


@dataclass(frozen=True, slots=True)
class Device:
    """What one worker can have: a GPU or a MIG instance. `id` is what CUDA is told."""

    id: str
    index: int
    is_instance: bool = False
    used_bytes: int | None = None
    total_bytes: int | None = None
    holders: tuple[int, ...] = ()

    @property
    def foreign_bytes(self) -> int:
        """How much is in use beyond what drivers and displays take; 0 if not known."""
        used = self.used_bytes or 0
        floor = max(_FOREIGN_BYTES, int(_FOREIGN_RATIO * (self.total_bytes or 0)))
        return used if used > floor else 0


@dataclass(frozen=True, slots=True)
class Need:
    """So many devices, of each such a share (1: nobody else is on it)."""

    count: int
    share: float = _WHOLE


@dataclass(frozen=True, slots=True)
class Holding:
    """What a worker holds, and what was in use there before it came, by device."""

    devices: tuple[str, ...] = ()
    share: float = _WHOLE
    used_before_bytes: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what a process record keeps; `from_json` is its inverse."""
        before = dict(self.used_before_bytes)
        return {"devices": list(self.devices), "share": self.share, "used_before_bytes": before}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Holding:
        """Read what `as_json` made, or nothing. Raises ValueError on anything else."""
        if not data:
            return cls()
        try:
            before = {str(name): int(used) for name, used in data["used_before_bytes"].items()}
            return cls(tuple(map(str, data["devices"])), float(data["share"]), before)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a holding of GPUs: {json.dumps(data)[:200]}") from error


def devices_of(readings: Iterable[Reading]) -> tuple[Device, ...]:
    """Return what workers can be given: whole GPUs, and the instances of divided ones.

    Without a UUID nothing can be given: a number may mean another GPU to CUDA than to NVML.
    """
    return tuple(
        Device(
            id=reading.mig or reading.uuid,
            index=reading.index,
            is_instance=bool(reading.mig),
            used_bytes=reading.memory_used_bytes,
            total_bytes=reading.memory_total_bytes,
            holders=reading.holders or (),
        )
        for reading in readings
        if reading.is_usable and (not reading.mig or reading.mig.startswith("MIG-"))
        if reading.mig or reading.uuid
    )


def need_of(profile: Profile, *, has_gpu: bool) -> Need | None:
    """Return what a worker of a profile needs; None if it takes no GPU, or names its own."""
    if VISIBLE in profile.environment:
        return None
    if profile.engine is not Engine.VLLM or not has_gpu:
        return None
    return Need(gpus_of(profile), profile.gpu_share)


def named_devices(profile: Profile, devices: Iterable[Device]) -> tuple[str, ...]:
    """Return the devices that a profile names itself in its environment, by UUID or number."""
    named = profile.environment.get(VISIBLE, "")
    by_name = {device.id: device.id for device in devices}
    by_name |= {str(device.index): device.id for device in devices if not device.is_instance}
    return tuple(by_name[it.strip()] for it in named.split(",") if it.strip() in by_name)


def within(devices: Iterable[Device], visible: str | None) -> tuple[Device, ...]:
    """Return those that the daemon's own CUDA_VISIBLE_DEVICES leaves to it; all if not set."""
    if visible is None:
        return tuple(devices)
    names = {name.strip() for name in visible.split(",")}
    return tuple(
        device
        for device in devices
        if device.id in names or (str(device.index) in names and not device.is_instance)
    )


def choose(
    devices: Iterable[Device], holdings: Mapping[str, Holding], need: Need
) -> tuple[str, ...] | str:
    """Return the ids of the devices that a worker gets, or why there are not enough.

    Those that are shared already go first, so that whole ones are left for those who need them.
    MIG instances are given singly: CUDA uses one, whatever it is told.
    """
    fitting, reasons = [], []
    for device in devices:
        if device.is_instance and need.count > 1:
            reasons.append(f"{device.id}: a MIG instance, and {need.count} GPUs are needed")
        elif why := _occupied(device, holdings, need):
            reasons.append(f"{device.id}: {why}")
        else:
            fitting.append(device)
    if len(fitting) < need.count:
        free = f"{len(fitting)} of {need.count} GPUs are free"
        return f"{free} ({'; '.join(reasons)})" if reasons else f"{free}, and there are no others"
    fitting.sort(key=lambda it: (-_held_share(it, holdings), it.index, it.id))
    return tuple(device.id for device in fitting[: need.count])


def holders_of(device_id: str, holdings: Mapping[str, Holding]) -> tuple[str, ...]:
    """Return the workers that hold a device."""
    return tuple(name for name, holding in holdings.items() if device_id in holding.devices)


def _occupied(device: Device, holdings: Mapping[str, Holding], need: Need) -> str:
    holders = holders_of(device.id, holdings)
    if holders:
        room = _WHOLE - _held_share(device, holdings)
        if need.share <= room + _ROUNDING:
            return ""
        by_share = f", {max(0.0, room):.2f} of it is free" if room > _ROUNDING else ""
        return f"held by {', '.join(holders)}{by_share}{_asked(need)}"
    if device.foreign_bytes:
        who = ", ".join(f"process {pid}" for pid in device.holders) or "nobody known"
        whole = f"of {device.total_bytes / (1 << 30):.1f} " if device.total_bytes else ""
        used = f"{device.foreign_bytes / (1 << 30):.1f} {whole}GiB"
        return f"{used} in use by {who}{_asked(need)}"
    return ""


def _asked(need: Need) -> str:
    return f", {need.share:g} of it is asked for" if need.share < _WHOLE else ""


def _held_share(device: Device, holdings: Mapping[str, Holding]) -> float:
    return sum(it.share for it in holdings.values() if device.id in it.devices)
