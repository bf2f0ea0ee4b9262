"""As a service of Type=notify: ready, alive, read anew on SIGHUP, gateways started by others."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds4watch.web.kept_listener import NAME
from tests.flow.daemon import (
    PATIENCE_SECONDS,
    PROGRAM,
    Daemon,
    Stream,
    ask,
    environment,
    new_daemon,
    session_of,
    until,
)

pytestmark = pytest.mark.slow

CALMER = """\
pools:
  default:
    settle_seconds: 1
    clear_hold_seconds: 1
    ladder:
      - {name: seven, max_tokens_cap: 7}
bindings:
  - {match: {alertname: Busy}, level: 1}
"""


class Told:
    """What a service tells: the socket that systemd would listen on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.lines: list[str] = []

    def close(self) -> None:
        self._socket.close()

    def heard(self, line: str) -> bool:
        try:
            while True:
                self.lines += self._socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            return line in self.lines


@pytest.fixture
def told(state_dir: Path) -> Iterator[Told]:
    told = Told(state_dir / "notify.sock")
    yield told
    told.close()


@pytest.fixture
def daemon(told: Told) -> Iterator[Daemon]:
    more = {"NOTIFY_SOCKET": str(told.path), "WATCHDOG_USEC": "3000000"}
    with new_daemon(more=more) as daemon:
        yield daemon


def test_a_reload_loses_no_request_and_no_alert_and_what_is_wrong_changes_nothing(
    daemon: Daemon, told: Told
) -> None:
    daemon.up()
    until(lambda: told.heard("READY=1"), "ready")
    until(lambda: told.heard("WATCHDOG=1"), "a sign of life")
    pids = daemon.note_pids()
    with Stream(daemon, max_tokens=6000) as stream:
        until(lambda: daemon.level() == 1, "level 1")
        (alert,) = daemon.rows("SELECT phase, active_at, fired_at FROM alerts WHERE name = 'Busy'")

        good = (daemon.folder / "policy.yml").read_text(encoding="utf-8")
        (daemon.folder / "policy.yml").write_text("pools: 7\n", encoding="utf-8")
        daemon.signal(signal.SIGHUP)
        until(lambda: refused(daemon), "a refusal in the audit")
        assert "policy.yml" in refused(daemon)[0]
        assert not told.heard("STOPPING=1")

        assert good != CALMER
        (daemon.folder / "policy.yml").write_text(CALMER, encoding="utf-8")
        started = starts(daemon)
        daemon.signal(signal.SIGHUP)
        until(lambda: starts(daemon) == started + 1, "the daemon, anew")
        assert told.heard("RELOADING=1")
        daemon.until_ready()
        assert daemon.process is not None
        assert daemon.process.poll() is None, "it is another process"
        assert daemon.note_pids() == pids
        assert stream.is_open(), stream.error
        # The level in force is from now on what the new policy says it is.
        until(lambda: limits(daemon)["max_tokens_cap"] == 7, "the new limits of level 1")
        assert daemon.level() == 1
        assert daemon.rows("SELECT phase, active_at, fired_at FROM alerts WHERE name = 'Busy'") == [
            alert
        ]
    until(lambda: daemon.level() == 0, "level 0")
    with Stream(daemon, max_tokens=6000):
        until(lambda: cap(daemon) == 7, "the new policy's cap at the gateway")
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert told.heard("STOPPING=1")


class Asker(threading.Thread):
    """Asks the admin API again and again, each time on a connection of its own."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(daemon=True)
        self._port, self._path = port, path
        self._ended = threading.Event()
        self.answers = 0
        self.longest_seconds = 0.0
        self.faults: list[str] = []
        self.start()

    def run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                status = ask(self._port, self._path).status
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(repr(error))
                continue
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
            self.answers += 1
            if status != 200:
                self.faults.append(f"{self._path}: {status}")

    def end(self) -> None:
        self._ended.set()
        self.join(PATIENCE_SECONDS)


def test_through_a_reload_the_admin_api_refuses_nobody_and_answers_everybody(
    daemon: Daemon, told: Told
) -> None:
    daemon.up()
    until(lambda: told.heard(f"FDNAME={NAME}"), "the socket, for systemd to keep")
    paths = ("/api/ds4/v1/health", "/metrics", "/api/ds4/v1/status")
    askers = [Asker(daemon.admin_port, path) for path in paths]
    try:
        for count in (1, 2):
            started = starts(daemon)
            daemon.signal(signal.SIGHUP)
            until(partial(has_started, daemon, started + 1), f"reload {count}")
            daemon.until_ready()
            answered = [it.answers for it in askers]
            until(partial(have_answered, askers, answered), "answers of the new one")
    finally:
        for it in askers:
            it.end()
    assert [it.faults for it in askers] == [[], [], []]
    admin = inode_of_listener(daemon.admin_port)
    assert daemon.process is not None
    assert admin in sockets_of(daemon.process.pid)
    for unit, pid in daemon.note_pids().items():
        assert admin not in sockets_of(pid), f"{unit} has the admin API's socket"


def has_started(daemon: Daemon, times: int) -> bool:
    return starts(daemon) == times


def have_answered(askers: list[Asker], before: list[int]) -> bool:
    return all(it.answers > was for it, was in zip(askers, before, strict=True))


def inode_of_listener(port: int) -> str:
    """Return the inode of what listens on a port of 127.0.0.1 (proc_net(5))."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = [it[9] for it in rows if it[1] == f"0100007F:{port:04X}" and it[3] == "0A"]
    return f"socket:[{inode}]"


def sockets_of(pid: int) -> set[str]:
    """Return the sockets of a process and of all that it started."""
    found = set()
    for member in {pid, *session_of(pid)}:
        for entry in Path(f"/proc/{member}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()))
    return found


def refused(daemon: Daemon) -> list[str]:
    rows = daemon.audit("daemon")
    return [row["summary"] for row in rows if row["summary"].startswith("reload refused")]


def starts(daemon: Daemon) -> int:
    try:
        return sum("went on from" in row["summary"] for row in daemon.audit("daemon"))
    except OSError:
        return -1


def limits(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = daemon.status()["policy"]["limits"]
    return found


def cap(daemon: Daemon) -> int:
    answer = daemon.complete(max_tokens=64)
    return int(answer.json()["usage"]["completion_tokens"])


def test_gateways_that_systemd_runs_are_used_and_never_started_or_ended(
    daemon: Daemon, told: Told
) -> None:
    daemon.settings["gateway"]["run_by"] = "systemd"
    daemon.config.write_text(yaml.safe_dump(daemon.settings), encoding="utf-8")
    more = environment(NOTIFY_SOCKET=str(told.path))
    argv = [*PROGRAM, "gateway", "--name", "g0", *daemon.options]
    gateway = subprocess.Popen(argv, env=more, stderr=subprocess.DEVNULL)
    try:
        until(lambda: told.heard("READY=1"), "the gateway's word")
        daemon.up()
        assert daemon.complete().status == 200
        (shown,) = daemon.status()["gateways"]
        assert (shown["name"], shown["pid"], shown["connected"]) == ("g0", gateway.pid, True)
        daemon.signal(signal.SIGINT)
        assert daemon.wait() == 0
        assert gateway.poll() is None, "it ended with the daemon"
    finally:
        gateway.terminate()
        assert gateway.wait(PATIENCE_SECONDS) == 0


def test_a_gateway_that_the_daemon_runs_is_not_started_by_hand(daemon: Daemon) -> None:
    done = daemon.command("gateway", "--name", "g0", *daemon.options)
    assert done.returncode == 2
    assert "gateway.run_by: is daemon" in done.stderr
    assert done.stderr.count("\n") == 1
