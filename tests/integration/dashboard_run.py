"""A run that dashboards have something to show of, and a Prometheus that looks on."""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.flow.daemon import PROGRAM, Daemon, ask, ended, free_ports, new_daemon, until

SHIPPED = Path(__file__).resolve().parents[2] / "rules"
QUICK = """\
groups:
  - name: quick
    rules:
      - alert: QueueHigh
        expr: sum(ds4_queue_depth) > 10
        for: 1s
        keep_firing_for: 1s
        labels: {severity: critical}
        annotations: {ds4_on_no_data: hold}
      - alert: WorkerBusy
        expr: ds4_running_requests > 0
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
"""
LOAD_SECONDS = 20
SETTLE_SECONDS = 6.0
"""After the last new series, until rates look at none that began within their window."""

_SPACING_SECONDS = 0.52
"""Of samples, and a little more; from 1.1 times on it is a gap."""

Series = dict[tuple[tuple[str, str], ...], dict[float, float]]


@dataclass(frozen=True, slots=True)
class Source:
    """Whatever answers as a Prometheus does."""

    port: int

    def range(self, query: str, start: float, end: float, step: float) -> Series:
        return self._asked("query_range", query=query, start=start, end=end, step=step)

    def instant(self, query: str, at: float) -> Series:
        return self._asked("query", query=query, time=at)

    def values(self, metric: str, label: str, start: float, end: float) -> list[str]:
        """Return what `label_values(metric, label)` gives."""
        fields = urllib.parse.urlencode({"match[]": metric, "start": start, "end": end})
        found: list[str] = self._data(f"/api/v1/label/{label}/values?{fields}")
        return found

    def _asked(self, path: str, **fields: Any) -> Series:
        data = self._data(f"/api/v1/{path}?{urllib.parse.urlencode(fields)}")
        if data["resultType"] == "scalar":
            return {(): {data["result"][0]: float(data["result"][1])}}
        return {
            tuple(sorted(one["metric"].items())): {
                at: float(value) for at, value in one.get("values") or [one["value"]]
            }
            for one in data["result"]
        }

    def _data(self, path: str) -> Any:
        answer = ask(self.port, path)
        body = answer.json()
        assert answer.status == 200, (urllib.parse.unquote_plus(path), body)
        assert not body.get("warnings"), (urllib.parse.unquote_plus(path), body["warnings"])
        return body["data"]


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen, where it is to be asked for, and when it was."""

    ours: Source
    live: Source
    imported: Source
    start: float
    settled: float
    end: float
    scraped: tuple[tuple[float, ...], ...]
    """When each target was."""

    def is_even(self, at: float, window_seconds: float) -> bool:
        """Return whether samples come as they should where a window begins that ends then.

        Over a gap there Prometheus 2 extrapolates further towards zero than Prometheus 3.
        """
        begin = at - window_seconds
        firsts = (next((it for it in times if it > begin), begin) for times in self.scraped)
        return all(first - begin < _SPACING_SECONDS for first in firsts)


@contextmanager
def run() -> Iterator[Run]:
    """Yield the run when it is over; its daemon and both Prometheus still answer."""
    with webhook() as address, new_daemon(rules=QUICK, fleet=_FLEET) as daemon:
        daemon.settings |= {
            "rules": ["rules.yml", *(str(path) for path in sorted(SHIPPED.glob("*.yml")))],
            "quality": {"interval_seconds": 5},
            "notify": {"webhook_url": address},
        }
        daemon.config.write_text(yaml.safe_dump(daemon.settings), encoding="utf-8")
        scrape = {
            "job_name": "ds4watch",
            "scrape_interval": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{daemon.admin_port}"]}],
        }
        with prometheus({"scrape_configs": [scrape]}) as live:
            start = time.time()
            daemon.up()
            settled, end = story(daemon)
            ours = Source(daemon.admin_port)
            with imported(daemon) as (blocks, text):
                fraction, scraped = free_fraction(text), scrapes(text)
                whole = (math.floor(start), math.ceil(settled), math.floor(end))
                first, second, last = (it + fraction for it in whole)
                yield Run(ours, live, blocks, first, second, last, scraped)


_FLEET = {"canary_interval_seconds": 30}


def story(daemon: Daemon) -> tuple[float, float]:
    """Let levels, alerts, retries and cost move; return when all series were there, and the end."""
    broken = urllib.parse.urlsplit(daemon.worker("sim-quantized-0")["url"]).port
    assert broken is not None
    ask(broken, "/sim/fault", {"fault": "http_500", "on": True, "value": 0.1})
    until(lambda: daemon.complete(max_tokens=4) and retried(daemon), "a retry")
    until(lambda: daemon.metric("ds4_quantization_error"), "a measured quantization error")
    until(lambda: daemon.metric("ds4_notifications_total"), "a message")
    load = daemon.begin(
        *("load", "--url", f"http://127.0.0.1:{daemon.gateway_port}", "--model", "sim"),
        *("--concurrency", "64", "--seconds", str(LOAD_SECONDS), "--json"),
    )
    settled = time.time() + SETTLE_SECONDS
    try:
        until(lambda: daemon.level() == 2, "the highest level")
        ended(load)
    finally:
        load.kill()
        load.communicate()
    until(lambda: daemon.level() == 0, "normal service")
    calm = time.time()
    until(lambda: time.time() > calm + 4, "some calm")
    return settled, time.time() - 1


def retried(daemon: Daemon) -> bool:
    return bool(daemon.metric('ds4_retry_count_total{reason="status_5xx"}'))


@contextmanager
def prometheus(settings: Mapping[str, Any], data: Path | None = None) -> Iterator[Source]:
    """Yield a Prometheus that has just been started."""
    folder = Path(tempfile.mkdtemp(prefix="prometheus-"))
    (port,) = free_ports(1)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data or folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log) as process,
    ):
        try:
            until(lambda: _is_ready(port), "a Prometheus that is ready")
            yield Source(port)
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def _is_ready(port: int) -> bool:
    try:
        return ask(port, "/-/ready").status == 200
    except OSError:
        return False


@contextmanager
def imported(daemon: Daemon) -> Iterator[tuple[Source, Path]]:
    """Yield a Prometheus that was given what our history exports, and the export."""
    text, blocks = daemon.folder / "history.om", daemon.folder / "blocks"
    export = ["history", "export", "-o", str(text), "--state", str(daemon.state)]
    for command in (
        [*PROGRAM, *export],
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    with prometheus({"scrape_configs": []}, blocks) as source:
        yield source, text


def free_fraction(text: Path) -> float:
    """Return a fraction of a second at which nothing was sampled: no edge of a window is there."""
    lines = text.read_text(encoding="utf-8").splitlines()
    taken = {line.rpartition(".")[2] for line in lines if not line.startswith("#")}
    return next(it for it in range(1000) if f"{it:03}" not in taken) / 1000


def scrapes(text: Path) -> tuple[tuple[float, ...], ...]:
    """Return when each worker was scraped, and when our own figures were taken."""
    found: dict[str, list[float]] = {}
    for line in text.read_text(encoding="utf-8").splitlines():
        if line.startswith(("up{", "ds4_build_info{")):
            series, _, at = line.rpartition(" ")
            found.setdefault(series.rpartition(" ")[0], []).append(float(at))
    return tuple(tuple(sorted(times)) for times in found.values())


class _Taken(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def webhook() -> Iterator[str]:
    """Yield the address of somebody who takes every message."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Taken)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
