"""A database that is a SQLite file, readable by its owner alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event

from ds4watch.history.columns import json_text
from ds4watch.history.errors import CorruptError, store_errors
from ds4watch.history.line import SetAside, Tuning
from ds4watch.history.wal import LONGEST_LOG_PAGES, WriteBack
from ds4watch.model.errors import ConfigError, EdgeReason, Located, StoreError
from ds4watch.model.ports import UnixSeconds

_log = logging.getLogger(__name__)

_QUICK_CHECK_BYTES = 32 << 20
"""Up to here the whole file is looked through at a start: a tenth of a second."""
_CACHE_KIB = 16 << 10


class SqliteHome:
    """The file at `path`."""

    def __init__(self, path: Path, tuning: Tuning) -> None:
        self.label = str(path)
        self._path = path
        self._tuning = tuning

    def prepare(self) -> None:
        """Make the file, and look through it. Raises ConfigError, CorruptError, StoreError."""
        prepare_file(self._path)
        if self._path.stat().st_size <= _QUICK_CHECK_BYTES:
            line = self.line(read_only=True)
            try:
                with line.begin() as connection:
                    _quick_check(connection)
            finally:
                line.dispose()

    def starting(self) -> AbstractContextManager[None]:
        """Raise StoreError: what a person could mend was told by `prepare`."""
        return store_errors()

    def migrating(self) -> Engine:
        """Return an engine that writes."""
        return self._engine(begin="BEGIN IMMEDIATE", read_only=False)

    def line(self, *, read_only: bool) -> SqliteLine:
        """Return a connection."""
        begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
        beside = None if read_only or self._tuning.durable else WriteBack(self._path)
        return SqliteLine(self._engine(begin=begin, read_only=read_only), beside)

    def set_aside(self, at: UnixSeconds, why: str) -> SetAside:
        """Rename the file, with its -wal and -shm, so that a new one can take its place."""
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
        kept = next(name for name in _names(self._path, stamp) if not name.exists())
        try:
            for suffix in ("", "-wal", "-shm"):
                part = self._path.with_name(self._path.name + suffix)
                if part.exists():
                    part.rename(kept.with_name(kept.name + suffix))
        except OSError as error:
            message = f"{self.label} is corrupt and cannot be set aside: {error}"
            raise StoreError(message, reason=EdgeReason.REFUSED) from error
        _log.warning("%s is corrupt (%s): kept as %s, started anew", self.label, why, kept.name)
        return SetAside(at, kept.name, why)

    def _engine(self, *, begin: str, read_only: bool) -> Engine:
        engine = create_engine(
            f"sqlite:///{self._path}", pool_size=1, max_overflow=0, json_serializer=json_text
        )
        tuning = self._tuning

        @event.listens_for(engine, "connect")
        def set_up(connection: Any, _record: Any) -> None:
            # The binding's own BEGIN comes late and is deferred; ours is the one that counts.
            connection.isolation_level = None
            connection.execute(f"PRAGMA busy_timeout={round(tuning.busy_timeout_seconds * 1000)}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={'FULL' if tuning.durable else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys=ON")
            # A target's rows stand a wave apart: its neighbours' come along, and are read next.
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            connection.execute(f"PRAGMA query_only={'ON' if read_only else 'OFF'}")
            # Many are built to fill what is deleted with zeros: that writes every page of a chunk.
            connection.execute("PRAGMA secure_delete=FAST")
            connection.execute(f"PRAGMA mmap_size={tuning.mapped_bytes}")
            if not tuning.durable:
                connection.execute(f"PRAGMA wal_autocheckpoint={LONGEST_LOG_PAGES}")

        @event.listens_for(engine, "begin")
        def start(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine


class SqliteLine:
    """One connection to a file."""

    def __init__(self, engine: Engine, beside: WriteBack | None = None) -> None:
        """Write; `beside` moves what was committed from the log, else every so often a commit."""
        self._engine = engine
        self._beside = beside

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run a block as one transaction. Raises StoreError."""
        with store_errors(), self._engine.begin() as connection:
            yield connection
        if self._beside is not None:
            self._beside.committed()

    def lagging(self) -> Future[None] | None:
        """Return what the disk is still busy with."""
        return None if self._beside is None else self._beside.lagging()

    def dispose(self) -> None:
        """Close it."""
        if self._beside is not None:
            self._beside.close()
        self._engine.dispose()


def prepare_file(path: Path) -> None:
    """Make the folder (0700) and the file (0600). Raises ConfigError where that is not allowed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the -wal and -shm files the permissions of the file itself.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError as error:
        finding = Located(
            f"cannot be written: {error.strerror}",
            file=str(path),
            mend="set `state_dir` to a folder that this user may write",
        )
        raise ConfigError(finding) from error


def _names(path: Path, stamp: str) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.corrupt-{stamp}")
    for number in range(1, 1000):
        yield path.with_name(f"{path.name}.corrupt-{stamp}-{number}")


def _quick_check(connection: Connection) -> None:
    finding = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if finding != "ok":
        raise CorruptError(str(finding), reason=EdgeReason.PARSE)
