"""The whole daemon with its history on PostgreSQL, and without it for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import yaml

from tests.conftest import is_missing
from tests.flow.daemon import Daemon, new_daemon, until
from tests.postgres import PASSWORD, PostgresServer, find_postgres

pytestmark = [pytest.mark.slow, pytest.mark.needs("postgres")]


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
def daemon(url: str) -> Iterator[Daemon]:
    with new_daemon() as daemon:
        settings = daemon.settings | {"store": {"url": url}}
        daemon.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        yield daemon


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    with closing(psycopg.connect(url)) as connection:
        return connection.execute(sql.encode()).fetchall()


def scrapes(url: str) -> int:
    ((count,),) = rows(url, "SELECT count(*) FROM ds4_samples.scrapes")
    return int(count)


def test_an_outage_of_the_server_stops_decisions_and_nothing_else(
    daemon: Daemon, server: PostgresServer, url: str
) -> None:
    daemon.up()
    assert not list(daemon.state.glob("*.db"))
    assert daemon.status()["store"] == url.replace(f":{PASSWORD}", "")
    checked = daemon.command("check", "--sim", "--config", str(daemon.config))
    assert PASSWORD not in checked.stdout + checked.stderr
    assert "ok  store: postgresql://ds4@127.0.0.1:" in checked.stdout
    until(lambda: daemon.complete().status == 200)
    until(lambda: rows(url, "SELECT 1 FROM ds4_state.requests_hourly"), "a booked request")
    server.stop()
    try:
        until(lambda: "tick failed, nothing is decided" in daemon.log_text(), "a tick that failed")
        until(lambda: (daemon.metric("ds4_store_waiting_rows") or 0) > 5, "scrapes that wait")
        assert daemon.complete().status == 200
        assert daemon.status()["fleet"]
    finally:
        server.start()
    until(lambda: "ticks succeed again" in daemon.log_text(), "ticks that succeed")
    until(lambda: daemon.metric("ds4_store_waiting_rows") == 0, "scrapes that were stored")
    assert daemon.metric("ds4_store_lost_rows_total") == 0
    assert scrapes(url) > 5
    assert PASSWORD not in daemon.log_text()


def test_a_wrong_password_is_one_line_and_nothing_is_started(daemon: Daemon, url: str) -> None:
    settings = daemon.settings | {"store": {"url": url.replace(PASSWORD, "another")}}
    daemon.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    ended = daemon.command("up", "--sim", *daemon.options)
    assert ended.returncode == 2
    assert "store.url: postgresql://ds4@127.0.0.1:" in ended.stderr
    assert "password authentication failed" in ended.stderr
    assert "another" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert daemon.records() == {}
