"""What is written down of a worker that systemd runs, so that the next daemon knows it again."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ds4watch.fleet.process import ProcessRecord
from ds4watch.model.ports import UnixSeconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """A unit as it was started. `invocation` is systemd's own name of this very run of it."""

    unit: str
    invocation: str
    spec: str
    port: int
    started_at: UnixSeconds
    pid: int
    start_ticks: int
    end_seconds: float = 0.0
    gpus: Mapping[str, Any] = field(default_factory=dict)

    def process(self) -> ProcessRecord:
        """Return the same as the record of a process: a unit's leads a session, too."""
        return ProcessRecord(
            unit=self.unit,
            spec=self.spec,
            port=self.port,
            log="",
            started_at=self.started_at,
            pid=self.pid,
            start_ticks=self.start_ticks,
            boot_id="",
            end_seconds=self.end_seconds,
        )


class UnitRecords:
    """The units of one state folder: their names, and their records in `run/systemd`."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "run" / "systemd"
        self._prefix = f"ds4watch-{hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:8]}-"

    @property
    def pattern(self) -> str:
        """What the names of all units of this state folder look like, and of no others."""
        return f"{self._prefix}*.service"

    def unit(self, worker_id: str) -> str:
        """Return the name of a worker's unit."""
        return f"{self._prefix}{worker_id}.service"

    def secrets(self, unit: str) -> Path:
        """Return the file for the part of a unit's environment that only its user may read."""
        return self._path(unit).with_suffix(".env")

    def write(self, record: UnitRecord) -> None:
        """Write a unit down."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(record.unit)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(record)), encoding="utf-8")
        temporary.replace(path)

    def read(self, unit: str) -> UnitRecord | None:
        """Return a unit's record; None if there is none that can be read."""
        return _read(self._path(unit))

    def forget(self, unit: str) -> None:
        """Remove what was written of a unit."""
        for suffix in (".json", ".env"):
            self._path(unit).with_suffix(suffix).unlink(missing_ok=True)
        if self._folder.exists() and not any(self._folder.iterdir()):
            self._folder.rmdir()

    def all(self) -> Iterator[UnitRecord]:
        """Yield every record that can be read."""
        for path in sorted(self._folder.glob("*.json")):
            record = _read(path)
            if record is not None:
                yield record

    def _path(self, unit: str) -> Path:
        name = unit.removeprefix(self._prefix).removesuffix(".service")
        return self._folder / f"{name}.json"


def _read(path: Path) -> UnitRecord | None:
    try:
        return UnitRecord(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        log.warning("%s is not the record of a unit (%s): left aside", path, error)
        return None
