"""Range queries over a day, as dashboards ask them, beside a real Prometheus on the same series.

python -m benchmarks.bench_query [workers] [hours]

A day of 100 workers (a vLLM 0.32 page every 15 s) is in a ds4watch store, and the metrics asked
for in blocks of Prometheus (promtool). Each expression is asked over 1,440 steps, once cold and
then warm, on both in turn; ours by the daemon's query process, up to the arrays in the daemon,
theirs over HTTP, up to the JSON. The last line is `ratio=` the worst of ours ÷ theirs, warm.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.bench_storage import Clock, copy_to_all, target_of
from benchmarks.support.growing_page import GrowingPage
from benchmarks.support.processes import fetched, free_port, running, wait_until
from ds4watch.engine.query_process import QueryLimits, QueryProcess
from ds4watch.engine.query_wire import RangeQuery
from ds4watch.history.range_reader import StoredRanges
from ds4watch.history.samples import SampleStore
from ds4watch.model.scrape import ScrapeResult
from ds4watch.model.series import NAME_LABEL
from ds4watch.promql.storage import Matcher, MatchOp
from ds4watch.scrape.exposition import PageReader

SPACING_SECONDS = 15
STEPS = 1440
ROUNDS = 7
START = 1_700_006_400
"""At the start of a block of Prometheus."""
_LONGEST_BLOCK = "24h"
_TYPE = "text/plain; version=0.0.4"

QUERIES = (
    "sum(rate(vllm:prompt_tokens_total[5m]))",
    "sum by (worker) (rate(vllm:prompt_tokens_total[5m]))",
    "sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total[5m]))",
    "max_over_time(vllm:num_requests_waiting[5m])",
    "histogram_quantile(0.95, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket[5m])))",
)
METRICS = {
    "vllm:prompt_tokens_total": "counter",
    "vllm:prefix_cache_hits_total": "counter",
    "vllm:prefix_cache_queries_total": "counter",
    "vllm:num_requests_waiting": "gauge",
    "vllm:e2e_request_latency_seconds_bucket": "histogram",
}


async def fill(path: Path, scrapes: int) -> None:
    """Store and fold the past of one worker."""
    store = SampleStore.open(path, Clock())
    page = GrowingPage()
    reader = PageReader(store)
    target = target_of(0, 1)
    schema = reader.read(page.render(), _TYPE, target.name).schema
    waiting: list[ScrapeResult] = []
    for number in range(scrapes):
        at = float(START + SPACING_SECONDS * number)
        values = reader.read(page.render(), _TYPE, target.name).values
        waiting.append(ScrapeResult(target, at, schema.id, values, None, 0.01))
        page.step()
        if len(waiting) == 600:
            await store.append(waiting)
            await store.fold(at)
            waiting = []
    await store.append(waiting)
    await store.fold(float(START + SPACING_SECONDS * scrapes))
    await store.close()


def open_metrics(path: Path, workers: int) -> Iterator[str]:
    """Yield the metrics asked for as OpenMetrics, the same samples for each worker."""
    with closing(StoredRanges(path)) as stored:
        for metric, kind in METRICS.items():
            family = metric.removesuffix("_total").removesuffix("_bucket")
            yield f"# TYPE {family} {kind}\n"
            name = Matcher(NAME_LABEL, MatchOp.EQUAL, metric)
            first = Matcher("worker", MatchOp.EQUAL, "w0000")
            found = stored.columns([name, first], 0, 2**40)
            for block in found.blocks:
                for row, values in zip(block.rows.tolist(), block.values, strict=True):
                    told = [
                        f"}} {value!r} {at:.3f}\n"
                        for at, value in zip(block.times.tolist(), values.tolist(), strict=True)
                    ]
                    labels = found.labels.sets[row]
                    for number in range(workers):
                        prefix = series_text(metric, dict(labels), f"w{number:04}")
                        yield prefix + prefix.join(told)
    yield "# EOF\n"


def series_text(metric: str, labels: dict[str, str], worker: str) -> str:
    """Return a series as far as its closing brace."""
    own = {**labels, "worker": worker, "instance": worker}
    own.pop(NAME_LABEL)
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in own.items())


def make_blocks(folder: Path, store: Path, workers: int) -> Path:
    """Return the folder of a Prometheus that has the same samples."""
    exported, data = folder / "history.om", folder / "prometheus"
    with exported.open("w") as output:
        output.writelines(open_metrics(store, workers))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", exported, data]
    command.append(f"--max-block-duration={_LONGEST_BLOCK}")
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
    exported.unlink()
    return data


def prometheus(folder: Path, data: Path, port: int) -> list[str]:
    """Return the command of a Prometheus on these blocks."""
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    return [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]


def asked_of_prometheus(port: int, query: RangeQuery) -> tuple[float, dict[str, list[float]]]:
    """Return how long it took, and what it gave, by worker."""
    fields = {
        "query": query.query,
        "start": query.start,
        "end": query.end,
        "step": query.step_seconds,
    }
    begun = time.perf_counter()
    url = f"http://127.0.0.1:{port}/api/v1/query_range?{urllib.parse.urlencode(fields)}"
    with urllib.request.urlopen(url, timeout=120) as response:
        body = response.read()
    took = time.perf_counter() - begun
    result = json.loads(body)["data"]["result"]
    values = {
        one["metric"].get("worker", ""): [float(value) for _, value in one["values"]]
        for one in result
    }
    return took, values


async def asked_of_us(
    queries: QueryProcess, query: RangeQuery
) -> tuple[float, dict[str, list[float]]]:
    """Return the same of ours."""
    begun = time.perf_counter()
    found = await queries.ask_range(query)
    took = time.perf_counter() - begun
    rows = zip(found.labels, found.values, found.there, strict=True)
    values = {dict(labels).get("worker", ""): row[there].tolist() for labels, row, there in rows}
    return took, values


def same(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> bool:
    """Say whether both gave the same."""
    return ours.keys() == theirs.keys() and all(
        len(ours[one]) == len(theirs[one])
        and np.allclose(ours[one], theirs[one], rtol=1e-6, equal_nan=True)
        for one in ours
    )


async def measure(store: Path, port: int, hours: float) -> float:
    """Ask both in turn; return the worst ratio of the medians."""
    worst = 0.0
    step = hours * 3600 / STEPS
    # Off the samples' instants: the windows of Debian's Prometheus 2 are closed.
    start = START + 7.0
    async with QueryProcess(store, QueryLimits(timeout_seconds=300.0)) as queries:
        for text in QUERIES:
            query = RangeQuery(text, start, start + step * (STEPS - 1), step)
            cold, values = await asked_of_us(queries, query)
            cold_theirs, values_theirs = asked_of_prometheus(port, query)
            if not same(values, values_theirs):
                raise SystemExit(f"{text}: the results differ")
            ours, theirs = [], []
            for _ in range(ROUNDS):
                ours.append((await asked_of_us(queries, query))[0])
                theirs.append(asked_of_prometheus(port, query)[0])
            mine, their = statistics.median(ours), statistics.median(theirs)
            worst = max(worst, mine / their)
            print(text)
            for kind, one, other in (("warm", mine, their), ("cold", cold, cold_theirs)):
                print(f"    {kind}: ds4watch {1e3 * one:.0f} ms, prometheus {1e3 * other:.0f} ms")
    return worst


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    hours = float(sys.argv[2]) if len(sys.argv) > 2 else 24.0
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            raise SystemExit(f"needs the program {program} (Debian: apt-get install prometheus)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = folder / "state" / "samples.db"
        asyncio.run(fill(store, int(hours * 3600 / SPACING_SECONDS)))
        copy_to_all(store, workers, 1)
        data = make_blocks(folder, store, workers)
        print(f"{hours:g} hours of {workers} workers are stored", flush=True)
        port = free_port()
        with running(prometheus(folder, data, port), folder / "prometheus.log"):
            ready = f"http://127.0.0.1:{port}/-/ready"
            wait_until(lambda: "Ready" in fetched(ready), 60, "Prometheus")
            worst = asyncio.run(measure(store, port, hours))
    print(f"ratio={worst:.2f}")


if __name__ == "__main__":
    main()
