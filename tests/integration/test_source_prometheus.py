"""Rules that a real Prometheus evaluates: the same alerts as ours; held when it is gone."""

from __future__ import annotations

import asyncio
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ds4watch.alerting.remote import Answer, Answers, Elsewhere
from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.rulebook import RuleBook
from ds4watch.model.alert import AlertPhase, AlertState, RuleGroup
from ds4watch.model.errors import SourceError
from ds4watch.model.series import Labels
from ds4watch.promql.columns import LabelColumn
from ds4watch.scrape.remote import RemotePrometheus
from ds4watch.scrape.remote_plan import RemoteOptions
from tests.conftest import ROOT
from tests.edge.clock import SystemClock
from tests.flow.daemon import BUSY, Daemon, Stream, free_ports, new_daemon, until
from tests.integration.prometheus import Prometheus, prometheus
from tests.unit.promql.memory import WritableMemory, named

pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.prometheus, pytest.mark.slow]

OWN = """\
groups:
  - name: own
    rules:
      - record: pool:depth:sum
        expr: sum by (profile) (ds4_queue_depth)
        labels: {made: here}
      - alert: Deep
        expr: pool:depth:sum > 40
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.profile }} has {{ $value }}"}
      - alert: DeepInBoth
        expr: pool:depth:sum{profile="full"} > on (made) pool:depth:sum{profile!="full"}
      - alert: Shallow
        expr: min_over_time(ds4_queue_depth[1m]) < 3
      - alert: Nothing
        expr: absent(ds4_not_there)
      - alert: Quantile
        expr: histogram_quantile(0.5, sum by (le) (ds4_seconds_bucket)) > 0.4
"""
FLEET = [("w1", "full"), ("w2", "full"), ("w3", "quantized")]
PHASES: list[dict[str, tuple[float, float]]] = [
    # queue depth and KV cache of each worker; None: it is not on the page
    {"w1": (0, 0.1), "w2": (1, 0.2), "w3": (2, 0.3)},
    {"w1": (30, 0.95), "w2": (25, 0.2), "w3": (10, 0.99)},
    {"w1": (150, 0.95), "w2": (80, 0.99), "w3": (90, 0.5)},
    {"w1": (150, 0.95), "w3": (90, 0.5)},
    {"w1": (1, 0.1), "w2": (1, 0.1), "w3": (1, 0.1)},
]


class Page:
    """A metrics page with values that are set."""

    def __init__(self) -> None:
        self.step = 0
        self.values: dict[str, tuple[float, float]] = {}

    def series(self) -> list[tuple[str, dict[str, str], float]]:
        found: list[tuple[str, dict[str, str], float]] = [("ds4_step", {}, float(self.step))]
        for worker, profile in FLEET:
            if worker in self.values:
                depth, usage = self.values[worker]
                labels = {"worker": worker, "profile": profile, "model": "m"}
                found.append(("ds4_queue_depth", labels, depth))
                found.append(("ds4_kv_usage_ratio", labels, usage))
        for le, share in (("0.1", 0.2), ("1", 0.9), ("+Inf", 1.0)):
            found.append(("ds4_seconds_bucket", {"le": le}, 100 * share))
        for state in ("ready", "failed"):
            labels = {"worker": "w3", "profile": "quantized", "state": state}
            found.append(("ds4_worker_state", labels, float(state == "failed")))
        return found

    def text(self) -> bytes:
        lines = []
        for name, labels, value in self.series():
            told = ",".join(f'{name}="{it}"' for name, it in labels.items())
            lines.append(f"{name}{{{told}}} {value}\n")
        return "".join(lines).encode()


@contextmanager
def page_server(page: Page, port: int) -> Iterator[None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.text()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def all_rules() -> list[RuleGroup]:
    files = sorted((ROOT / "rules").glob("*.yml"))
    found = [it for file in files for it in load_rules(file.read_text(), file.name)]
    # All of them in each step, however short it is.
    return [replace(it, interval_seconds=0.0) for it in (*found, *load_rules(OWN, "own.yml"))]


def told(alerts: tuple[AlertState, ...]) -> dict[Labels, tuple[AlertPhase, float, Labels]]:
    return {it.labels: (it.phase, it.value, it.annotations) for it in alerts}


async def round_of(source: RemotePrometheus, asked: tuple[str, ...], at: float) -> Answers:
    until_at = time.monotonic() + 20

    async def one(text: str) -> Answer:
        try:
            return await source.ask(text, at, until_at)
        except SourceError as error:
            return Answer(error=str(error))

    answers = await asyncio.gather(*(one(text) for text in asked))
    return Answers(at, dict(zip(asked, answers, strict=True)))


def remembered(memory: WritableMemory, page: Page, instance: str, at: float) -> None:
    """Take the page as Prometheus did, with the labels of the target."""
    target = {"job": "page", "instance": instance}
    present = {named("up", **target): 1.0}
    present |= {named(name, **labels, **target): value for name, labels, value in page.series()}
    memory.write("page", LabelColumn(tuple(present)), np.array(list(present.values())), at)


async def test_the_shipped_rules_and_recorded_series_give_the_same_alerts(tmp_path: Path) -> None:
    page, ports = Page(), free_ports(2)
    here, memory = RuleBook(all_rules()), WritableMemory()
    there, nothing = RuleBook(all_rules(), Elsewhere(interval_seconds=1.0)), WritableMemory()
    ours: tuple[AlertState, ...] = ()
    theirs: tuple[AlertState, ...] = ()
    instance = f"127.0.0.1:{ports[0]}"
    seen: set[str] = set()
    with page_server(page, ports[0]), prometheus(tmp_path, ports[1], {"page": ports[0]}) as server:
        source = RemotePrometheus(RemoteOptions(server.url), SystemClock())
        for number, values in enumerate(PHASES):
            page.values = values
            page.step = number  # last: once it is seen, so are the values
            until(partial(_has_step, server, number), f"step {number}")
            now = time.time()
            remembered(memory, page, instance, now)
            asked = there.questions(theirs, now)
            answers = await round_of(source, asked, now)
            ours = here.evaluate(memory, ours, now).alerts
            theirs = there.evaluate(nothing, theirs, now, answers=answers).alerts
            assert {it.error for it in answers.by_text.values()} == {None}
            assert there.errors() == {}
            assert told(theirs) == told(ours), f"step {number}"
            seen |= {it.name for it in ours}
        await source.close()
    assert {"Deep", "DeepInBoth", "Shallow", "Nothing", "Quantile", "QueueDepthHigh"} <= seen
    assert {"KvCachePressure", "WorkerNotReady", "Watchdog"} <= seen


def _has_step(server: Prometheus, wanted: int) -> bool:
    found = server.query("ds4_step")
    return bool(found) and float(found[0]["value"][1]) == wanted


def is_in(daemon: Daemon, name: str, phase: str) -> bool:
    """Return whether there are alerts of a name, all of them in one phase."""
    return set(daemon.phases(name)) == {phase}


def test_alerts_outlive_the_server_and_go_on_when_it_is_back(tmp_path: Path) -> None:
    meta = (
        "      - alert: RuleCannotBeEvaluated\n        expr: ds4_rule_evaluation_failed == 1\n"
        "      - alert: SourceFailing\n        expr: ds4_source_up == 0\n"
    )
    (port,) = free_ports(1)
    with new_daemon(rules=BUSY + meta) as daemon:
        settings = yaml.safe_load(daemon.config.read_text())
        settings["source"] = {
            "kind": "prometheus",
            "url": f"http://127.0.0.1:{port}",
            "interval_seconds": 1,
            "timeout_seconds": 1,
            "max_age_seconds": 30,
        }
        daemon.config.write_text(yaml.safe_dump(settings))
        server = Prometheus(tmp_path, port, {"ds4watch": daemon.admin_port})
        server.start()
        try:
            daemon.up()
            until(lambda: server.query("ds4_running_requests"), "our page in Prometheus")
            with Stream(daemon, max_tokens=2000) as stream:
                until(lambda: is_in(daemon, "Busy", "firing"), "Busy")
                server.kill()
                until(lambda: is_in(daemon, "RuleCannotBeEvaluated", "firing"), "the meta-alert")
                until(lambda: is_in(daemon, "SourceFailing", "firing"), "the source's alert")
                stream.leave()
            # Nothing runs any more, and nobody can say so.
            until(lambda: daemon.metric("ds4_running_requests") == 0, "an idle fleet")
            time.sleep(3)
            assert is_in(daemon, "Busy", "firing")
            server.start()
            until(lambda: is_in(daemon, "Busy", "resolved"), "the end of Busy")
            until(lambda: is_in(daemon, "RuleCannotBeEvaluated", "resolved"), "the recovery")
            assert daemon.metric("ds4_source_up") == 1
            checked = daemon.command("check", "--online", "--config", str(daemon.config))
            assert checked.returncode == 0, checked.stderr
            assert "answers (version 2.42" in checked.stdout
            assert "1 of 1 rules can be evaluated there" in checked.stdout
        finally:
            server.kill()
