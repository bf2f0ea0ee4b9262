"""Workers and gateways that die or hang under a running daemon."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.flow.daemon import Daemon, ask, kill, new_daemon, until

pytestmark = pytest.mark.slow

CANARY_INTERVAL_SECONDS = 1.0
CANARY_TIMEOUT_SECONDS = 1.0
CANARY_PERIOD_SECONDS = CANARY_INTERVAL_SECONDS + CANARY_TIMEOUT_SECONDS
SLACK_SECONDS = 2.0
"""Two looks, a tick until it is shown, and a machine that does other things too."""
CLIENTS = 6


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    fleet = {
        "canary_interval_seconds": CANARY_INTERVAL_SECONDS,
        "canary_timeout_seconds": CANARY_TIMEOUT_SECONDS,
    }
    with new_daemon(rules="groups: []\n", fleet=fleet) as daemon:
        daemon.up()
        yield daemon


def is_back(daemon: Daemon, worker: str, old_pid: int) -> bool:
    """Return whether another process than before is ready as that worker."""
    found = daemon.worker(worker)
    return found["phase"] == "ready" and found["pid"] not in (None, old_pid)


def phases_of(daemon: Daemon, worker: str, since: int) -> list[dict[str, Any]]:
    rows = daemon.audit("worker")
    return [row for row in rows if row["target"] == worker and row["id"] > since]


def last_row(daemon: Daemon) -> int:
    return int(daemon.audit()[-1]["id"])


@contextmanager
def load(daemon: Daemon) -> Iterator[list[str]]:
    """Keep some requests open at all times; yield what became of those that are answered."""
    stopped = threading.Event()
    answers: list[str] = []

    def send() -> None:
        while not stopped.is_set():
            try:
                answer = daemon.complete(max_tokens=8)
                answers.append("200" if answer.status == 200 else str(answer))
            except OSError as error:
                answers.append(repr(error))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stopped.set()
        for thread in threads:
            thread.join(30)


def test_a_killed_worker_costs_no_request_and_is_started_again(daemon: Daemon) -> None:
    worker = "sim-full-0"
    old, since = daemon.worker(worker)["pid"], last_row(daemon)
    retries = daemon.metric("ds4_retry_count_total{") or 0.0
    with load(daemon) as answers:
        until(lambda: len(answers) > 2 * CLIENTS, "answers from both workers")
        kill(old)
        until(lambda: is_back(daemon, worker, old), "the worker started again")
        seen = len(answers)
        until(lambda: len(answers) > seen + CLIENTS, "answers afterwards")
    assert set(answers) == {"200"}
    until(lambda: (daemon.metric("ds4_retry_count_total{") or 0.0) > retries, "the retries counted")
    daemon.note_pids()
    (died, *_, ready) = phases_of(daemon, worker, since)
    assert "ready → failed" in died["summary"]
    assert f"signal {signal.SIGKILL.value}" in died["summary"]
    assert "→ ready" in ready["summary"]


def test_a_worker_that_hangs_behind_a_green_health_is_found_and_restarted(daemon: Daemon) -> None:
    worker = "sim-quantized-0"
    found, since = daemon.worker(worker), last_row(daemon)
    port = int(found["url"].rpartition(":")[2])
    began = time.monotonic()
    assert ask(port, "/sim/fault", {"fault": "hang", "on": True}).status == 200
    assert ask(port, "/health").status == 200
    until(lambda: daemon.worker(worker)["phase"] != "ready", "the hang noticed")
    took = time.monotonic() - began
    assert took < 2 * CANARY_PERIOD_SECONDS + SLACK_SECONDS
    until(lambda: is_back(daemon, worker, found["pid"]), "the worker started again")
    daemon.note_pids()
    hung = phases_of(daemon, worker, since)[0]["summary"]
    assert "ready → failed: generation hangs: 2 canaries unanswered" in hung
    assert daemon.complete(model="sim-quantized").status == 200


def test_a_killed_gateway_is_started_again_on_its_port_and_books_on(daemon: Daemon) -> None:
    old = daemon.note_pids()["gateway/g0"]
    assert daemon.complete().status == 200
    before = until(daemon.booked, "requests in the ledger")
    kill(old)
    until(lambda: daemon.note_pids().get("gateway/g0", old) != old, "another gateway process")
    until(lambda: serves(daemon), "answers from the new gateway")
    until(lambda: daemon.booked() > before, "new requests in the ledger")
    (gateway,) = daemon.status()["gateways"]
    assert gateway["connected"]
    assert gateway["pid"] == daemon.note_pids()["gateway/g0"]


def serves(daemon: Daemon) -> bool:
    try:
        return daemon.complete().status == 200
    except OSError:
        return False
