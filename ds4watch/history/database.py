"""One database: one thread that writes, one that reads, and neither waits for the other."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

from ds4watch.history.errors import CorruptError
from ds4watch.history.line import Fence, Home, Line, SetAside, Tuning
from ds4watch.history.migrate import Which, upgrade
from ds4watch.history.place import Place, Server
from ds4watch.history.sqlite_file import SqliteHome
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.ports import Clock

T = TypeVar("T")
_ServerHome = Callable[[Server, Which, Tuning], Home]


class Database:
    """The database at `place`, brought to the newest schema.

    A corrupt file is set aside, with a warning, and started anew; `set_aside` says so. Raises
    ConfigError for what a person has to mend (a folder that cannot be written, a wrong password,
    a database of a newer ds4watch), and StoreError if the database itself fails.
    """

    def __init__(
        self,
        place: Place,
        which: Which,
        tuning: Tuning,
        clock: Clock,
        *,
        fence: Fence | None = None,
    ) -> None:
        """Let only transactions write that pass the fence, if there is one."""
        self.set_aside: SetAside | None = None
        self._home = home_of(place, which, tuning)
        self._which = which
        self._fence = fence
        self._clock = clock
        self._writer: Line | None = None
        self._reader: Line | None = None
        self._closed = False
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix=f"{which}-write")
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix=f"{which}-read")
        try:
            self.connect()
        except CorruptError as error:
            self.start_anew(error)

    @property
    def label(self) -> str:
        """Its name in messages, without a password."""
        return self._home.label

    @property
    def is_open(self) -> bool:
        """Whether there are connections to work with."""
        return self._reader is not None

    def connect(self) -> None:
        """Open the database, making it where it is missing."""
        with self._home.starting():
            self._home.prepare()
            migrating = self._home.migrating()
            try:
                upgrade(migrating, self._which, name=self.label)
            finally:
                migrating.dispose()
        self._writer = self._home.line(read_only=False)
        self._reader = self._home.line(read_only=True)

    def start_anew(self, error: CorruptError) -> None:
        """Put a corrupt file out of the way and open a new one in its place."""
        self.dispose()
        self.set_aside = self._home.set_aside(self._clock.now(), str(error))
        self.connect()

    def first_read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads; a file that proves corrupt only now is started anew."""
        try:
            try:
                return self._look(work)
            except CorruptError as error:
                self.start_anew(error)
                return self._look(work)
        except BaseException:
            self.dispose()
            raise

    def dispose(self) -> None:
        """Close every connection; `connect` opens anew."""
        lines = (self._reader, self._writer)
        self._reader = self._writer = None
        for line in lines:
            if line is not None:
                line.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run a block as one transaction: all of it, or nothing and a StoreError."""
        with _open(self._writer).begin() as connection:
            if self._fence is not None:
                self._fence.check(connection)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run a block on one unchanging view of the data."""
        with _open(self._reader).begin() as connection:
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
        return await self._run(self._read_thread, self._look, work, *arguments)

    async def caught_up(self) -> None:
        """Wait until the disk has done what it is busy with."""
        writer = self._writer
        lagging = None if writer is None else writer.lagging()
        if lagging is not None:
            await asyncio.wrap_future(lagging)

    async def close(self) -> None:
        """Finish what is queued and close the database; a second call does nothing."""
        if self._closed:
            return
        await self._run(self._read_thread, int)
        await self.in_writer(self.dispose)
        self._closed = True
        self._read_thread.shutdown()
        self._write_thread.shutdown()

    def _look(self, work: Callable[..., T], *arguments: Any) -> T:
        with self.reading() as connection:
            return work(connection, *arguments)

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> T:
        if self._closed:
            raise _closed()
        return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)


def home_of(place: Place, which: Which, tuning: Tuning) -> Home:
    """Return the database at `place`, not opened yet."""
    if isinstance(place, Path):
        return SqliteHome(place, tuning)
    # The driver takes a tenth of a second to load, and is of no use to who has no server.
    module = importlib.import_module("ds4watch.history.postgres")
    return cast("_ServerHome", module.PostgresHome)(place, which, tuning)


def _open(line: Line | None) -> Line:
    if line is None:
        raise _closed()
    return line


def _closed() -> StoreError:
    return StoreError("the database is closed", reason=EdgeReason.GONE)
