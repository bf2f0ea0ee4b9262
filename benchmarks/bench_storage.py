"""Keeping samples: bytes on disk beside Prometheus's own blocks, and starting again on a day.

python benchmarks/bench_storage.py [hours] [workers]

The same series (a vLLM 0.32 page, 15 % of its samples growing by random amounts each second) go
into a ds4watch store and, by its own export, into a Prometheus block (promtool). Then a daemon
starts on a day of history of 100 workers. The last line is `ratio=` our bytes a sample ÷ theirs.
"""

from __future__ import annotations

import asyncio
import compileall
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import yaml

from benchmarks.support.growing_page import GrowingPage
from benchmarks.support.processes import (
    ROOT,
    free_port,
    python,
    running,
    wait_until,
)
from ds4watch.history.samples import SampleStore
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.scrape.exposition import PageReader

DAY_SECONDS = 86_400
START_BUDGET_SECONDS = 2.0
_TYPE = "text/plain; version=0.0.4"


class Clock:
    """The wall clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def target_of(number: int, port: int) -> Target:
    """Return a target as `scrape.groups` of the benchmark make it."""
    instance = f"w{number:04}"
    labels = {"job": "bench", "instance": instance, "worker": instance, "profile": "external"}
    url = f"http://127.0.0.1:{port}/t/{number}/metrics"
    return Target(f"bench/{instance}", url, tuple(sorted(labels.items())), "bench")


def scrapes(store: SampleStore, target: Target, start: int, count: int) -> Iterator[ScrapeResult]:
    """Yield scrapes a second apart."""
    page = GrowingPage()
    reader = PageReader(store)
    first = reader.read(page.render(), _TYPE, target.name)
    for second in range(count):
        body = page.render()
        values = reader.read(body, _TYPE, target.name).values
        yield ScrapeResult(target, float(start + second), first.schema.id, values, None, 0.01)
        page.step()


async def fill(
    path: Path, target: Target, start: int, seconds: int, *, fold_all: bool
) -> tuple[int, float]:
    """Store so many seconds and fold as the daemon does, or all; return samples and CPU seconds."""
    store = SampleStore.open(path, Clock())
    begun = time.process_time()
    samples = 0
    waiting: list[ScrapeResult] = []
    for result in scrapes(store, target, start, seconds):
        samples += len(result.values)
        waiting.append(result)
        if len(waiting) == 600:
            await store.append(waiting)
            await store.fold(result.at)
            waiting = []
    await store.append(waiting)
    await store.fold(float(start + seconds + (1200 if fold_all else 0)))
    await store.close()
    return samples, time.process_time() - begun


def vacuumed_bytes(path: Path) -> dict[str, int]:
    """Return the size of the file, compacted, and what its tables hold."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        tables = {
            table: int(
                connection.execute(
                    f"SELECT coalesce(sum(length(payload)), 0) FROM {table}"
                ).fetchone()[0]
            )
            for table in ("scrapes", "chunks", "rollups")
        }
    return {"file": path.stat().st_size, **tables}


def prometheus_bytes(folder: Path, exported: Path) -> int:
    """Return the size of the block that promtool makes of an OpenMetrics file."""
    blocks = folder / "blocks"
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", exported, blocks],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return sum(path.stat().st_size for path in blocks.rglob("*") if path.is_file())


def bytes_a_sample(folder: Path, hours: float) -> float:
    """Measure the same series in both; return ours ÷ theirs."""
    # Blocks of Prometheus begin at even hours: the span shall lie in one.
    seconds = int(hours * 3600)
    start = int(time.time()) // 7200 * 7200 - 4 * 7200
    state = folder / "state"
    state.mkdir()
    target = target_of(0, 1)
    samples, cpu = asyncio.run(fill(state / "samples.db", target, start, seconds, fold_all=True))
    sizes = vacuumed_bytes(state / "samples.db")
    exported = folder / "history.om"
    config = folder / "ds4watch.yml"
    config.write_text(yaml.safe_dump({"state_dir": str(state)}))
    with exported.open("wb") as output:
        command = python("ds4watch", "history", "export", "--config", config)
        subprocess.run([*command, "--format", "openmetrics"], check=True, stdout=output, cwd=ROOT)
    theirs = prometheus_bytes(folder, exported)
    ours = sizes["file"]
    print(f"{samples} samples of {hours:g} hours, one scrape a second:")
    print(
        f"ds4watch    {ours / samples:.3f} bytes a sample in all: chunks"
        f" {sizes['chunks'] / samples:.3f}, roll-ups of a minute and an hour"
        f" {sizes['rollups'] / samples:.3f}; {cpu / seconds * 1000:.3f} ms CPU a scrape to read,"
        " store and fold"
    )
    print(f"prometheus  {theirs / samples:.3f} bytes a sample (block by promtool)")
    return ours / theirs


def copy_to_all(path: Path, count: int, port: int) -> None:
    """Give every target the history of the first."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        row = connection.execute("SELECT * FROM targets").fetchone()
        names = [it[1] for it in connection.execute("PRAGMA table_info(targets)")]
        for number in range(1, count):
            target = target_of(number, port)
            changed = {
                **dict(zip(names, row, strict=True)),
                "id": row[names.index("id")] + number,
                "name": target.name,
                "url": target.url,
                "labels": json.dumps(dict(target.labels)),
            }
            _insert(connection, "targets", changed)
            for table in ("scrapes", "chunks", "rollups"):
                _copy(connection, table, row[names.index("id")], changed["id"])
        connection.commit()


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    places = ", ".join("?" for _ in row)
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"
    connection.execute(sql, tuple(row.values()))


def _copy(connection: sqlite3.Connection, table: str, source_id: int, target_id: int) -> None:
    names = [it[1] for it in connection.execute(f"PRAGMA table_info({table})")]
    others = [name for name in names if name not in ("id", "target_id")]
    columns = ", ".join(others)
    connection.execute(
        f"INSERT INTO {table} (target_id, {columns})"
        f" SELECT ?, {columns} FROM {table} WHERE target_id = ? ORDER BY id",
        (target_id, source_id),
    )


def started_on_a_day(folder: Path, count: int) -> float:
    """Return the seconds from a daemon's start to its first evaluation that sees history."""
    state = folder / "day"
    state.mkdir()
    port = free_port()
    log = folder / "pages.log"
    with ExitStack() as stack:
        stack.enter_context(running(python("benchmarks.support.page_server", port), log))
        now = int(time.time())
        path = state / "samples.db"
        first = target_of(0, port)
        asyncio.run(fill(path, first, now - DAY_SECONDS, DAY_SECONDS, fold_all=False))
        copy_to_all(path, count, port)
        size = path.stat().st_size
        os.sync()  # or the start competes with the writing of what was just made
        wait_until(lambda: "ready" in log.read_text(), 60, "the server of pages")
        print(f"a day of {count} workers: {size / 2**30:.2f} GiB")
        seconds = _start(folder, state, count, port)
    print(f"evaluating {seconds:.2f} s after the start (budget {START_BUDGET_SECONDS:g} s)")
    return seconds


def _start(folder: Path, state: Path, count: int, port: int) -> float:
    """Start a daemon with a rule that only a loaded history can fire, and again with another."""
    admin = free_port()
    groups = [
        {
            "name": "bench",
            "static_configs": [
                {
                    "targets": [f"127.0.0.1:{port}"],
                    "labels": {
                        "__metrics_path__": f"/t/{number}/metrics",
                        "instance": f"w{number:04}",
                    },
                }
                for number in range(count)
            ],
        }
    ]
    config = {
        "state_dir": str(state),
        "admin": {"port": admin},
        "gateway": {"port": free_port()},
        "fleet": {"workers": []},
        "rules": [str(folder / "rules.yml")],
        "scrape": {"groups": groups},
    }
    (folder / "day.yml").write_text(yaml.safe_dump(config))
    # As an installer does: else each start of a checkout might translate all of it once more.
    compileall.compile_dir(ROOT / "ds4watch", quiet=1)
    command = python("ds4watch", "up", "--config", folder / "day.yml")
    log = folder / "ds4watch.log"
    # The first start makes the state database; the second is the one of an operator.
    for name in ("FirstStart", "SecondStart"):
        (folder / "rules.yml").write_text(_needs_history(name, count))
        log.unlink(missing_ok=True)
        with running(command, log):
            begun = time.monotonic()
            wait_until(_told(log, name), 60, f"evaluation ({log})")
            seconds = time.monotonic() - begun
            wait_until(_told(log, "admin API"), 60, f"the admin API ({log})")
    return seconds


def _told(log: Path, what: str) -> Callable[[], bool]:
    return lambda: what in log.read_text()


def _needs_history(name: str, count: int) -> str:
    expr = f"count(count_over_time(vllm:prompt_tokens_total[10m]) > 120) >= {count}"
    rule = {"alert": name, "expr": expr}
    return yaml.safe_dump({"groups": [{"name": "start", "interval": "1s", "rules": [rule]}]})


def main() -> None:
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    if shutil.which("promtool") is None:
        raise SystemExit("needs the program promtool (Debian: apt-get install prometheus)")
    np.seterr(all="raise")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ratio = bytes_a_sample(folder, hours)
        started_on_a_day(folder, workers)
    print(f"ratio={ratio:.3f}")


if __name__ == "__main__":
    main()
