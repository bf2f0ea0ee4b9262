"""A daemon is asked as a Prometheus is, and what answers ends with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.flow.daemon import Daemon, ask, is_running, new_daemon, until

pytestmark = pytest.mark.slow


def test_a_daemon_answers_as_a_prometheus_does() -> None:
    with new_daemon() as daemon:
        daemon.up()
        until(lambda: told(daemon, f"query?query={quote('count(up == 1) == 3')}")["result"], "3 up")
        moments = {at for at, _ in told(daemon, "query?query=up[30s]")["result"][0]["values"]}
        assert len(moments) > 1
        names = told(daemon, "label/__name__/values")
        assert {"up", "ds4_queue_depth", "vllm:num_requests_running"} <= set(names)
        targets = told(daemon, "targets")["activeTargets"]
        assert {it["labels"]["worker"]: it["health"] for it in targets} == {
            "sim-full-0": "up",
            "sim-quantized-0": "up",
        }
        assert all(it["scrapeUrl"].endswith("/metrics") for it in targets)
        rules = [it for group in told(daemon, "rules")["groups"] for it in group["rules"]]
        assert {it["health"] for it in rules} == {"ok"}
        child = until(lambda: child_of(daemon), "a query process")
        os.kill(child, signal.SIGKILL)
        until(lambda: not is_running(child), "its end")
        assert ask(daemon.admin_port, "/api/v1/query?query=up").status == 200
        assert daemon.is_ready()
        child = until(lambda: child_of(daemon), "another query process")
        daemon.signal(signal.SIGINT)
        assert daemon.wait() == 0
        assert not is_running(child)


def told(daemon: Daemon, path: str) -> Any:
    answer = ask(daemon.admin_port, f"/api/v1/{path}")
    assert answer.status == 200, answer.body
    return answer.json()["data"]


def child_of(daemon: Daemon) -> int | None:
    assert daemon.process is not None
    pid = daemon.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"ds4watch.engine.query_child" in command and is_running(int(child)):
            return int(child)
    return None
