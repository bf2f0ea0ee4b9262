"""Workers that are alive and do not serve, or serve and cannot be seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.flow.daemon import Daemon, Stream, ask, chat, new_daemon, until

FULL, QUANTIZED = "sim-full-0", "sim-quantized-0"
INTERVAL_SECONDS = 1.0
TIMEOUT_SECONDS = 2.0
PERIOD_SECONDS = INTERVAL_SECONDS + TIMEOUT_SECONDS
SLACK_SECONDS = 2.0
"""Two looks, a tick until it is shown, and a machine that does other things too."""
BACKOFF_SECONDS = 7.0
"""Over the five seconds after which the alert on a failed worker fires."""
SHIPPED = Path(__file__).resolve().parents[2] / "rules" / "ds4watch.yml"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    fleet = {
        "canary_interval_seconds": INTERVAL_SECONDS,
        "canary_timeout_seconds": TIMEOUT_SECONDS,
        "restart_backoff_seconds": BACKOFF_SECONDS,
    }
    with new_daemon(rules=SHIPPED.read_text(encoding="utf-8"), fleet=fleet) as daemon:
        daemon.up()
        yield daemon


def port_of(daemon: Daemon, worker: str) -> int:
    return int(daemon.worker(worker)["url"].rpartition(":")[2])


@contextmanager
def fault(daemon: Daemon, worker: str, name: str, **value: float) -> Iterator[None]:
    port = port_of(daemon, worker)
    switch = {"fault": name, **value}
    assert ask(port, "/sim/fault", switch | {"on": True}).status == 200
    try:
        yield
    finally:
        assert ask(port, "/sim/fault", switch | {"on": False}).status == 200


@contextmanager
def left_alone(daemon: Daemon, worker: str) -> Iterator[None]:
    """The worker stays ready, and the same process, all the while."""
    before, rows = daemon.worker(worker), len(daemon.audit("worker"))
    assert before["phase"] == "ready"
    yield
    after = daemon.worker(worker)
    assert (after["phase"], after["pid"]) == ("ready", before["pid"])
    assert len(daemon.audit("worker")) == rows


def is_served(daemon: Daemon, model: str) -> bool:
    return daemon.complete(model=model).status == 200


def sees(daemon: Daemon, worker: str, state: str) -> bool:
    monitoring = daemon.worker(worker)["monitoring"]
    return monitoring is not None and monitoring["state"] == state


def stands_still(daemon: Daemon) -> float:
    return float(daemon.worker(FULL)["standstill_seconds"])


def is_firing(daemon: Daemon, alert: str, worker: str) -> dict[str, Any] | None:
    found = (it for it in daemon.status()["alerts"] if it["name"] == alert)
    ours = (it for it in found if it["labels"].get("worker") == worker)
    return next((it for it in ours if it["phase"] == "firing"), None)


def test_case_25_a_worker_that_serves_unseen_is_unmonitored_not_down(daemon: Daemon) -> None:
    with left_alone(daemon, FULL), fault(daemon, FULL, "metrics_500"):
        until(lambda: sees(daemon, FULL, "unmonitored"), "the blindness shown")
        until(lambda: is_firing(daemon, "WorkerUnmonitored", FULL), "the alert")
        assert is_served(daemon, "sim-full")
        worker = daemon.worker(FULL)
        assert "500" in worker["monitoring"]["why"]
        assert worker["load"] == {"running": None, "waiting": None, "kv_usage_ratio": None}
        assert daemon.phases("ScrapeDown") == []
        status = daemon.command("status", "--config", str(daemon.config)).stdout
        assert "unmonitored" in status
    until(lambda: sees(daemon, FULL, "monitored"), "it is seen again")


@pytest.mark.parametrize("name", ["metrics_no_engine", "metrics_empty"])
def test_case_26_a_page_without_an_engine_is_told_and_is_not_idle(
    daemon: Daemon, name: str
) -> None:
    with left_alone(daemon, FULL), fault(daemon, FULL, name):
        until(lambda: sees(daemon, FULL, "no engine metrics"), "the state shown")
        worker = daemon.worker(FULL)
        assert worker["up"] is True
        assert worker["load"] == {"running": None, "waiting": None, "kv_usage_ratio": None}
        assert worker["standstill_seconds"] is None
        assert is_served(daemon, "sim-full")
    until(lambda: sees(daemon, FULL, "monitored"), "it is seen again")


@pytest.mark.parametrize("is_busy", [True, False])
def test_case_8_slow_pages_never_make_a_worker_look_dead(daemon: Daemon, *, is_busy: bool) -> None:
    """Each page holds up all else that the worker does; back to back, no canary gets through."""
    with left_alone(daemon, FULL), fault(daemon, FULL, "slow_metrics", value=1.5):
        deadline = time.monotonic() + 3 * PERIOD_SECONDS
        while time.monotonic() < deadline:
            assert not is_busy or is_served(daemon, "sim-full")
            assert daemon.worker(FULL)["phase"] == "ready"
            time.sleep(0.1)


def test_case_7_a_burst_that_makes_one_canary_late_starts_nothing_anew(daemon: Daemon) -> None:
    with left_alone(daemon, FULL), ThreadPoolExecutor(64) as clients:
        with fault(daemon, FULL, "hang"):
            burst = [clients.submit(daemon.complete, model="sim-full") for _ in range(64)]
            time.sleep(PERIOD_SECONDS)  # one canary is due, and given up
        assert {answer.result().status for answer in burst} == {200}


def test_case_2_a_long_prefill_that_moves_but_its_cache_is_no_stall(daemon: Daemon) -> None:
    """In steps of 2048 tokens that take two seconds; canaries wait behind it."""
    with left_alone(daemon, FULL), fault(daemon, FULL, "slow", value=8):
        prompt = chat("x" * 7000, model="sim-full", max_tokens=1)
        began = time.monotonic()
        assert ask(daemon.gateway_port, "/v1/chat/completions", prompt).status == 200
        assert time.monotonic() - began > 2 * PERIOD_SECONDS


def test_case_4_a_request_that_stands_still_is_told_and_nothing_is_restarted(
    daemon: Daemon,
) -> None:
    with left_alone(daemon, FULL), Stream(daemon, max_tokens=2000):
        until(lambda: daemon.worker(FULL)["load"]["running"] == 1, "the request in the batch")
        until(lambda: stands_still(daemon) == 0, "that it moves")
        with fault(daemon, FULL, "stuck"):
            still = 2 * PERIOD_SECONDS
            until(lambda: stands_still(daemon) > still, "standing still")
            load = daemon.worker(FULL)["load"]
            assert (load["running"] in (1, 2), load["waiting"]) == (True, 0)  # 2: with a canary
            metric = f'ds4_worker_standstill_seconds{{profile="sim-full",worker="{FULL}"}}'
            until(lambda: (daemon.metric(metric) or 0) > still, "the metric")
            assert is_served(daemon, "sim-full")
        until(lambda: stands_still(daemon) == 0, "it moves again")


@pytest.mark.slow  # a minute until gauges count as frozen
def test_case_9_gauges_that_froze_are_no_load_though_canaries_move_the_counters(
    daemon: Daemon,
) -> None:
    stale = f'ds4_gauges_stale{{profile="sim-full",worker="{FULL}"}}'
    tokens = "vllm:generation_tokens_total{"
    with left_alone(daemon, FULL), Stream(daemon, max_tokens=2000, patience_seconds=120):
        until(lambda: daemon.worker(FULL)["load"]["running"] == 1, "the request in the batch")
        assert daemon.metric(stale) == 0
        with fault(daemon, FULL, "stuck"):
            before = page_value(daemon, FULL, tokens)
            until(lambda: daemon.metric(stale) == 1, "the gauges marked", seconds=90)
            assert page_value(daemon, FULL, tokens) > before
            assert is_firing(daemon, "RequestsStandStill", FULL) or stands_still(daemon) > 60
        until(lambda: daemon.metric(stale) == 0, "they move again")


def page_value(daemon: Daemon, worker: str, series: str) -> float:
    page = ask(port_of(daemon, worker), "/metrics").body.decode()
    return float(next(it for it in page.splitlines() if it.startswith(series)).split()[-1])


def test_case_2_a_frozen_engine_behind_a_green_health_is_found_within_two_periods(
    daemon: Daemon,
) -> None:
    old = daemon.worker(FULL)["pid"]
    port = port_of(daemon, FULL)
    with Stream(daemon, max_tokens=2000):
        began = time.monotonic()
        assert ask(port, "/sim/fault", {"fault": "hang", "on": True}).status == 200
        assert ask(port, "/health").status == 200
        until(lambda: daemon.worker(FULL)["phase"] != "ready", "the stall noticed")
        assert time.monotonic() - began < 2 * PERIOD_SECONDS + SLACK_SECONDS
    assert "generation hangs: 2 canaries unanswered" in daemon.audit("worker")[-1]["summary"]
    until(lambda: daemon.worker(FULL)["phase"] == "ready", "a new process, after its back-off")
    assert daemon.worker(FULL)["pid"] != old


def test_case_28_an_engine_that_dies_of_its_metrics_is_told_with_its_last_state(
    daemon: Daemon,
) -> None:
    port = port_of(daemon, QUANTIZED)
    until(lambda: sees(daemon, QUANTIZED, "monitored"), "its load known")
    assert ask(port, "/sim/fault", {"fault": "metrics_error", "on": True}).status == 200
    until(lambda: daemon.worker(QUANTIZED)["phase"] == "failed", "its death noticed")
    died = daemon.worker(QUANTIZED)["reason"]
    assert "its process ended with status 1 while idle; last seen with 0 running, 0 waiting" in died
    assert "Counters can only be incremented by non-negative amounts" in died
    assert is_served(daemon, "sim")  # by the other one
    alert = until(lambda: is_firing(daemon, "WorkerNotReady", QUANTIZED), "the alert")
    assert alert["summary"] == (
        f"Worker {QUANTIZED} is failed: its process ended with status 1 while idle"
    )
    until(lambda: daemon.worker(QUANTIZED)["phase"] == "ready", "it started again")
    daemon.note_pids()


SEEN = """\
groups:
  - name: flow
    rules:
      - alert: Seen
        expr: sum by (worker) (vllm:num_requests_running) >= 0
"""


def test_an_alert_on_a_worker_that_a_person_stops_ends_and_is_not_held() -> None:
    with new_daemon(rules=SEEN) as daemon:
        daemon.up()
        until(lambda: is_firing(daemon, "Seen", FULL), "the alert")
        daemon.command("workers", "stop", FULL, "--why", "a test", *daemon.options)
        until(lambda: daemon.worker(FULL)["phase"] == "absent", "that it is stopped")
        until(lambda: not is_firing(daemon, "Seen", FULL), "the alert's end")
        assert is_firing(daemon, "Seen", QUANTIZED)
