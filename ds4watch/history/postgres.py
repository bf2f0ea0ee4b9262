"""A database that is a schema on a PostgreSQL server."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, func, make_url, select

from ds4watch.history.columns import json_text
from ds4watch.history.errors import store_errors
from ds4watch.history.gate import Gate
from ds4watch.history.line import SetAside, Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.place import Server
from ds4watch.model.errors import ConfigError, EdgeReason, Located, StoreError
from ds4watch.model.ports import UnixSeconds

FIELD = "store.url"
OLDEST_VERSION = 14
CONNECT_SECONDS = 2
"""libpq knows none shorter."""
READ_SECONDS = 30.0
MIGRATE_LOCK_SECONDS = 10.0
LOOK_SECONDS = 1.0
_CUT_GRACE_SECONDS = 0.5
_AWAY = frozenset({EdgeReason.GONE, EdgeReason.TIMEOUT, EdgeReason.REFUSED})


class PostgresHome:
    """The schema of one of our databases, on one server."""

    def __init__(self, server: Server, which: Which, tuning: Tuning) -> None:
        self.label = f"{server} (schema {which.schema})"
        self._server = server
        self._which = which
        self._tuning = tuning
        self._url = make_url(server.url).set(drivername="postgresql+psycopg")

    def prepare(self) -> None:
        """Do nothing: the server is somebody else's, and looks after its files."""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Raise what a person can mend as ConfigError, all else as StoreError."""
        try:
            with store_errors(psycopg.Error):
                yield
        except StoreError as error:
            if error.reason is EdgeReason.REFUSED:
                raise ConfigError(self._finding(str(error))) from error
            message = f"{FIELD}: {self._server}: {error}"
            raise StoreError(message, reason=error.reason, retryable=error.retryable) from error

    def migrating(self) -> Engine:
        """Return an engine whose statements may take as long as they need."""
        return self._engine(None, {"lock_timeout": _milliseconds(MIGRATE_LOCK_SECONDS)})

    def line(self, *, read_only: bool) -> PostgresLine:
        """Return a connection that opens when it is used."""
        tuning, handle = self._tuning, _Socket()
        seconds = READ_SECONDS if read_only else tuning.answer_timeout_seconds
        settings = {
            "statement_timeout": _milliseconds(seconds),
            "lock_timeout": _milliseconds(tuning.busy_timeout_seconds),
            "idle_in_transaction_session_timeout": _milliseconds(tuning.vanished_seconds),
            "synchronous_commit": "on" if tuning.durable else "off",
        }
        if read_only:
            settings["default_transaction_read_only"] = "on"
            settings["default_transaction_isolation"] = "repeatable read"
        engine = self._engine(handle, settings)
        if not read_only and tuning.one_writer:
            _one_writer(engine, self._which)
        longest = seconds + _CUT_GRACE_SECONDS
        return PostgresLine(engine, handle, self._look, longest_seconds=longest)

    def set_aside(self, at: UnixSeconds, why: str) -> SetAside:
        """Refuse: a server's damaged files are for its administrator."""
        message = f"{self.label} is corrupt ({why}, at {at:.0f})"
        raise StoreError(message, reason=EdgeReason.REFUSED)

    def _engine(self, handle: _Socket | None, settings: dict[str, str]) -> Engine:
        engine = create_engine(
            self._url,
            pool_size=1,
            max_overflow=0,
            # A connection that was ended meanwhile is made anew, and nobody notices.
            pool_pre_ping=True,
            json_serializer=json_text,
            hide_parameters=True,
        )
        wanted = {"search_path": self._which.schema, "TimeZone": "UTC"} | settings

        @event.listens_for(engine, "do_connect")
        def connect(_dialect: Any, _record: Any, _args: Any, options: Any) -> Any:
            if handle is not None:
                handle.admit()
            raw: psycopg.Connection[Any] = psycopg.connect(**_bounded(options))
            try:
                if handle is not None:
                    handle.take(raw)
                self._check(raw)
                for name, value in wanted.items():
                    raw.execute("SELECT set_config(%s, %s, false)", (name, value))
                raw.commit()
            except BaseException:
                raw.close()
                raise
            return raw

        return engine

    def _look(self) -> None:
        """Raise StoreError unless the server lets us in."""
        _args, options = self._url.get_dialect()().create_connect_args(self._url)
        with store_errors(psycopg.Error):
            psycopg.connect(**_bounded(dict(options))).close()

    def _check(self, raw: psycopg.Connection[Any]) -> None:
        version = raw.info.server_version // 10_000
        if version < OLDEST_VERSION:
            message = f"is PostgreSQL {version}; ds4watch needs {OLDEST_VERSION} or newer"
            raise ConfigError(self._finding(message, mend="upgrade the server"))
        encoding = raw.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            mend = "make one with: createdb --encoding=UTF8 --template=template0"
            raise ConfigError(self._finding(f"the database is in {encoding}, not UTF8", mend=mend))

    def _finding(self, message: str, *, mend: str | None = None) -> Located:
        shown = message.rpartition("FATAL:")[2].strip()
        if self._url.password:
            shown = shown.replace(str(self._url.password), "***")
        return Located(
            f"{self._server}: {shown}", field=FIELD, mend=mend or self._mend(shown.lower())
        )

    def _mend(self, message: str) -> str:
        database, schema = self._url.database, self._which.schema
        user = self._url.username or "the user"
        if "permission denied for database" in message:
            return f"GRANT CREATE, CONNECT ON DATABASE {database} TO {user}"
        if "permission denied for schema" in message:
            return f"ALTER SCHEMA {schema} OWNER TO {user}"
        if "does not exist" in message and "database" in message:
            return f"make it with: createdb {database}, or name another"
        if "password" in message or "authentication" in message:
            return "set the password by PGPASSWORD, in ~/.pgpass, or in the address"
        return "see docs/storage.md"


class PostgresLine:
    """One connection to a server, made anew when it was lost.

    A call never takes longer than `longest_seconds`, even if the server only hangs; once it is
    away, calls fail at once until it answers again.
    """

    def __init__(
        self,
        engine: Engine,
        handle: _Socket,
        look: Callable[[], None],
        *,
        longest_seconds: float,
    ) -> None:
        self._engine = engine
        self._handle = handle
        self._longest_seconds = longest_seconds
        self._gate = Gate(look, pause_seconds=LOOK_SECONDS)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run a block as one transaction. Raises StoreError."""
        self._gate.admit()
        limit = _Limit(self._handle, self._longest_seconds)
        try:
            with store_errors(psycopg.Error), limit, self._engine.begin() as connection:
                yield connection
        except StoreError as error:
            found = error
            if limit.is_over:
                message = f"no answer within {self._longest_seconds:g} s"
                found = StoreError(message, reason=EdgeReason.TIMEOUT, retryable=True)
            if found.reason in _AWAY:
                self._gate.shut(found)
            if found is error:
                raise
            raise found from error

    def lagging(self) -> Future[None] | None:
        """Return nothing: the server's disk is the server's affair."""
        return None

    def dispose(self) -> None:
        """Close it."""
        self._gate.close()
        self._engine.dispose()
        self._handle.drop()


class _Socket:
    """A second handle on a connection's socket, by which another thread can end it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.limit: _Limit | None = None

    def admit(self) -> None:
        """Raise if the call that needs a new connection has no time left."""
        if self.limit is not None and self.limit.is_over:
            raise psycopg.errors.ConnectionTimeout("no time left to connect")

    def take(self, raw: psycopg.Connection[Any]) -> None:
        """Follow a new connection."""
        # Of our own, so that it is never somebody else's by the time it is used.
        self._replace(socket.socket(fileno=os.dup(raw.pgconn.socket)))
        self.admit()

    def cut(self) -> None:
        """End the connection; whoever waits for it gets an error."""
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def drop(self) -> None:
        """Follow none."""
        self._replace(None)

    def _replace(self, fresh: socket.socket | None) -> None:
        with self._lock:
            old, self._socket = self._socket, fresh
        if old is not None:
            old.close()


class _Limit:
    """Cuts a connection if a block takes too long.

    The server's own limits do not reach us if it hangs, or the network does.
    """

    def __init__(self, handle: _Socket, seconds: float) -> None:
        self.is_over = False
        self._handle = handle
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._handle.limit = self
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._handle.limit = None
        self._timer.cancel()

    def _cut(self) -> None:
        self.is_over = True
        self._handle.cut()


def _one_writer(engine: Engine, which: Which) -> None:
    """Let one transaction write at a time, as SQLite's BEGIN IMMEDIATE does."""

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(which.lock_key)))


def _bounded(options: dict[str, Any]) -> dict[str, Any]:
    own = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": _milliseconds(5),
        "application_name": "ds4watch",
    }
    return own | options


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
