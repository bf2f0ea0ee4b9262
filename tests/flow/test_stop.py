"""Everything is stopped: by Ctrl-C, by `down`, by `down` after the daemon's own death."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.flow.daemon import Daemon, Stream, new_daemon, until

pytestmark = pytest.mark.slow

UNITS = {"gateway/g0", "worker/sim-full-0", "worker/sim-quantized-0"}
TOKENS = 120


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon(rules="groups: []\n") as daemon:
        yield daemon


@pytest.fixture
def ports(daemon: Daemon) -> list[int]:
    """Start everything and return all ports in use."""
    daemon.up()
    assert set(daemon.note_pids()) == UNITS
    return daemon.ports()


def open_streams(daemon: Daemon) -> list[Stream]:
    return [Stream(daemon, max_tokens=TOKENS) for _ in range(4)]


def serve_one(daemon: Daemon) -> None:
    """Let a request be served and booked."""
    known = daemon.booked()
    assert daemon.complete(max_tokens=2).status == 200
    until(lambda: daemon.booked() == known + 1, "the request in the books")


def kept_requests(daemon: Daemon) -> int:
    """Return the requests in the hours that the next daemon compares with."""
    ((kept,),) = daemon.rows("SELECT value FROM meta WHERE name = 'carry'")
    return sum(hour[6] for hour in json.loads(kept)["cost_hours"].values())


def assert_they_end_whole(streams: list[Stream]) -> None:
    for stream in streams:
        stream.join(30)
        assert stream.is_whole(), (stream.error, stream.events[-2:])
        assert stream.completion_tokens() == TOKENS


def test_ctrl_c_lets_open_streams_end_and_leaves_nothing(daemon: Daemon, ports: list[int]) -> None:
    serve_one(daemon)
    streams = open_streams(daemon)
    daemon.signal(signal.SIGINT)
    assert daemon.wait() == 0
    assert_they_end_whole(streams)
    daemon.assert_nothing_is_left(ports)
    daemon.assert_history_is_flushed()
    assert kept_requests(daemon) == 1
    assert "Traceback" not in daemon.log_text()


def test_down_lets_open_streams_end_and_leaves_nothing(daemon: Daemon, ports: list[int]) -> None:
    streams = open_streams(daemon)
    down = daemon.command("down", *daemon.options)
    assert down.returncode == 0, down.stderr
    assert "everything is stopped" in down.stdout
    assert daemon.wait() == 0
    assert_they_end_whole(streams)
    daemon.assert_nothing_is_left(ports)
    daemon.assert_history_is_flushed()
    ended = [row[0] for row in daemon.rows("SELECT outcome FROM requests_hourly")]
    assert set(ended) == {"ok"}


def test_down_stops_what_a_killed_daemon_left(daemon: Daemon, ports: list[int]) -> None:
    daemon.signal(signal.SIGKILL)
    assert daemon.wait() == -signal.SIGKILL
    streams = open_streams(daemon)
    down = daemon.command("down", *daemon.options)
    assert down.returncode == 0, down.stderr
    assert "everything is stopped" in down.stdout
    assert_they_end_whole(streams)
    daemon.assert_nothing_is_left(ports)
    again = daemon.command("down", *daemon.options)
    assert again.returncode == 0, again.stderr


def test_a_start_that_is_broken_off_leaves_nothing(daemon: Daemon) -> None:
    daemon.start()
    until(lambda: "gateway/g0" in daemon.note_pids(), "a gateway process")
    ports = daemon.ports()
    daemon.signal(signal.SIGINT)
    assert daemon.wait() == 0
    daemon.assert_nothing_is_left(ports)
    assert "Traceback" not in daemon.log_text()
