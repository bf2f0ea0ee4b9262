"""Gives GPUs to workers, takes them back, and tells of memory that a dead worker left on one."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ds4watch.fleet.devices import (
    VISIBLE,
    Device,
    Holding,
    Reading,
    choose,
    devices_of,
    holders_of,
    named_devices,
    need_of,
    within,
)
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import EdgeReason, WorkerError

log = logging.getLogger(__name__)

_TOLERANCE_BYTES = 256 << 20
_SETTLE_SECONDS = 15.0
_LOOK_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 30.0


class Report(Protocol):
    """What NVML told."""

    @property
    def readings(self) -> Sequence[Reading]:
        """One for each GPU and MIG instance."""
        ...

    @property
    def why_not(self) -> str:
        """Why there are none; empty if NVML told."""
        ...


class Sight(Protocol):
    """Who looks at the GPUs; bound in daemon.py."""

    async def read(self) -> Report:
        """Return what there is now, within seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Leftover:
    """Memory of a GPU that is in use after the worker that used it has ended. 0 bytes: no more."""

    worker_id: str
    device: str
    used_bytes: int
    holders: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.used_bytes:
            return f"{self.device}: the memory that {self.worker_id} left is free again"
        who = ", ".join(f"process {pid}" for pid in self.holders) or "no process that is known"
        size = f"{self.used_bytes / (1 << 30):.1f} GiB"
        return f"{size} of {self.device} are in use by {who} after {self.worker_id} ended there"


class LeftoverNotes(Protocol):
    """Who is told of leftover memory; must not raise."""

    async def gpu_leftover(self, found: Leftover) -> None:
        """Note that memory was left, or is free again."""
        ...


@dataclass(frozen=True, slots=True)
class DeskTimes:
    """How long a GPU may take to be free, and how often it is looked at before and after that."""

    settle_seconds: float = _SETTLE_SECONDS
    look_seconds: float = _LOOK_SECONDS
    look_again_seconds: float = _LOOK_AGAIN_SECONDS


class GpuDesk:
    """One for a fleet: never two workers on one GPU, unless their profiles say a share."""

    def __init__(
        self,
        sight: Sight | None = None,
        notes: LeftoverNotes | None = None,
        *,
        has_gpu: bool = False,
        visible: str | None = None,
        times: DeskTimes | None = None,
    ) -> None:
        """Give no more than `visible`, the daemon's own CUDA_VISIBLE_DEVICES, if that is set.

        Without `sight` there is no GPU to give.
        """
        self._sight = sight
        self._notes = notes
        self._has_gpu = has_gpu
        self._visible = visible
        self._times = times or DeskTimes()
        self._holdings: dict[str, Holding] = {}
        self._known: tuple[Device, ...] = ()
        self._turn = asyncio.Lock()
        self._watches: dict[str, asyncio.Task[None]] = {}

    def holding(self, worker_id: str) -> Holding:
        """Return what a worker holds; of nothing, nothing."""
        return self._holdings.get(worker_id, Holding())

    def adopt(self, worker_id: str, holding: Holding) -> None:
        """Take in what a worker held already under an earlier daemon."""
        if holding.devices:
            self._holdings[worker_id] = holding

    async def take(self, spec: WorkerSpec) -> Mapping[str, str]:
        """Give a worker its GPUs; return what its environment says of it. Raises WorkerError."""
        need = need_of(spec.profile, has_gpu=self._has_gpu)
        names_own = VISIBLE in spec.profile.environment and self._has_gpu
        if need is None and not names_own:
            return {}
        async with self._turn:
            devices = await self._look()
            others = {it: held for it, held in self._holdings.items() if it != spec.id}
            if need is None:
                self._hold(spec.id, named_devices(spec.profile, devices), devices, share=1.0)
                return {}
            if not devices and spec.profile.gpus is None:
                log.warning("%s: NVML tells of no GPU: none is assigned to it", spec.id)
                return {}
            chosen = choose(within(devices, self._visible), others, need)
            if isinstance(chosen, str):
                raise WorkerError(f"not started: {chosen}", reason=EdgeReason.FULL, retryable=True)
            self._hold(spec.id, chosen, devices, share=need.share)
        return {VISIBLE: ",".join(chosen)}

    def release(self, worker_id: str) -> None:
        """Take back what a worker held, once nothing of it runs; look whether memory is left."""
        holding = self._holdings.pop(worker_id, None)
        if holding is not None:
            self._cancel(worker_id)
            watch = self._watch(worker_id, holding)
            self._watches[worker_id] = asyncio.create_task(watch, name=f"memory of {worker_id}")

    async def close(self) -> None:
        """Stop looking."""
        watches = list(self._watches.values())
        for name in list(self._watches):
            self._cancel(name)
        await asyncio.gather(*watches, return_exceptions=True)

    def _hold(
        self, worker_id: str, ids: Sequence[str], devices: Sequence[Device], *, share: float
    ) -> None:
        before = {it.id: it.used_bytes for it in devices if it.id in ids and it.used_bytes}
        self._holdings[worker_id] = Holding(tuple(ids), share, before)

    def _cancel(self, worker_id: str) -> None:
        watch = self._watches.pop(worker_id, None)
        if watch is not None:
            watch.cancel()

    async def _look(self) -> tuple[Device, ...]:
        """Return the devices as they are; if NVML is silent now, as it last told them."""
        report = await self._sight.read() if self._sight is not None else None
        if report is not None and not report.why_not:
            self._known = devices_of(report.readings)
        return self._known

    async def _watch(self, worker_id: str, holding: Holding) -> None:
        """Tell once what is left when the memory should be free, and once when it is."""
        left = dict.fromkeys(holding.devices, 0)
        waited = 0.0
        while waited < self._times.settle_seconds and left:
            await asyncio.sleep(self._times.look_seconds)
            waited += self._times.look_seconds
            left = {it.device: it.used_bytes for it in await self._left(worker_id, holding)}
        for found in await self._left(worker_id, holding) if left else ():
            await self._tell(found)
        told = set(left)
        while told:
            await asyncio.sleep(self._times.look_again_seconds)
            still = {it.device for it in await self._left(worker_id, holding)}
            for device in told - still:
                await self._tell(Leftover(worker_id, device, 0))
            told &= still

    async def _left(self, worker_id: str, holding: Holding) -> list[Leftover]:
        """Return what is in use beyond what was so before, where no other worker of ours is."""
        return [
            Leftover(worker_id, it.id, it.used_bytes or 0, it.holders)
            for it in await self._look()
            if it.id in holding.devices and not holders_of(it.id, self._holdings)
            if (it.used_bytes or 0) > holding.used_before_bytes.get(it.id, 0) + _TOLERANCE_BYTES
        ]

    async def _tell(self, found: Leftover) -> None:
        log.log(logging.WARNING if found.used_bytes else logging.INFO, "%s", found)
        if self._notes is not None:
            await self._notes.gpu_leftover(found)


def own_visible() -> str | None:
    """Return the daemon's own CUDA_VISIBLE_DEVICES; None if it is not set."""
    return os.environ.get(VISIBLE)
