"""Processes in sessions of their own, which outlive the daemon and are found again.

A unit ("worker/tiny-full-0", "gateway/g0") is one process with everything it started. It leads a
session of its own, so all of it is found by session id even after its leader has died.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

from ds4watch.fleet.end_told import note_end_told
from ds4watch.fleet.launch import boot_id, start_ticks_of
from ds4watch.fleet.log_room import is_full
from ds4watch.fleet.ring_log import trim
from ds4watch.fleet.shutdown import grace_seconds as grace_of
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.ports import Clock, UnixSeconds

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_REST_SECONDS = 1.0
_KILL_SECONDS = 10.0
_RECORD_BYTES = 4096
"""More than a record takes."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A unit as its launcher wrote it down. `spec` tells whether it is still what is wanted.

    gpus: what it holds of them, as `Holding.as_json` writes it; empty if nothing. end_seconds: from
    SIGTERM to SIGKILL at least, since it lets its work end. is_ending: it was told to end, and does
    so whether this daemon lives or not.
    """

    unit: str
    spec: str
    port: int
    log: str
    started_at: UnixSeconds
    pid: int
    start_ticks: int
    boot_id: str
    gpus: Mapping[str, Any] = field(default_factory=dict)
    end_seconds: float = 0.0
    is_ending: bool = False

    def is_alive(self) -> bool:
        """Return whether that very process runs (not another with its number, not a zombie)."""
        stat = _stat(self.pid)
        return stat is not None and stat.start_ticks == self.start_ticks and stat.state != "Z"


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    session: int
    start_ticks: int


def _stat(pid: int | str) -> _Stat | None:
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    rest = raw.rpartition(b")")[2].split()
    return _Stat(state=rest[0].decode(), session=int(rest[3]), start_ticks=int(rest[19]))


def members(record: ProcessRecord) -> list[int]:
    """Return the pids of all live processes of a unit, its leader or not.

    A number in use as a session id is not given to a new process, so once another process has
    the leader's number, nothing of the unit is left.
    """
    leader = _stat(record.pid)
    if leader is not None and leader.start_ticks != record.start_ticks:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        stat = _stat(entry.name) if entry.name.isdigit() else None
        if stat is not None and stat.session == record.pid and stat.state != "Z":
            found.append(int(entry.name))
    return found


def left_of(record: ProcessRecord) -> str:
    """Return in a line what of a unit runs, and how to end it; empty if nothing does."""
    pids = " ".join(map(str, sorted(members(record))))
    if not pids:
        return ""
    return (
        f"{record.unit}: still runs, process {pids}; end it with `kill -9 {pids}`, and where that "
        "does not help (it waits in the kernel for a device or a disk) by a restart of the machine"
    )


class ProcessTable:
    """The units of one state folder: spawn, find again, stop."""

    def __init__(
        self,
        state_dir: Path,
        clock: Clock,
        send: Callable[[int, int], None] | None = None,
        *,
        kill_seconds: float = _KILL_SECONDS,
    ) -> None:
        """Signals are sent by `send`; what is killed has `kill_seconds` to be gone."""
        self._kill_seconds = kill_seconds
        self._run = state_dir / "run"
        self._logs = state_dir / "logs"
        self._clock = clock
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._send = send or _signal
        self._withstood: dict[str, frozenset[int]] = {}
        """By unit, processes that SIGKILL did not end."""
        for folder in (self._run, self._logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def spawn(
        self,
        unit: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        spec: str,
        port: int,
        gpus: Mapping[str, Any] | None = None,
        keep: Sequence[int] = (),
    ) -> ProcessRecord:
        """Start a unit, with the descriptors `keep` open. Raises WorkerError if it cannot be."""
        log_path = self.log_path(unit)
        started_at = self._clock.now()
        end_seconds = grace_of(argv, 0.0)
        meta = {
            "unit": unit,
            "spec": spec,
            "port": port,
            "log": str(log_path),
            "started_at": started_at,
            "gpus": dict(gpus or {}),
            "end_seconds": end_seconds,
        }
        launcher = str(Path(__file__).with_name("launch.py"))
        command = [sys.executable, "-I", "-S", launcher, str(self._record_path(unit))]
        command += [str(self._record_path(unit).with_suffix(".lock")), json.dumps(meta), "--"]
        try:
            _check_room(self._record_path(unit))
            with _open_log(log_path) as stream:
                child = subprocess.Popen(
                    [*command, *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=dict(env),
                    start_new_session=True,
                    pass_fds=keep,
                )
        except OSError as error:
            message = f"{unit} cannot be started: {error}"
            raise WorkerError(message, reason=EdgeReason.OTHER) from error
        self._children[child.pid] = child
        return ProcessRecord(
            unit=unit,
            spec=spec,
            port=port,
            log=str(log_path),
            started_at=started_at,
            pid=child.pid,
            start_ticks=start_ticks_of(child.pid),
            boot_id=boot_id(),
            gpus=dict(gpus or {}),
            end_seconds=end_seconds,
        )

    def log_path(self, unit: str) -> Path:
        """Return where a unit's output goes."""
        return self._logs / f"{unit.replace('/', '-')}.log"

    def records(self) -> Iterator[ProcessRecord]:
        """Yield what earlier daemons left written down, alive or not, of this boot."""
        known = {it.name for it in fields(ProcessRecord)}
        this_boot = boot_id()
        for path in sorted(self._run.glob("*.json")):
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                record = ProcessRecord(**{name: data[name] for name in known & data.keys()})
            except (OSError, ValueError, TypeError, AttributeError) as error:
                log.warning("%s is not a process record (%s): left aside", path, error)
                continue
            if record.boot_id == this_boot:
                yield record
            else:
                path.unlink(missing_ok=True)

    def exit_code(self, record: ProcessRecord) -> int | None:
        """Return how a unit of ours ended (negative: by that signal); None if not known."""
        child = self._children.get(record.pid)
        return child.poll() if child is not None else None

    def is_alive(self, record: ProcessRecord) -> bool:
        """Return whether the unit's leader runs; reaps it when it does not.

        A child of ours is dead once it is known how it ended: while its last threads end, it is a
        zombie that tells nothing yet.
        """
        child = self._children.get(record.pid)
        return child.poll() is None if child is not None else record.is_alive()

    async def stop(self, record: ProcessRecord, *, grace_seconds: float) -> bool:
        """End a unit and all it started: SIGTERM to the leader, then SIGKILL to what is left.

        Returns False if something survived SIGKILL (a process stuck in the kernel). That is told
        once and sent nothing more; a later call only waits for its end.
        """
        withstood = self._withstood.get(record.unit, frozenset())
        if self.is_alive(record) and record.pid not in withstood:
            note_end_told(self._record_path(record.unit), record.pid)
            self._send(record.pid, signal.SIGTERM)
            grace = max(grace_seconds, record.end_seconds)
            await self._until(lambda: not self.is_alive(record), grace)
        await self._until(lambda: not members(record), _REST_SECONDS)
        for pid in set(members(record)) - withstood:
            log.info("%s: process %s did not stop by itself: killed", record.unit, pid)
            self._send(pid, signal.SIGKILL)
        gone = await self._until(lambda: not members(record), self._kill_seconds)
        self._note_withstood(record, withstood)
        if gone:
            self.forget(record)
        return gone

    def _note_withstood(self, record: ProcessRecord, before: frozenset[int]) -> None:
        left = frozenset(members(record))
        if left - before:
            log.error("SIGKILL does not end it: %s", left_of(record))
        elif before and not left:
            log.warning("%s: what survived SIGKILL is gone", record.unit)
        self._withstood.pop(record.unit, None)
        if left:
            self._withstood[record.unit] = left

    def forget(self, record: ProcessRecord) -> None:
        """Remove the record of a unit that has ended."""
        child = self._children.pop(record.pid, None)
        if child is not None:
            child.poll()
        path = self._record_path(record.unit)
        with contextlib.suppress(OSError, ValueError):
            if json.loads(path.read_text(encoding="utf-8"))["pid"] == record.pid:
                path.unlink()
                path.with_suffix(".lock").unlink(missing_ok=True)

    def kill_leftovers(self, record: ProcessRecord) -> None:
        """Kill what a dead leader left running (an engine that outlived its API server)."""
        for pid in members(record):
            log.warning("%s: its leader died and left process %s: killed", record.unit, pid)
            self._send(pid, signal.SIGKILL)

    async def _until(self, done: Callable[[], bool], seconds: float) -> bool:
        deadline = self._clock.monotonic() + seconds
        while not done():
            if self._clock.monotonic() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
            self._reap()
        return True

    def _reap(self) -> None:
        for child in self._children.values():
            child.poll()

    def _record_path(self, unit: str) -> Path:
        return self._run / f"{unit.replace('/', '-')}.json"


def _check_room(record: Path) -> None:
    """Raise OSError if no record can be written: the unit would end where it is to write it."""
    probe = record.with_suffix(".room")
    try:
        probe.write_bytes(bytes(_RECORD_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def _open_log(path: Path) -> BinaryIO:
    """Open a log for appending, cut first if it is over its limit.

    With its disk full there is none: who dies of a line that it cannot write never comes up.
    """
    trim(path)
    if is_full(path.parent):
        return Path(os.devnull).open("wb")
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
