"""Every action's own incident, injected: the audit shows detection, action, effect and undo."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.edge.scrape.nvml import fake_nvml
from tests.flow.daemon import Daemon, ask, chat, kill, new_daemon, until
from tests.flow.test_service import starts

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
      - alert: BudgetExceeded
        expr: ds4_cost_budget_spent / ds4_cost_budget_limit > 1
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: GpuMemorySawing
        expr: >-
          label_replace(resets(ds4_gpu_memory_used_bytes[20s]) >= 2, "worker", "sim-full-0", "", "")
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: QueueOdd
        expr: ds4_queue_depth{worker="sim-full-0"} > 5 < 20
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: QueueGrows
        expr: max(ds4_queue_depth) > 40 < 50
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: KvOdd
        expr: ds4_kv_usage_ratio{worker="sim-full-0"} > 0.6 < 0.8
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: QualityBoundBroken
        expr: max(ds4_queue_depth) > 20 < 40
        labels:
          {severity: critical, profile: sim-quantized, reference: sim-full, class: mathematics}
        annotations: {ds4_on_no_data: hold}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 1
    clear_hold_seconds: 1
    ladder:
      - {name: shorter-answers, max_tokens_cap: 32}
actions:
  anew: {kind: restart_worker, verify: {within_seconds: 25}}
  apart: {kind: drain_worker, undo_after_seconds: 1, verify: {within_seconds: 5}}
  more: {kind: wake_worker, undo_after_seconds: 1, verify: {within_seconds: 20}}
  passed-over: {kind: exclude_worker, undo_after_seconds: 1, verify: {within_seconds: 5}}
  back-to-reference: {kind: divert_class, verify: {within_seconds: 5}}
bindings:
  - {match: {alertname: BudgetExceeded}, level: 1}
  - {match: {alertname: GpuMemorySawing}, action: anew}
  - {match: {alertname: QueueOdd}, action: apart}
  - {match: {alertname: KvOdd}, action: passed-over}
  - {match: {alertname: QueueGrows}, action: more, target: "*"}
  - {match: {alertname: QualityBoundBroken}, action: back-to-reference}
  - {match: {alertname: QueueDepthHigh}, level: 1}
  - {match: {alertname: ErrorsHigh}, level: 1}
  - {match: {alertname: KvCachePressure}, level: 1}
"""
A, B = "sim-full-0", "sim-quantized-0"
NOTHING = "nothing to take back"
DIVERT = "divert_class"
HEALS = ("restart_worker",)


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


SLEEPER = {"name": "sim-sleeper", "engine": "sim", "sleep": True, "served_names": ["sim-sleeper"]}


def spare_fleet(folder: Path) -> dict[str, Any]:
    """Return settings of a fleet of one worker and one that is not started yet."""
    (folder / "sim-sleeper.yml").write_text(yaml.safe_dump(SLEEPER), encoding="utf-8")
    workers = [{"profile": "sim-sleeper", "count": 2, "spare": 1}]
    return {"profiles_dir": str(folder), "workers": workers, "min_hot": 1, "wake_waiting": 1000.0}


def past_its_first_week(daemon: Daemon) -> None:
    """Have the install be older: in its first week it would only tell whom it calls."""
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    with closing(sqlite3.connect(daemon.state / "state.db")) as base, base:
        base.execute("UPDATE meta SET value = '1.0' WHERE name = 'installed_at'")
    daemon.start()
    daemon.until_ready()


def test_a_queue_that_grows_calls_a_spare_and_lets_it_go_again(tmp_path: Path) -> None:
    with new_daemon(rules=RULES, policy=POLICY, fleet=spare_fleet(tmp_path)) as daemon:
        daemon.start()
        daemon.until_ready()
        first, spare = "sim-sleeper-0", "sim-sleeper-1"
        assert daemon.worker(spare)["phase"] == "absent"
        past_its_first_week(daemon)
        fault(daemon, first, "queue", value=45)
        since = int(daemon.audit()[-1]["id"])
        until(lambda: daemon.worker(spare)["phase"] == "ready", "a spare that was called")
        daemon.note_pids()
        fault(daemon, first, "queue", on=False)
        effect = until(lambda: told(daemon, since, "effect"), "the effect")[0]
        undone = by_itself(daemon, "wake_worker")
        seen = [it for it in told(daemon, since, "alert") if "QueueGrows" in it and "firing" in it]
        done = told(daemon, since, "outcome")[0]
        print(Row("QueueGrows", seen[0], done, effect, undone))
        assert f"{spare} is ready" in effect
        assert "it helped" in effect
        (wake, back) = daemon.rows("SELECT status, target FROM actions ORDER BY planned_at")
        assert (wake, back[1]) == (("undone", spare), spare)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    fleet = {
        "canary_interval_seconds": 1.0,
        "canary_timeout_seconds": 1.0,
        "min_hot": 1,
        "drain_seconds": 2.0,
    }
    library = {"LD_LIBRARY_PATH": str(fake_nvml(tmp_path)), "FAKE_NVML": "saw"}
    library["FAKE_NVML_SAW"] = str(tmp_path / "saws")
    cost = {"prices": [{"per_hour": 3600}], "budgets": [{"period": "day", "limit": 10**9}]}
    with new_daemon(
        rules=RULES, policy=POLICY, fleet=fleet, more=library, sections={"cost": cost}
    ) as daemon:
        daemon.settings["gateway"]["admission"] = {"classes": {"mathematics": {}}}
        write_settings(daemon)
        daemon.up()
        yield daemon


def write_settings(daemon: Daemon) -> None:
    daemon.config.write_text(yaml.safe_dump(daemon.settings), encoding="utf-8")


def fault(
    daemon: Daemon, worker: str, name: str, *, on: bool = True, value: float | None = None
) -> None:
    port = int(daemon.worker(worker)["url"].rpartition(":")[2])
    asked = {"fault": name, "on": on, **({} if value is None else {"value": value})}
    assert ask(port, "/sim/fault", asked).status == 200


@contextmanager
def too_dear(daemon: Daemon) -> Iterator[None]:
    """Have more spent than the day may cost, until a person grants more."""
    budget(daemon, 1)
    yield
    budget(daemon, 10**9)


def budget(daemon: Daemon, limit: int) -> None:
    daemon.settings["cost"]["budgets"][0]["limit"] = limit
    write_settings(daemon)
    begun = starts(daemon)
    daemon.signal(signal.SIGHUP)
    until(lambda: starts(daemon) > begun, "the new budget")
    daemon.until_ready()


@contextmanager
def page(daemon: Daemon, name: str, value: float) -> Iterator[None]:
    fault(daemon, A, name, value=value)
    yield
    fault(daemon, A, name, on=False)


@contextmanager
def saw(file: Path) -> Iterator[None]:
    """Have the memory of a GPU go up and down."""
    file.touch()
    yield
    file.unlink()


def on_worker(
    daemon: Daemon,
    alert: str,
    kind: str,
    cause: AbstractContextManager[None],
    undo: Callable[[Daemon, str], str],
) -> Row:
    """Go through an incident that an action answers; return what the audit says of it."""
    since = int(daemon.audit()[-1]["id"])

    def of(what: str) -> list[str]:
        return [it for it in told(daemon, since, what) if kind in it]

    with cause:
        until(lambda: of("outcome"), f"{kind} against {alert}")
        if kind in HEALS:
            until(lambda: is_up(daemon) and restarts(daemon, since), "a worker again")
    effect = until(lambda: of("effect"), f"the effect of {kind}")[0]
    undone = undo(daemon, kind)
    plans = [it for it in of("plan") if "take back" not in it]
    assert len(plans) == 1, plans
    seen = [it for it in told(daemon, since, "alert") if it.startswith(alert) and "firing" in it]
    return Row(alert, seen[0], of("outcome")[0], effect, undone)


def restarts(daemon: Daemon, since: int) -> bool:
    daemon.note_pids()
    rows = [it for it in daemon.audit("worker") if it["id"] > since and it["target"] == A]
    return any("→ starting" in it["summary"] for it in rows)


def by_itself(daemon: Daemon, kind: str) -> str:
    return until(lambda: undoings(daemon, kind), f"{kind} taken back")[0]


def who_answers(daemon: Daemon, work_class: str) -> str:
    """Return the worker that answers a class of work asked of the quantized model."""
    asked = chat(model="sim-quantized")
    headers = {"x-ds4-class": work_class}
    answer = ask(daemon.gateway_port, "/v1/chat/completions", asked, headers=headers)
    assert answer.status == 200, answer.body
    return answer.headers["x-ds4-worker"]


def diverted(daemon: Daemon, kind: str) -> str:
    """Take it back by hand; its class, and no other, is answered by the reference until then."""
    assert (who_answers(daemon, "mathematics"), who_answers(daemon, "chat")) == (A, B)
    undone = by_hand(daemon, kind)
    assert who_answers(daemon, "mathematics") == B
    return undone


def by_hand(daemon: Daemon, kind: str) -> str:
    ((action,),) = daemon.rows(f"SELECT id FROM actions WHERE kind = '{kind}'")
    asked = daemon.command("undo", action, "--why", "it is mended", *daemon.options)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    return by_itself(daemon, kind)


def not_at_all(_daemon: Daemon, _kind: str) -> str:
    return NOTHING


def undoings(daemon: Daemon, kind: str) -> list[str]:
    """Return the outcomes of an action but for the first: what took it back."""
    return [it for it in told(daemon, 0, "outcome") if kind in it][1:]


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


def test_every_incident_is_seen_answered_checked_and_taken_back(
    daemon: Daemon, tmp_path: Path
) -> None:
    table = [
        degraded(daemon, "BudgetExceeded", too_dear),
        on_worker(daemon, "QueueOdd", "drain_worker", page(daemon, "queue", 10), by_itself),
        on_worker(daemon, "KvOdd", "exclude_worker", page(daemon, "kv_full", 0.7), by_itself),
        on_worker(daemon, "QualityBoundBroken", DIVERT, page(daemon, "queue", 30), diverted),
        on_worker(daemon, "GpuMemorySawing", "restart_worker", saw(tmp_path / "saws"), not_at_all),
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
