"""One SQLite file: one thread that writes, one that reads, and neither waits for the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from ds4watch.history.errors import store_errors
from ds4watch.history.migrate import Which, upgrade
from ds4watch.model.errors import ConfigError, EdgeReason, Located, StoreError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tuning:
    """How much a file is worth. `synchronous` is SQLite's: NORMAL or FULL."""

    synchronous: str
    busy_timeout_seconds: float


class Database:
    """The file at `path`, brought to the newest schema.

    Raises ConfigError if the folder cannot be written or the file is of a newer ds4watch, and
    StoreError (CorruptError included) if the database itself fails.
    """

    def __init__(self, path: Path, which: Which, tuning: Tuning) -> None:
        self.path = path
        self._which = which
        self._tuning = tuning
        self._writer: Engine | None = None
        self._reader: Engine | None = None
        self._closed = False
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix=f"{path.stem}-write")
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix=f"{path.stem}-read")
        try:
            self.connect()
        except BaseException:
            self.dispose()
            raise

    @property
    def is_open(self) -> bool:
        """Whether there are connections to work with."""
        return self._reader is not None

    def connect(self) -> None:
        """Open the file, making it where it is missing."""
        prepare_file(self.path)
        with store_errors():
            self._writer = _engine(self.path, self._tuning, begin="BEGIN IMMEDIATE")
            upgrade(self._writer, self._which, file=self.path)
            self._reader = _engine(self.path, self._tuning, begin="BEGIN", read_only=True)

    def dispose(self) -> None:
        """Close every connection; `connect` opens anew."""
        engines = (self._reader, self._writer)
        self._reader = self._writer = None
        for engine in engines:
            if engine is not None:
                engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run a block as one transaction: all of it, or nothing and a StoreError."""
        with store_errors(), _open(self._writer).begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run a block on one unchanging view of the data."""
        with store_errors(), _open(self._reader).begin() as connection:
            yield connection

    async def in_writer(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in the writer's thread."""
        return await self._run(self._write_thread, work, *arguments)

    async def write(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` as one transaction in the writer's thread."""

        def transact() -> T:
            with self.writing() as connection:
                return work(connection, *arguments)

        return await self.in_writer(transact)

    async def read(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work(connection, *arguments)` in the reader's thread."""

        def look() -> T:
            with self.reading() as connection:
                return work(connection, *arguments)

        return await self._run(self._read_thread, look)

    async def close(self) -> None:
        """Finish what is queued and close the file; a second call does nothing."""
        if self._closed:
            return
        await self._run(self._read_thread, int)
        await self.in_writer(self.dispose)
        self._closed = True
        self._read_thread.shutdown()
        self._write_thread.shutdown()

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> T:
        if self._closed:
            raise _closed()
        return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)


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


def _engine(path: Path, tuning: Tuning, *, begin: str, read_only: bool = False) -> Engine:
    engine = create_engine(f"sqlite:///{path}", pool_size=1, max_overflow=0)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # The binding's own BEGIN comes late and is deferred; ours is the one that counts.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={round(tuning.busy_timeout_seconds * 1000)}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={tuning.synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA query_only={'ON' if read_only else 'OFF'}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _open(engine: Engine | None) -> Engine:
    if engine is None:
        raise _closed()
    return engine


def _closed() -> StoreError:
    return StoreError("the database is closed", reason=EdgeReason.GONE)
