"""What `ds4watch history export` writes, taken by a real promtool and told by a real Prometheus."""

from __future__ import annotations

import http.client
import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ds4watch.history.migrate import Which
from ds4watch.history.samples import SampleStore
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import STALE_NAN, SeriesKey

pytestmark = [pytest.mark.needs("promtool", "prometheus"), pytest.mark.prometheus, pytest.mark.slow]

PATIENCE_SECONDS = 30.0
AT = 1_700_000_000.25
"""Where Prometheus's retention does not reach, unless it is told to."""
ODD = 'a "quoted" \\ back\nslash, ünïcode {}'
W1 = Target("w1", "http://w1", (("instance", "h:1"), ("job", "vllm"), ("worker", "w1")))
MOVED = Target("w1", "http://moved", W1.labels)
W2 = Target("w2", "http://w2", (("job", "vllm"), ("worker", "w2")))
FIRST = (
    SeriesKey("vllm:odd", (("model_name", ODD),)),
    SeriesKey("requests_total", (("worker", "the page's own"),)),
    SeriesKey("values"),
)
SECOND = (SeriesKey("values"), SeriesKey("later"))
VALUES = (0.1, -0.0, math.inf, -math.inf, math.nan, STALE_NAN, 1e300, 5e-324, 2.0**53, 3.0)


class Clock:
    def now(self) -> float:
        return AT + 3600

    def monotonic(self) -> float:
        return 0.0


def pages(store: SampleStore) -> list[ScrapeResult]:
    """An hour over a restart on another port, failures, a change of the page, a clock set back."""
    first, second = store.intern(FIRST).id, store.intern(SECOND).id
    found = []
    for n in range(240):
        at, value = AT + 15 * n, VALUES[n % len(VALUES)]
        target = W1 if n < 120 else MOVED
        row = [float(n), float(n * n), value] if n < 150 else [value, float(n)]
        number = first if n < 150 else second
        values = np.array(row)
        found.append(ScrapeResult(target, at, number, values, took_seconds=0.5, page_samples=3))
        if n % 50 == 49:
            failure = ScrapeFailure(EdgeReason.TIMEOUT, "no answer")
            found.append(ScrapeResult(target, at + 7, 0, np.empty(0), failure, took_seconds=5.0))
        found.append(ScrapeResult(W2, at, second, np.array([1.0, n / 3]), took_seconds=0.5))
    back = ScrapeResult(W1, AT + 15 * 20 + 1, first, np.array([-1.0, -2.0, -3.0]), took_seconds=0.5)
    found.insert(100, back)
    return found


async def stored(folder: Path) -> list[ScrapeResult]:
    store = SampleStore.open(folder / f"{Which.SAMPLES}.db", Clock())
    wanted = pages(store)
    for one in wanted:
        await store.append([one])
    # All but the last slots are chunks.
    await store.fold(AT + 3000)
    await store.close()
    return wanted


def expected(results: Sequence[ScrapeResult]) -> dict[str, dict[float, float]]:
    """By series as Prometheus shows it: times and values, straight from what was scraped."""
    series_of = {1: FIRST, 2: SECOND}
    found: dict[str, dict[float, float]] = defaultdict(dict)
    for one in results:
        rows = zip(series_of.get(one.schema_id, ()), one.values.tolist(), strict=True)
        for (key, value), bits in zip(rows, one.values.view("u8").tolist(), strict=True):
            labels = {f"exported_{n}" if n == "worker" else n: it for n, it in key.labels}
            if bits != 0x7FF0000000000002:
                found[named(key.name, labels | dict(one.target.labels))][one.at] = value
        found[named("up", dict(one.target.labels))][one.at] = float(one.failure is None)
    return found


def named(name: str, labels: dict[str, str]) -> str:
    return json.dumps({"__name__": name} | labels, sort_keys=True)


@contextmanager
def prometheus(folder: Path, blocks: Path) -> Iterator[int]:
    """Yield the port of a Prometheus on these blocks; it scrapes nothing."""
    (folder / "prometheus.yml").write_text("global: {}\n")
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={blocks}", "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_ready(port):
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def is_ready(port: int) -> bool:
    try:
        return get(port, "/-/ready")[0] == 200
    except OSError:
        return False


def get(port: int, path: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def asked(port: int, query: str) -> dict[str, dict[float, float]]:
    wanted = urllib.parse.urlencode({"query": query, "time": AT + 3600})
    status, body = get(port, f"/api/v1/query?{wanted}")
    assert status == 200, body
    data: dict[str, Any] = json.loads(body)["data"]
    return {
        json.dumps(one["metric"], sort_keys=True): {at: float(value) for at, value in one["values"]}
        for one in data["result"]
    }


def bits(table: dict[str, dict[float, float]]) -> dict[str, dict[float, str]]:
    """Make NaN equal to itself, and -0 other than 0."""
    return {name: {at: repr(it) for at, it in rows.items()} for name, rows in table.items()}


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        arguments, cwd=cwd, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


async def test_prometheus_answers_with_every_value_at_its_time(tmp_path: Path) -> None:
    state = tmp_path / "state"
    wanted = expected(await stored(state))
    # The options as docs/storage.md has them.
    export = ("history", "export", "-o", "history.om", "--state", str(state))
    command(sys.executable, "-m", "ds4watch", *export, cwd=tmp_path)
    command(
        "promtool", "tsdb", "create-blocks-from", "openmetrics", "history.om", "blocks",
        cwd=tmp_path,
    )  # fmt: skip
    with prometheus(tmp_path, tmp_path / "blocks") as port:
        found = asked(port, '{job="vllm",__name__!~"scrape_.*"}[2h]')
        assert bits(found) == bits(wanted)
        scrapes = asked(port, 'scrape_samples_scraped{worker="w1"}[2h]')
        [counts] = scrapes.values()
        assert list(counts.values()).count(0) == 4
        assert set(counts.values()) == {0, 3}
