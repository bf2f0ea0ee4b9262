"""The daemon ends, gently or not; workers and gateway serve on, and the next daemon adopts them."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.flow.daemon import Daemon, Stream, new_daemon, until

pytestmark = pytest.mark.slow

ALERT = "SELECT phase, active_at, fired_at FROM alerts WHERE name = 'Busy'"
SCRAPES = "SELECT count(*), min(at_ms) FROM scrapes"


class Client(threading.Thread):
    """Sends one request after another until it is told to stop."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(daemon=True)
        self._daemon = daemon
        self._stopped = threading.Event()
        self.answers: list[str] = []

    def run(self) -> None:
        while not self._stopped.wait(0.02):
            try:
                answer = self._daemon.complete(max_tokens=2)
                self.answers.append("200" if answer.status == 200 else str(answer))
            except OSError as error:
                self.answers.append(repr(error))

    def stop(self) -> None:
        self._stopped.set()
        self.join(30)


@contextmanager
def sending(daemon: Daemon) -> Iterator[Client]:
    client = Client(daemon)
    client.start()
    try:
        yield client
    finally:
        client.stop()


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.up()
        yield daemon


def spooled(daemon: Daemon) -> list[dict[str, Any]]:
    text = (daemon.state / "spool" / "g0.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_fleet_serves_on_and_the_next_daemon_goes_on_with_all_it_knew(
    daemon: Daemon, number: signal.Signals, code: int
) -> None:
    stream = Stream(daemon, max_tokens=6000)
    with sending(daemon) as client:
        until(lambda: daemon.level() == 1, "the level that the alert asks for")
        until(lambda: client.answers, "a first answer")
        pids = daemon.note_pids()
        alert = daemon.rows(ALERT)
        assert alert[0][0] == "firing"
        (history,) = daemon.rows(SCRAPES, "samples.db")
        counted = daemon.metric("ds4_gateway_requests_total{")
        last = daemon.audit()[-1]["id"]

        daemon.signal(number)
        assert daemon.wait() == code
        alone = len(client.answers)
        until(lambda: len(client.answers) > alone + 5, "answers without a daemon")
        alone_answer = daemon.complete(max_tokens=64)
        assert alone_answer.headers["x-ds4-degraded"] == "level=1;max_tokens=32"

        daemon.up()
        assert daemon.note_pids() == pids
        adopted = len(client.answers)
        until(lambda: len(client.answers) > adopted + 5, "answers under the next daemon")
        assert daemon.rows(ALERT) == alert
        assert daemon.level() == 1
    assert set(client.answers) == {"200"}
    assert stream.is_open(), stream.error

    (longer,) = daemon.rows(SCRAPES, "samples.db")
    assert longer[0] > history[0]
    assert longer[1] == history[1]
    again = daemon.metric("ds4_gateway_requests_total{")
    assert counted is not None
    assert again is not None
    assert again >= counted
    since = [row for row in daemon.audit() if row["id"] > last]
    assert {row["kind"] for row in since} <= {"daemon", "quality"}  # nothing changed or was done
    assert any("went on from stored state" in row["summary"] for row in since)
    calm_again(daemon, stream)


def calm_again(daemon: Daemon, stream: Stream) -> None:
    """End the stream; the alert resolves, the level goes, and the books are complete."""
    stream.leave()
    until(lambda: daemon.level() == 0, "the level taken back")
    assert daemon.phases("Busy") == ["resolved"]
    lines = spooled(daemon)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    until(lambda: daemon.booked() == len(lines), "each request booked exactly once")
    counted = daemon.metric("ds4_gateway_requests_total{")
    assert counted == len(lines)
