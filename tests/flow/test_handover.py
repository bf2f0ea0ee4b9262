"""The daemon ends, gently or not; workers and gateway serve on, and the next daemon adopts them."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.flow.daemon import Daemon, Stream, new_daemon, until

pytestmark = pytest.mark.slow

ALERT = "SELECT phase, active_at, fired_at FROM alerts WHERE name = 'Busy'"


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
    until(lambda: daemon.level() == 0, "normal service")
    with Stream(daemon, max_tokens=6000) as stream:
        until(lambda: last_outcome(daemon) == 1, "the action that the alert asks for, told")
        before = seen_of(daemon)
        with sending(daemon) as client:
            until(lambda: client.answers, "a first answer")
            daemon.signal(number)
            assert daemon.wait() == code
            alone = len(client.answers)
            until(lambda: len(client.answers) > alone + 5, "answers without a daemon")
            degraded = daemon.complete(max_tokens=64)
            assert degraded.headers["x-ds4-degraded"] == "level=1;max_tokens=32"
            daemon.up()
            adopted = len(client.answers)
            until(lambda: len(client.answers) > adopted + 5, "answers under the next daemon")
            until(lambda: scrapes_of(daemon)[0] > before.scrapes + 6, "some evaluations")
        assert set(client.answers) == {"200"}
        assert stream.is_open(), stream.error
        assert_it_went_on(before, seen_of(daemon))
        until(lambda: is_paid_for(daemon, before), "their time without a daemon paid for, too")
    assert_calm_again(daemon)


def last_outcome(daemon: Daemon) -> int | None:
    """Return the level after the last action that is told of."""
    told = daemon.audit("outcome")
    return int(told[-1]["detail"]["after"]["level"]) if told else None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a daemon knows at an instant, as far as the next one has to know it too."""

    pids: dict[str, int]
    alert: list[tuple[Any, ...]]
    level: int
    requests: float | None
    scrapes: int
    first_scrape: int
    audit: list[dict[str, Any]]
    at: float
    spent: float


def scrapes_of(daemon: Daemon) -> tuple[int, int]:
    """Return how many scrapes there are, and when the first was."""
    ((count, first),) = daemon.rows("SELECT count(*), min(at_ms) FROM scrapes", "samples.db")
    return int(count), int(first)


def seen_of(daemon: Daemon) -> Seen:
    scrapes, first = scrapes_of(daemon)
    status = daemon.status()
    return Seen(
        pids=daemon.note_pids(),
        alert=daemon.rows(ALERT),
        level=daemon.level(),
        requests=daemon.metric("ds4_gateway_requests_total{"),
        scrapes=scrapes,
        first_scrape=first,
        audit=daemon.audit(),
        at=status["at"],
        spent=float(status["cost"]["spent_total"]),
    )


def assert_it_went_on(before: Seen, after: Seen) -> None:
    assert before.alert[0][0] == "firing"
    assert after.alert == before.alert
    assert after.level == before.level == 1
    assert after.pids == before.pids
    assert after.first_scrape == before.first_scrape
    assert (after.requests or 0) >= (before.requests or 0)
    since = after.audit[len(before.audit) :]
    assert after.audit[: len(before.audit)] == before.audit
    # looked at, perhaps, but nothing changed or was done
    assert {row["kind"] for row in since} <= {"daemon", "quality", "effect"}
    assert any("went on from stored state" in row["summary"] for row in since)


def is_paid_for(daemon: Daemon, before: Seen) -> bool:
    """Say whether all time since then is paid for, but for the 1.5 s that a tick may be late."""
    status = daemon.status()
    price_a_second = 2 * 0.95 / 3600
    expected = (status["at"] - before.at) * price_a_second
    spent = float(status["cost"]["spent_total"]) - before.spent
    return spent == pytest.approx(expected, abs=1.5 * price_a_second)


def assert_calm_again(daemon: Daemon) -> None:
    """Without the stream the alert resolves, the level goes, and the books are complete."""
    until(lambda: last_outcome(daemon) == 0, "the level taken back")
    assert daemon.phases("Busy") == ["resolved"]
    lines = spooled(daemon)
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    until(lambda: daemon.booked() == len(lines), "each request booked exactly once")
    counted = daemon.metric("ds4_gateway_requests_total{")
    assert counted == len(lines)
