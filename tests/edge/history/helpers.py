from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import SeriesKey

NOW = 1_800_000_000.0
W1 = Target("w1", "http://127.0.0.1:8101/metrics", (("job", "vllm"), ("worker", "w1")))
W2 = Target("w2", "http://127.0.0.1:8102/metrics", (("job", "vllm"), ("worker", "w2")))
AB = (SeriesKey("a"), SeriesKey("b", (("x", "1"),)))


class FixedClock:
    def now(self) -> float:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def scrape(
    at: float, values: Sequence[float], *, schema_id: int = 1, target: Target = W1
) -> ScrapeResult:
    array = np.array(values, dtype=np.float64)
    return ScrapeResult(target, at, schema_id, array, took_seconds=0.25)


def failed(at: float, *, target: Target = W1) -> ScrapeResult:
    failure = ScrapeFailure(EdgeReason.TIMEOUT, "no answer in 5 s")
    return ScrapeResult(target, at, 0, np.empty(0), failure, took_seconds=5.0)


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What a person sees with the sqlite3 command."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()
