"""What a database has to offer, whatever the engine."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, Engine

from ds4watch.model.ports import UnixSeconds


@dataclass(frozen=True, slots=True)
class Tuning:
    """How much a database is worth, and how long its answers may take.

    durable: whether a commit is on disk before it counts; else the last moments may be lost
        when the machine dies.
    busy_timeout_seconds: how long another writer is waited for.
    answer_timeout_seconds: how long a transaction may take on a server.
    mapped_bytes: how much of a file is read as memory, if it is; a disk that fails is then a
        crash, so only where nothing else is at stake.
    one_writer: whether transactions that write wait for each other.
    vanished_seconds: how long a server keeps the locks of a client that vanished in the middle of
        a transaction.
    """

    durable: bool
    busy_timeout_seconds: float
    answer_timeout_seconds: float = 2.0
    mapped_bytes: int = 0
    one_writer: bool = True
    vanished_seconds: float = 60.0


class Fence(Protocol):
    """What a transaction that writes has to pass."""

    def check(self, connection: Connection) -> None:
        """Raise StoreError if this daemon may not write; if it may, so until the commit."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A damaged file that was renamed, and why."""

    at: UnixSeconds
    kept: str
    why: str


class Line(Protocol):
    """One connection, used by one thread."""

    def begin(self) -> AbstractContextManager[Connection]:
        """Run a block as one transaction. Raises StoreError."""

    def lagging(self) -> Future[None] | None:
        """Return what the disk is still busy with, if it is."""

    def dispose(self) -> None:
        """Close it."""


class Home(Protocol):
    """Where one of our databases lives."""

    label: str
    """Its name in messages, without a password."""

    def prepare(self) -> None:
        """Make what has to be there before a connection, and look whether it is sound."""

    def starting(self) -> AbstractContextManager[None]:
        """Raise what a person can mend as ConfigError, all else as StoreError."""

    def migrating(self) -> Engine:
        """Return an engine without limits of time, to be disposed of after use."""

    def line(self, *, read_only: bool) -> Line:
        """Return a connection that opens when it is used."""

    def set_aside(self, at: UnixSeconds, why: str) -> SetAside:
        """Put a damaged database out of the way."""
