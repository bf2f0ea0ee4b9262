"""A PostgreSQL server of a test's own: loopback only, thrown away at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

USER, PASSWORD = "ds4", "not-in-any-log"
_PATIENCE_SECONDS = 60.0
_ROOM_BYTES = 8 << 30
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "30",
    "autovacuum": "off",
    "listen_addresses": "127.0.0.1",
}


def find_postgres(program: str = "postgres") -> Path | None:
    """Return a program of the newest PostgreSQL there is: Debian keeps them out of PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{program}"),
        key=lambda path: int(path.parts[-3]),
    )
    on_path = shutil.which(program)
    return found[-1] if found else Path(on_path) if on_path else None


def _home() -> Path:
    """Return where a server is to live: in memory, where there is room for hundreds of databases.

    Each is 300 files and 12 MB; on a busy disk they take minutes to be made and removed.
    """
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM_BYTES
    return memory if has_room and os.access(memory, os.W_OK | os.X_OK) else Path("/tmp")


class PostgresServer:
    """One server in a folder of its own, as a user that is not root."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="ds4pg-", dir=_home()))
        self._user = _unprivileged() if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self.port = 0
        self._run("initdb", "--no-sync", "--auth-local=trust", "--auth-host=scram-sha-256",
                  "--encoding=UTF8", "--locale=C", "--username=postgres",
                  "--pgdata", str(self._data))  # fmt: skip

    def start(self) -> None:
        """Start it and wait until it answers; on the port it had, if it ran before."""
        self.port = self.port or _free_port()
        options = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port),
                    "-k", str(self._folder), *options,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder,
                user=self._user, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, self.log_text()
                assert self._process.poll() is None, self.log_text()
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End it at once, and every connection with it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_PATIENCE_SECONDS)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def make_role(self) -> None:
        self.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")

    def new_database(self, options: str = "") -> str:
        """Return the address of an empty database that the role owns."""
        self._count += 1
        name = f"t{self._count}"
        self.execute(f"CREATE DATABASE {name} OWNER {USER} {options}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database of ours, whoever still has a connection to it."""
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def url(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as the administrator."""
        with closing(self.admin(database)) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=str(self._folder), port=self.port, user="postgres", dbname=database,
            autocommit=True, connect_timeout=5,
        )  # fmt: skip

    def backends(self, database: str) -> list[int]:
        """Return the processes that serve a database's connections."""
        rows = self.execute(
            f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND usename = '{USER}'"
        )
        return [int(pid) for (pid,) in rows]

    def kill_backends(self, database: str) -> int:
        """End a database's connections, as an administrator would."""
        rows = self.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = '{database}' AND usename = '{USER}'"
        )
        return len(rows)

    @contextmanager
    def frozen(self, database: str) -> Iterator[None]:
        """Let the server hang: a database's connections neither answer nor close, nor new ones."""
        assert self._process is not None
        pids = [self._process.pid, *self.backends(database)]
        assert len(pids) > 1
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def log_text(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments], capture_output=True, text=True,
            check=False, cwd=self._folder, user=self._user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _unprivileged() -> str:
    """Return a user that a server may run as: root is refused."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
