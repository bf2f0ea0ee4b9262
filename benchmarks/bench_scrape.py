"""Watching workers: CPU a scrape, everything included, beside a real Prometheus in the same run.

python benchmarks/bench_scrape.py [targets] [seconds]
python benchmarks/bench_scrape.py many [seconds]

Both scrape the same targets (a 51 KB page of vLLM 0.32, 15 % of its samples changing each second)
every second, store all of it, and evaluate the same fifty rules every second. Then a thousand
targets for ds4watch alone, on one core. The last line is `ratio=` our CPU time a scrape ÷ theirs.

`many`: only the thousand, for so long (720 s) that scrapes are folded meanwhile. Says how many
ticks were late and scrapes failed, how memory grew in the second half, and what lies in chunks.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.support.processes import (
    cpu_seconds,
    fetched,
    free_port,
    memory_bytes,
    metric,
    python,
    running,
    wait_until,
)
from benchmarks.support.rules import rule_file

WARM_UP_SECONDS = 75
"""Past the first minute of rates, and of the work that is done once."""
MANY = 1000
LONG_SECONDS = 720
BUDGET_MS = 0.46


@dataclass(frozen=True, slots=True)
class Measured:
    """What a process used over a span of wall time."""

    scrapes: float
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int

    @property
    def ms_a_scrape(self) -> float:
        return self.cpu_seconds * 1000 / self.scrapes


class Start(NamedTuple):
    """Where counting began, and where CPU time did."""

    scrapes: float
    counted_at: float
    cpu_seconds: float
    cpu_at: float


class Watcher:
    """A process that scrapes, and where it counts its scrapes."""

    def __init__(self, pid: int, url: str, counter: str) -> None:
        self.pid = pid
        self.url = url
        self._counter = counter

    def scrapes(self) -> float:
        return metric(fetched(f"{self.url}/metrics"), self._counter)

    def start(self) -> Start:
        counted = self.scrapes()
        return Start(counted, time.monotonic(), cpu_seconds(self.pid), time.monotonic())

    def since(self, start: Start) -> Measured:
        # CPU first: telling its metrics costs the process some too.
        cpu = cpu_seconds(self.pid) - start.cpu_seconds
        wall = time.monotonic() - start.cpu_at
        memory = memory_bytes(self.pid)
        failed = metric(fetched(f"{self.url}/metrics"), "ds4_scrape_failures_total")
        if failed:
            raise SystemExit(f"{failed:.0f} scrapes of ds4watch failed")
        scrapes = self.scrapes() - start.scrapes
        rate = scrapes / (time.monotonic() - start.counted_at)
        return Measured(rate * wall, cpu, wall, memory)


def targets(count: int, port: int) -> list[dict[str, object]]:
    """Return a file_sd list."""
    return [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"__metrics_path__": f"/t/{number}/metrics", "instance": f"w{number:04}"},
        }
        for number in range(count)
    ]


def prometheus(stack: ExitStack, folder: Path) -> Watcher:
    """Start a Prometheus on the targets of a folder."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "bench", "file_sd_configs": [{"files": ["targets.json"]}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    process = stack.enter_context(
        running(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            folder / "prometheus.log",
        )
    )
    counter = "prometheus_target_sync_length_seconds_count"
    watcher = Watcher(process.pid, f"http://127.0.0.1:{port}", counter)
    wait_until(lambda: bool(watcher.scrapes()), 30, "Prometheus")
    counter = "prometheus_target_interval_length_seconds_count"
    return Watcher(process.pid, watcher.url, counter)


def ds4watch(stack: ExitStack, folder: Path, *, core: int | None = None) -> Watcher:
    """Start a daemon on the targets of a folder, with no workers of its own."""
    port = free_port()
    config = {
        "state_dir": str(folder / "state"),
        "admin": {"port": port},
        "gateway": {"port": free_port()},
        "fleet": {"workers": []},
        "rules": [str(folder / "rules.yml")],
        "scrape": {"groups": [{"name": "bench", "file_sd_configs": [{"files": ["targets.json"]}]}]},
    }
    file = folder / "ds4watch.yml"
    file.write_text(yaml.safe_dump(config))
    command = python("ds4watch", "up", "--config", file)
    process = stack.enter_context(running(command, folder / "ds4watch.log", core=core))
    watcher = Watcher(process.pid, f"http://127.0.0.1:{port}", "ds4_scrapes_total")
    wait_until(lambda: bool(watcher.scrapes()), 60, f"ds4watch ({folder / 'ds4watch.log'})")
    return watcher


def prepare(folder: Path, count: int, port: int) -> Path:
    """Write targets and rules for `count` targets."""
    folder.mkdir()
    (folder / "targets.json").write_text(json.dumps(targets(count, port)))
    (folder / "rules.yml").write_text(rule_file())
    return folder


def told(name: str, measured: Measured) -> None:
    """Print one line."""
    print(
        f"{name:11} {measured.scrapes:8.0f} scrapes in {measured.wall_seconds:.0f} s,"
        f" {measured.ms_a_scrape:.3f} ms CPU a scrape,"
        f" {measured.cpu_seconds / measured.wall_seconds:5.1%} of a core,"
        f" {measured.memory_bytes / 2**20:.0f} MiB"
    )


def check_up(prometheus: Watcher, count: int) -> None:
    """Exit if Prometheus does not reach every target: a failed scrape costs less."""
    answer = json.loads(fetched(f"{prometheus.url}/api/v1/query?query=sum(up)"))
    up = float(answer["data"]["result"][0]["value"][1])
    if up != count:
        raise SystemExit(f"Prometheus reaches {up:g} of {count} targets")


def side_by_side(folder: Path, port: int, count: int, seconds: int) -> float:
    """Measure both at once; return ours ÷ theirs."""
    print(f"{count} targets each, every second, 50 rules every second, both at once:")
    with ExitStack() as stack:
        place = prepare(folder / "both", count, port)
        watchers = {"prometheus": prometheus(stack, place), "ds4watch": ds4watch(stack, place)}
        time.sleep(WARM_UP_SECONDS)
        started = {name: watcher.start() for name, watcher in watchers.items()}
        time.sleep(seconds)
        found = {name: watcher.since(started[name]) for name, watcher in watchers.items()}
        check_up(watchers["prometheus"], count)
    for name, measured in found.items():
        told(name, measured)
        if measured.scrapes < 0.97 * count * measured.wall_seconds:
            print(f"{name} fell behind: {measured.scrapes / measured.wall_seconds:.0f} a second")
    return found["ds4watch"].ms_a_scrape / found["prometheus"].ms_a_scrape


def alone(folder: Path, port: int, seconds: int, *, long: bool = False) -> None:
    """Measure a thousand targets on one core."""
    print(f"{MANY} targets, every second, ds4watch on one core:", flush=True)
    core = max(os.sched_getaffinity(0))
    with ExitStack() as stack:
        watcher = ds4watch(stack, prepare(folder / "many", MANY, port), core=core)
        time.sleep(WARM_UP_SECONDS)
        page = fetched(f"{watcher.url}/metrics")
        started = watcher.start()
        time.sleep(seconds / 2)
        half_bytes = memory_bytes(watcher.pid)
        time.sleep(seconds / 2)
        measured = watcher.since(started)
        after = fetched(f"{watcher.url}/metrics")
        if long:
            print(f"memory grew by {(measured.memory_bytes - half_bytes) / 2**20:.1f} MiB")
            print(folded(folder / "many" / "state" / "samples.db"))
    told("ds4watch", measured)

    def grown(name: str) -> float:
        return metric(after, name) - metric(page, name)

    ticks = grown("ds4_tick_seconds_count")
    print(
        f"{measured.scrapes / measured.wall_seconds:.0f} scrapes a second,"
        f" tick {grown('ds4_tick_seconds_sum') / ticks * 1000:.0f} ms on average,"
        f" of that the wave {grown('ds4_wave_seconds_sum') / ticks * 1000:.0f} ms;"
        f" ticks late: {grown('ds4_tick_overruns_total'):.0f} of {ticks:.0f};"
        f" failed: {grown('ds4_scrape_failures_total'):.0f}"
    )


def folded(file: Path) -> str:
    """Return what lies in chunks."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        chunks, targets, rows = connection.execute(
            "select count(*), count(distinct target_id), coalesce(sum(rows), 0) from chunks"
        ).fetchone()
        (raw,) = connection.execute("select count(*) from scrapes").fetchone()
    return f"{chunks} chunks of {targets} targets with {rows} scrapes; {raw} scrapes not folded"


def long_run(seconds: int) -> None:
    """Measure a thousand targets for so long that scrapes are folded."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        alone(Path(name), pages(stack, Path(name)), seconds, long=True)


def pages(stack: ExitStack, folder: Path) -> int:
    """Start the server of pages; return its port."""
    port, log = free_port(), folder / "pages.log"
    stack.enter_context(running(python("benchmarks.support.page_server", port), log))
    wait_until(lambda: "ready" in log.read_text(), 60, "the server of pages")
    return port


def main() -> None:
    if sys.argv[1:2] == ["many"]:
        long_run(int(sys.argv[2]) if len(sys.argv) > 2 else LONG_SECONDS)
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    if shutil.which("prometheus") is None:
        raise SystemExit("needs the program prometheus (Debian: apt-get install prometheus)")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        port = pages(stack, folder)
        ratio = side_by_side(folder, port, count, seconds)
        alone(folder, port, seconds)
    print(f"budget: {BUDGET_MS} ms CPU a scrape")
    print(f"ratio={ratio:.3f}")


if __name__ == "__main__":
    main()
