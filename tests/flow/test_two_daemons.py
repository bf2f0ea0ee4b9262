"""Two daemons on one PostgreSQL: one acts, the other watches and takes over."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
import yaml

from tests.conftest import is_missing
from tests.flow.daemon import Daemon, Stream, ask, kill, new_daemon, until
from tests.flow.proxy import Proxy
from tests.postgres import PostgresServer, find_postgres

pytestmark = [pytest.mark.slow, pytest.mark.needs("postgres")]

LEASE_SECONDS = 5.0
TAKEOVER_SECONDS = LEASE_SECONDS + LEASE_SECONDS / 5 + 3.0
"""The lease, a look of who waits for it, and a machine that does other things too."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    program = find_postgres()
    if program is None:
        is_missing("the program postgres is not installed")
    server = PostgresServer(program.parent)
    try:
        server.start()
        server.make_role()
        yield server
    finally:
        server.remove()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_database()


@pytest.fixture
def daemons(url: str) -> Iterator[tuple[Daemon, Daemon]]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(new_daemon()) for _ in range(2))
        for daemon in (first, second):
            point(daemon, url)
        yield first, second


def point(daemon: Daemon, url: str) -> None:
    settings = daemon.settings | {"store": {"url": url, "lease_seconds": LEASE_SECONDS}}
    daemon.config.write_text(yaml.safe_dump(settings), encoding="utf-8")


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    with closing(psycopg.connect(url)) as connection:
        return connection.execute(sql.encode()).fetchall()


def role(daemon: Daemon) -> str:
    try:
        return str(daemon.status()["role"])
    except OSError:
        return "away"


def led(daemon: Daemon) -> list[str]:
    """Return what the audit says of who began to lead."""
    try:
        return [it["summary"] for it in daemon.audit("daemon") if "lease number" in it["summary"]]
    except OSError:
        return []


def stands_by(daemon: Daemon) -> bool:
    assert daemon.process is not None
    assert daemon.process.poll() is None, daemon.log_text()
    return role(daemon) == "standby"


def test_the_second_watches_and_acts_within_the_lease_once_the_first_is_killed(
    daemons: tuple[Daemon, Daemon],
) -> None:
    first, second = daemons
    first.up()
    second.start()
    until(lambda: stands_by(second), "a standby")
    assert first.status()["role"] == "leader"
    assert first.metric("ds4_leader") == 1
    assert_it_watches(second, first)
    assert first.process is not None
    kill(first.process.pid)
    first.wait()
    began = time.monotonic()
    until(lambda: role(second) == "leader", "a takeover")
    took = time.monotonic() - began
    print(f"took over after {took:.1f} s")
    second.until_ready()
    with Stream(second, max_tokens=6000):
        until(lambda: second.level() == 1, "the level that it sets now")
    assert second.records().keys() >= {"gateway/g0"}
    told = " ".join(it["summary"] for it in second.audit("daemon"))
    assert re.findall(r"this daemon leads, lease number (\d+)", told) == ["1", "2"]
    assert took < TAKEOVER_SECONDS
    assert_the_first_comes_back_to_watch(first, second)


def assert_it_watches(standby: Daemon, leader: Daemon) -> None:
    assert standby.metric("ds4_leader") == 0
    assert standby.records() == {}
    assert not (standby.state / "board.json").exists()
    until(lambda: len(standby.status()["fleet"]) == 2, "the leader's workers")
    until(lambda: standby.metric("ds4_worker_state"), "signals of its own looking")
    until(lambda: ups(standby) == 2, "scrapes of the leader's workers")
    told = standby.status()["leader"]
    assert told["admin_url"].endswith(str(leader.admin_port))
    asked = ask(standby.admin_port, "/api/v1/query?query=up")
    assert asked.status == 200
    assert asked.json()["data"]["result"]
    held = standby.command("hold", "default", "--why", "no", *standby.options)
    assert held.returncode != 0
    assert "standby" in held.stdout + held.stderr
    with Stream(leader, max_tokens=3000):
        until(lambda: standby.phases("Busy") == ["firing"], "the alert that it sees by itself")
        until(lambda: leader.level() == 1, "the level that the leader sets")
        until(lambda: standby.level() == 1, "the level as the standby shows it")
    until(lambda: leader.level() == 0, "the level taken back")


def ups(daemon: Daemon) -> int:
    return sum(bool(it["up"]) for it in daemon.status()["fleet"])


def assert_the_first_comes_back_to_watch(first: Daemon, second: Daemon) -> None:
    workers = first.note_pids()
    first.start()
    until(lambda: stands_by(first), "a standby again")
    assert first.note_pids() == workers
    assert second.status()["role"] == "leader"
    second.signal(signal.SIGINT)
    assert second.wait() == 0
    until(lambda: role(first) == "leader", "the lease let go", seconds=TAKEOVER_SECONDS)
    first.until_ready()
    assert first.note_pids() == workers
    assert first.complete().status == 200


def test_a_leader_that_was_cut_off_and_missed_by_nobody_leads_on_under_its_number(
    daemons: tuple[Daemon, Daemon], url: str, server: PostgresServer
) -> None:
    first, _ = daemons
    with Proxy(server.port) as proxy:
        point(first, url.replace(f":{server.port}/", f":{proxy.port}/"))
        first.up()
        workers = first.note_pids()
        proxy.cut()
        until(lambda: first.metric("ds4_leader") == 0, "a stop")
        proxy.mend()
        told = until(lambda: led(first)[1:] and led(first), "a leader")
        first.until_ready()
        assert ["leads, lease number 1" in it for it in told] == [True, False], told
        assert "leads on under lease number 1" in told[1]
        assert rows(url, "SELECT number FROM ds4_state.lease") == [(1,)]
        assert first.note_pids() == workers


def test_a_leader_that_is_cut_off_stops_before_the_other_acts(
    daemons: tuple[Daemon, Daemon], url: str, server: PostgresServer
) -> None:
    first, second = daemons
    with Proxy(server.port) as proxy:
        point(first, url.replace(f":{server.port}/", f":{proxy.port}/"))
        first.up()
        second.start()
        until(lambda: stands_by(second), "a standby")
        proxy.cut()
        stopped = until(lambda: first.metric("ds4_leader") == 0 and time.monotonic(), "a stop")
        assert role(second) != "leader"
        until(lambda: role(second) == "leader", "a takeover")
        print(f"nobody acted for {time.monotonic() - stopped:.1f} s")
        assert first.complete().status == 200
        before = rows(url, "SELECT max(id) FROM ds4_state.audit")
        worker = first.note_pids()["worker/sim-full-0"]
        kill(worker)
        until(second.is_ready, "the second ready")
        assert first.note_pids()["worker/sim-full-0"] == worker
        proxy.mend()
        until(lambda: stands_by(first), "a standby")
        assert role(second) == "leader"
        written = rows(url, f"SELECT summary FROM ds4_state.audit WHERE id > {before[0][0]}")
        assert not [it for (it,) in written if "lease number 1" in it]
        assert [number for (number,) in rows(url, "SELECT number FROM ds4_state.lease")] == [2]
