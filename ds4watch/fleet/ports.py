"""Ports of workers on this machine: kept among daemons, and a stolen one noticed."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ds4watch.fleet.command import HOST
from ds4watch.fleet.enter import hold, is_free
from ds4watch.model.errors import EdgeReason, WorkerError

_TRIES = 1000
_LISTENS = "0A"
_REACHED_BY_LOOPBACK = (
    "0100007F",
    "00000000",
    "0" * 32,
    "0000000000000000FFFF00000100007F",
)
"""127.0.0.1, any address, and the same in the table of IPv6."""


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A port that no other daemon gives to a worker while `holder` or a copy of it is open."""

    port: int
    holder: socket.socket

    def __enter__(self) -> HeldPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.holder.close()


class Listener(StrEnum):
    """Who would answer on a port."""

    NOBODY = "nobody"
    OURS = "ours"
    STRANGER = "stranger"


def hold_free_port(first: int, taken: Iterable[int]) -> HeldPort:
    """Hold the first port from `first` on that nobody has. Raises WorkerError."""
    used = set(taken)
    for port in range(first, min(first + _TRIES, 65536)):
        holder = None if port in used else hold(port)
        if holder is None:
            continue
        if is_free(HOST, port):
            return HeldPort(port, holder)
        holder.close()
    raise WorkerError(f"no free port from {first} on", reason=EdgeReason.REFUSED)


def listener_on(port: int, pids: Iterable[int]) -> Listener:
    """Return who listens where a loopback connection to `port` arrives.

    One stranger is enough: of two that share a port the kernel picks one for each connection.
    """
    found = _listening(port)
    if not found:
        return Listener.NOBODY
    return Listener.OURS if found <= _sockets_of(pids) else Listener.STRANGER


def _listening(port: int) -> set[str]:
    ending = f":{port:04X}"
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), Path(table).open(encoding="ascii") as lines:
            next(lines, None)
            for line in lines:
                fields = line.split()
                if fields[3] != _LISTENS:
                    break  # those that listen stand first
                address = fields[1]
                if address.endswith(ending) and address[:-5] in _REACHED_BY_LOOPBACK:
                    found.add(fields[9])
    return found


def _sockets_of(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    target = str(Path(entry.path).readlink())
                    if target.startswith("socket:["):
                        found.add(target[8:-1])
    return found
