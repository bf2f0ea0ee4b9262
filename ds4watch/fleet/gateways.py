"""Keeps the gateway processes: processes of their own, which outlive the daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.settings import GatewaySettings, RunBy
from ds4watch.fleet.life import LifeLimits, backoff_seconds
from ds4watch.fleet.process import ProcessRecord, ProcessTable
from ds4watch.fleet.recipe import worker_environment
from ds4watch.model.alert import fingerprint_of
from ds4watch.model.ports import Clock
from ds4watch.model.series import labels_of

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_STEADY_SECONDS = 10.0
_DRAIN_MARGIN_SECONDS = 5.0
_BACKOFF = LifeLimits(
    start_timeout_seconds=30.0,
    canary_interval_seconds=10.0,
    backoff_seconds=0.5,
    backoff_max_seconds=30.0,
)


@dataclass(slots=True)
class _Kept:
    """One gateway and how often it has failed in a row."""

    record: ProcessRecord
    failures: int = 0
    retry_at: float = 0.0
    dead: bool = False


class GatewayKeeper:
    """Starts, adopts, restarts and drains the gateways of one state folder."""

    def __init__(
        self, table: ProcessTable, settings: GatewaySettings, state_dir: Path, clock: Clock
    ) -> None:
        self._table = table
        self._settings = settings
        self._state_dir = state_dir
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def adopt(self) -> int:
        """Adopt gateways that still run as wanted, end others; return how many were adopted."""
        names = self._names()
        strangers = []
        for record in list(self._table.records()):
            kind, _, name = record.unit.partition("/")
            if kind != "gateway":
                continue
            if not record.is_alive():
                self._table.kill_leftovers(record)
                self._table.forget(record)
            elif name in names and record.spec == self._digest():
                self._kept[name] = _Kept(record)
            else:
                strangers.append(record)
        await asyncio.gather(*(self._stop(record) for record in strangers))
        return len(self._kept)

    def start_missing(self) -> None:
        """Start the gateways that are not there yet."""
        for name in self._names():
            if name not in self._kept:
                self._kept[name] = _Kept(self._spawn(name))

    async def keep(self) -> None:
        """Restart gateways that die, with back-off; serve until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for name, kept in self._kept.items():
                self._look(name, kept)

    @property
    def wanted(self) -> int:
        """How many gateways there should be, whoever starts them."""
        return self._settings.processes

    def pids(self) -> dict[str, int]:
        """Return the process ids by name."""
        return {name: kept.record.pid for name, kept in self._kept.items()}

    def last_words(self) -> str:
        """Return the last log line of a gateway that is not running; empty if all are."""
        for kept in self._kept.values():
            if not self._table.is_alive(kept.record):
                text = Path(kept.record.log).read_text(encoding="utf-8", errors="replace")
                return text.strip().rpartition("\n")[2]
        return ""

    async def stop(self) -> bool:
        """Drain and end all gateways. Returns False if something survived."""
        gone = await asyncio.gather(*(self._stop(kept.record) for kept in self._kept.values()))
        self._kept = {}
        return all(gone)

    def _names(self) -> list[str]:
        if self._settings.run_by is RunBy.SYSTEMD:
            return []
        return [f"g{number}" for number in range(self._settings.processes)]

    def _look(self, name: str, kept: _Kept) -> None:
        now = self._clock.now()
        if self._table.is_alive(kept.record):
            if now - kept.record.started_at > _STEADY_SECONDS:
                kept.failures = 0
            return
        if not kept.dead:
            kept.dead = True
            kept.failures += 1
            kept.retry_at = now + backoff_seconds(kept.failures, _BACKOFF)
            status = self._table.exit_code(kept.record)
            log.error("gateway %s died (status %s); log: %s", name, status, kept.record.log)
        if now >= kept.retry_at:
            kept.record = self._spawn(name)
            kept.dead = False

    async def _stop(self, record: ProcessRecord) -> bool:
        grace = self._settings.drain_seconds + _DRAIN_MARGIN_SECONDS
        return await self._table.stop(record, grace_seconds=grace)

    def _spawn(self, name: str) -> ProcessRecord:
        argv = (*self._argv(), "--name", name)
        return self._table.spawn(
            f"gateway/{name}",
            argv,
            env=worker_environment(os.environ, {}),
            spec=self._digest(),
            port=self._settings.port,
        )

    def _argv(self) -> tuple[str, ...]:
        settings = self._settings
        return (
            *(sys.executable, "-m", "ds4watch.gateway", "--state", str(self._state_dir)),
            *("--host", settings.host, "--port", str(settings.port)),
            *("--settings", settings.model_dump_json()),
        )

    def _digest(self) -> str:
        return fingerprint_of(labels_of({"argv": repr(self._argv())}))
