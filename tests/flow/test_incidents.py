"""Every action's own incident, injected: the audit shows detection, action, effect and undo."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.flow.daemon import Daemon, ask, kill, new_daemon, until

pytestmark = pytest.mark.slow

RULES = """\
groups:
  - name: incidents
    rules:
      - alert: QueueDepthHigh
        expr: sum(ds4_queue_depth) > 50
        labels: {severity: critical}
        annotations: {ds4_on_no_data: hold}
      - alert: ErrorsHigh
        expr: sum(rate(ds4_gateway_requests_total{outcome!="ok"}[5s])) > 0.5
        labels: {severity: critical}
        annotations: {ds4_on_no_data: hold}
      - alert: KvCachePressure
        expr: max(ds4_kv_usage_ratio) > 0.9
        labels: {severity: critical}
        annotations: {ds4_on_no_data: hold}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 1
    clear_hold_seconds: 1
    ladder:
      - {name: shorter-answers, max_tokens_cap: 32}
bindings:
  - {match: {alertname: QueueDepthHigh}, level: 1}
  - {match: {alertname: ErrorsHigh}, level: 1}
  - {match: {alertname: KvCachePressure}, level: 1}
"""
A, B = "sim-full-0", "sim-quantized-0"
NOTHING = "nothing to take back"


@dataclass(frozen=True)
class Row:
    """One line of the table: what the audit says of an incident."""

    incident: str
    detection: str
    action: str
    effect: str
    undo: str

    def __str__(self) -> str:
        told = (self.detection, self.action, self.effect, self.undo)
        return "\n".join([self.incident, *(f"    {it[:110]}" for it in told)])


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    fleet = {"canary_interval_seconds": 1.0, "canary_timeout_seconds": 1.0}
    with new_daemon(rules=RULES, policy=POLICY, fleet=fleet) as daemon:
        daemon.up()
        yield daemon


def fault(daemon: Daemon, worker: str, name: str, *, on: bool = True) -> None:
    port = int(daemon.worker(worker)["url"].rpartition(":")[2])
    assert ask(port, "/sim/fault", {"fault": name, "on": on}).status == 200


@contextmanager
def page_fault(daemon: Daemon, name: str) -> Iterator[None]:
    fault(daemon, A, name)
    yield
    fault(daemon, A, name, on=False)


@contextmanager
def errors(daemon: Daemon) -> Iterator[None]:
    """Have every request fail, and somebody who asks."""
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.2):
            daemon.complete()

    for worker in (A, B):
        fault(daemon, worker, "http_500")
    client = threading.Thread(target=send, daemon=True)
    client.start()
    yield
    ended.set()
    client.join(10)
    for worker in (A, B):
        with contextlib.suppress(OSError, ValueError):  # started anew: its canaries failed, too
            fault(daemon, worker, "http_500", on=False)
    until(daemon.is_ready, "workers that serve")


def degraded(daemon: Daemon, alert: str, cause: Callable[[Daemon], object]) -> Row:
    """Go through an incident that the ladder answers; return what the audit says of it."""
    since = int(daemon.audit()[-1]["id"])
    with cause(daemon):  # type: ignore[attr-defined]
        until(lambda: daemon.level() == 1, f"a level against {alert}")
        until(lambda: told(daemon, since, "effect"), f"the effect against {alert}")
    until(lambda: daemon.level() == 0, f"the level taken back after {alert}")
    undone = until(
        lambda: [it for it in told(daemon, since, "outcome") if "level 0" in it], "the undo"
    )
    seen = [it for it in told(daemon, since, "alert") if it.startswith(alert) and "firing" in it]
    done = [it for it in told(daemon, since, "outcome") if "level 1" in it]
    assert len(done) == 1, done
    return Row(alert, seen[0], done[0], told(daemon, since, "effect")[0], undone[0])


def told(daemon: Daemon, since: int, kind: str) -> list[str]:
    return [str(it["summary"]) for it in daemon.audit(kind) if it["id"] > since]


def restarted(daemon: Daemon, incident: str, cause: Callable[[], None]) -> Row:
    """Go through an incident that a worker's restart answers."""
    old, since = daemon.worker(A)["pid"], int(daemon.audit()[-1]["id"])
    cause()
    until(lambda: daemon.worker(A)["pid"] not in (None, old) and is_up(daemon), "a worker again")
    daemon.note_pids()
    rows = [it for it in daemon.audit("worker") if it["id"] > since and it["target"] == A]
    phases = [str(it["summary"]) for it in rows]
    begun = next(it for it in phases if "→ starting" in it)
    assert sum("→ failed" in it for it in phases) == 1, phases
    return Row(incident, phases[0], begun, phases[-1], NOTHING)


def is_up(daemon: Daemon) -> bool:
    return bool(daemon.worker(A)["phase"] == "ready")


def out_of_memory(daemon: Daemon) -> None:
    port = int(daemon.worker(A)["url"].rpartition(":")[2])
    switched = ask(port, "/sim/fault", {"fault": "oom_over", "on": True, "value": 0})
    assert switched.status == 200, switched
    daemon.complete(model="sim-full")


def test_every_incident_is_seen_answered_checked_and_taken_back(daemon: Daemon) -> None:
    table = [
        degraded(daemon, "QueueDepthHigh", lambda it: page_fault(it, "queue")),
        degraded(daemon, "KvCachePressure", lambda it: page_fault(it, "kv_full")),
        degraded(daemon, "ErrorsHigh", errors),
        restarted(daemon, "hung worker", lambda: fault(daemon, A, "hang")),
        restarted(daemon, "dead worker", lambda: kill(daemon.worker(A)["pid"])),
        restarted(daemon, "out of memory", lambda: out_of_memory(daemon)),
    ]
    print(*table, sep="\n")
    by_name = {row.incident: row for row in table}
    assert "generation hangs" in by_name["hung worker"].detection
    assert "signal 9" in by_name["dead worker"].detection
    assert "memory" in by_name["out of memory"].detection
    assert daemon.worker(A)["memory_steps"]
    assert all(row.effect and row.undo for row in table)
