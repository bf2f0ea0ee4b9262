"""The same series in a real Prometheus and in ours: generated expressions give the same.

Debian's Prometheus is version 2, whose windows are closed: no sample lies on a window's edge here.
It reads no staleness markers from files; series end by gaps.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels, labels_of
from ds4watch.promql.ast import Expr, ValueType
from ds4watch.promql.evaluate import evaluate
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.parse import parse
from tests.unit.promql.expressions import expression
from tests.unit.promql.memory import MemoryStorage, named

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.slow,
    pytest.mark.needs("prometheus", "promtool"),
    pytest.mark.timeout(1800),
]

LONG_EXAMPLES = 3000
"""What the long run asks of each property (tests/conftest.py)."""
LONG = getattr(hypothesis.settings.default, "max_examples", 0) >= LONG_EXAMPLES
EXPRESSIONS = 5000 if LONG else 400
ORIGIN = 1_700_006_400
START, STEP, STEPS = ORIGIN + 2400.5, 53.0, 20
END = START + STEP * (STEPS - 1)
FILTERS = re.compile(r" (?:[<>]|<=|==) (?!bool)")

Result = dict[Labels, dict[float, float]]
Evaluated = Callable[[MemoryStorage], Result]
Told = Iterator[str]


def fleet() -> MemoryStorage:
    """Return series whose samples lie off whole and half seconds.

    A counter that may have gaps is far from zero: Prometheus 2 and 3 differ on how far to
    extrapolate towards zero over a gap at a window's start.
    """
    chance = random.Random(1)
    storage = MemoryStorage()
    for number, host in enumerate("abc"):
        times = [ORIGIN + 15 * n + 0.1 + number / 8 for n in range(300)]
        for job in "xy":
            kept = with_gaps(chance, times)
            points = counter(chance, kept, high=True)
            storage.add(named("requests_total", host=host, job=job), points)
            storage.add(named("hits_total", host=host, job=job), counter(chance, times, high=False))
            storage.add(named("queue", host=host, job=job), gauge(chance, kept))
            if host != "b":
                labels = named("queue", host=host, job=job, extra="1")
                storage.add(labels, gauge(chance, with_gaps(chance, times)))
            for place, le in enumerate(("0.1", "1", "10", "+Inf")):
                name = named("seconds_bucket", host=host, job=job, le=le)
                storage.add(name, [(t, float(n * (2 * place + 1))) for n, t in enumerate(times)])
    return storage


def with_gaps(chance: random.Random, times: list[float]) -> list[float]:
    kept = [at for at in times if chance.random() > 0.05]
    for _ in range(3):
        start, length = chance.randrange(len(kept)), chance.choice((5, 12, 40))
        del kept[start : start + length]
    return kept


def counter(chance: random.Random, times: list[float], *, high: bool) -> list[tuple[float, float]]:
    value, points = (1e6 if high else 0.0), []
    for at in times:
        value += chance.choice((0, 0, 1, 7, 12.5))
        if chance.random() < 0.02:
            value = (5e5 if high else 0.0) + chance.randint(0, 5)
        points.append((at, value))
    return points


def gauge(chance: random.Random, times: list[float]) -> list[tuple[float, float]]:
    pool = [0.0, 1.0, 2.5, -3.25, 8.0, 100.0, math.nan]
    return [(at, chance.choices(pool, [5, 5, 5, 5, 5, 5, 0.3])[0]) for at in times]


def open_metrics(storage: MemoryStorage) -> str:
    lines = []
    for name, suffix, kind in (
        ("requests", "_total", "counter"),
        ("hits", "_total", "counter"),
        ("queue", "", "gauge"),
        ("seconds", "_bucket", "histogram"),
    ):
        lines.append(f"# TYPE {name} {kind}")
        for labels, series in storage.series.items():
            pairs = dict(labels)
            if pairs.pop(NAME_LABEL) == name + suffix:
                inside = ",".join(f'{key}="{value}"' for key, value in pairs.items())
                lines += [
                    f"{name}{suffix}{{{inside}}} {text(value)} {at:.3f}"
                    for at, value in zip(series.times, series.values, strict=True)
                ]
    return "\n".join([*lines, "# EOF", ""])


def text(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


@pytest.fixture(scope="module")
def storage() -> MemoryStorage:
    return fleet()


@pytest.fixture(scope="module")
def prometheus(storage: MemoryStorage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a Prometheus that holds the same series."""
    folder = tmp_path_factory.mktemp("prometheus")
    samples = folder / "samples.om"
    samples.write_text(open_metrics(storage))
    data = folder / "data"
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(samples), str(data)]
    subprocess.run(make, check=True, capture_output=True, timeout=120)
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    log = folder / "log"
    with (
        log.open("w") as stream,
        subprocess.Popen(
            [
                shutil.which("prometheus") or "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={data}",
                "--storage.tsdb.retention.time=100y",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=stream,
            stderr=stream,
        ) as process,
    ):
        try:
            yield listening(log)
        finally:
            process.terminate()
            process.wait(30)


def listening(log: Path) -> str:
    """Wait until it answers, and return where."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = [line for line in log.read_text().splitlines() if "Listening on" in line]
        if lines:
            address = f"http://{lines[0].rpartition('address=')[2].split()[0]}"
            try:
                with urllib.request.urlopen(f"{address}/-/ready", timeout=5):
                    return address
            except OSError:
                pass
        time.sleep(0.05)
    pytest.fail(log.read_text())


def asked(address: str, path: str, **fields: Any) -> Result | None:
    """Return what it answers; None where it fails the query."""
    body = urllib.parse.urlencode(fields).encode()
    try:
        with urllib.request.urlopen(f"{address}/api/v1/{path}", body, timeout=60) as response:
            data = json.load(response)["data"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code != HTTPStatus.UNPROCESSABLE_ENTITY:
                pytest.fail(f"{fields}: {error.read()!r}")
        return None
    if data["resultType"] == "scalar":
        return {(): {data["result"][0]: float(data["result"][1])}}
    return {
        labels_of(one["metric"]): {
            at: float(value) for at, value in one.get("values") or [one["value"]]
        }
        for one in data["result"]
    }


def ours_at(expr: Expr, storage: MemoryStorage, at: float) -> Result:
    result = evaluate(expr, storage, at)
    if result.kind is ValueType.SCALAR:
        return {(): {at: result.scalar}}
    pairs = zip(result.vector.labels, result.vector.values.tolist(), strict=True)
    return {labels: {at: value} for labels, value in pairs}


def ours_over(expr: Expr, storage: MemoryStorage) -> Result:
    got = evaluate_range(expr, storage, START, END, STEP)
    return {
        labels: dict(zip(got.steps[there].tolist(), values[there].tolist(), strict=True))
        for labels, values, there in zip(got.labels, got.values, got.there, strict=True)
    }


def difference(query: str, got: Result, wanted: Result) -> str | None:
    if got.keys() != wanted.keys():
        return f"series: {got.keys() - wanted.keys()} ours, {wanted.keys() - got.keys()} theirs"
    for labels, points in wanted.items():
        mine = got[labels]
        if mine.keys() != points.keys():
            return f"steps of {labels}: {sorted(mine)} and {sorted(points)}"
        for at, value in points.items():
            if not close(query, mine[at], value):
                return f"{labels} at {at}: {mine[at]} and {value}"
    return None


def close(query: str, got: float, wanted: float) -> bool:
    if math.isnan(got) and wanted == 0 and ("stddev" in query or "stdvar" in query):
        return True  # the spread of a single NaN is 0 to Prometheus 2, NaN to 3
    return bool(np.isclose(got, wanted, rtol=1e-6, atol=1e-7, equal_nan=True))


def compared(query: str, storage: MemoryStorage, address: str) -> Told:
    expr = parse(query)
    at = START + 7 * STEP
    theirs = asked(address, "query", query=query, time=at)
    yield from told(query, lambda storage: ours_at(expr, storage, at), storage, theirs)
    theirs = asked(address, "query_range", query=query, start=START, end=END, step=STEP)
    yield from told(query, lambda storage: ours_over(expr, storage), storage, theirs)


def noisy(storage: MemoryStorage) -> MemoryStorage:
    """Return the series with values off by what millisecond times and other sums may make."""
    chance = random.Random(2)
    result = MemoryStorage()
    for labels, series in storage.series.items():
        values = [value * (1 + chance.uniform(-1e-8, 1e-8)) for value in series.values]
        result.add(labels, list(zip(series.times, values, strict=True)))
    return result


def told(query: str, evaluated: Evaluated, storage: MemoryStorage, theirs: Result | None) -> Told:
    try:
        ours = evaluated(storage)
    except QueryError as error:
        # To Prometheus 3, pairs that a comparison drops are matched all the same.
        if theirs is not None and not ("multiple matches" in str(error) and FILTERS.search(query)):
            yield f"{query}: ours fails: {error}"
        return
    why = "theirs fails" if theirs is None else difference(query, ours, theirs)
    # Where noise in the samples changes our own result as much, the two need not agree.
    if why and difference(query, ours, evaluated(noisy(storage))) is None:
        yield f"{query}: {why}"


def test_generated_expressions_give_the_same(storage: MemoryStorage, prometheus: str) -> None:
    different = []
    for seed in range(EXPRESSIONS):
        different += list(compared(expression(random.Random(seed)), storage, prometheus))
    print(f"{EXPRESSIONS} expressions, at an instant and over {STEPS} steps:")
    print(f"{len(different)} differ")
    assert not different, "\n".join(different)
