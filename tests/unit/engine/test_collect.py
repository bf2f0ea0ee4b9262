"""From scrapes to signals: what is late, what failed, what is gone."""

from __future__ import annotations

import numpy as np
import pytest

from ds4watch.engine.collect import Reader
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey, labels_of

LABELS = labels_of({"model_name": "tiny", "engine": "0"})
PAGE = (
    SeriesKey("vllm:num_requests_running", LABELS),
    SeriesKey("vllm:num_requests_waiting", LABELS),
    SeriesKey("vllm:prompt_tokens_total", LABELS),
    SeriesKey("vllm:generation_tokens_total", LABELS),
)


class Schemas:
    """Numbers series lists in memory."""

    def __init__(self) -> None:
        self.known: list[Schema] = [Schema(0, ())]

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        for schema in self.known[1:]:
            if schema.series == series:
                return schema
        self.known.append(Schema(len(self.known), series))
        return self.known[-1]

    def schema(self, schema_id: int) -> Schema:
        return self.known[schema_id]


def target(worker: str) -> Target:
    labels = {"job": "vllm", "instance": "127.0.0.1:1", "worker": worker, "profile": "p"}
    return Target(worker, "http://127.0.0.1:1/metrics", labels_of(labels))


@pytest.fixture
def schemas() -> Schemas:
    schemas = Schemas()
    schemas.intern(PAGE)
    return schemas


def good(worker: str, at: float, waiting: float = 40.0, tokens: float = 0.0) -> ScrapeResult:
    values = np.array([8.0, waiting, tokens, tokens])
    return ScrapeResult(target(worker), at, 1, values)


def failed(worker: str, at: float) -> ScrapeResult:
    failure = ScrapeFailure(EdgeReason.CONNECT, "refused")
    return ScrapeResult(target(worker), at, 0, np.empty(0), failure)


def queue(reader: Reader, *results: ScrapeResult) -> dict[str, float]:
    return {
        dict(sample.labels)["worker"]: sample.value
        for sample in reader.read(results).samples
        if sample.name == "ds4_queue_depth"
    }


def test_a_late_scrape_keeps_what_was_known_and_a_failed_one_does_not(schemas: Schemas) -> None:
    reader = Reader(schemas)
    assert queue(reader, good("a", 1.0), good("b", 1.0)) == {"a": 40.0, "b": 40.0}
    assert queue(reader, good("a", 2.0, waiting=30.0)) == {"a": 30.0, "b": 40.0}
    assert queue(reader, failed("b", 3.0)) == {"a": 30.0}


def test_signals_stand_behind_the_page_with_the_targets_own_labels_left_out(
    schemas: Schemas,
) -> None:
    (extended,) = Reader(schemas).read([good("a", 1.0)]).results
    series = schemas.schema(extended.schema_id).series
    assert series[: len(PAGE)] == PAGE
    assert extended.page_samples == len(PAGE)
    depth = series.index(SeriesKey("ds4_queue_depth", (("model", "tiny"),)))
    assert extended.values[depth] == 40.0


def test_load_and_progress_follow_the_page(schemas: Schemas) -> None:
    reader = Reader(schemas)
    first = reader.read([good("a", 1.0, tokens=5.0)])
    second = reader.read([good("a", 2.0, tokens=6.0)])
    assert first.loads["a"].waiting == 40.0
    assert second.progress["a"] > first.progress["a"]


def test_a_page_without_engine_metrics_is_not_an_idle_worker(schemas: Schemas) -> None:
    schemas.intern((SeriesKey("process_cpu_seconds_total"),))
    bare = ScrapeResult(target("a"), 1.0, 2, np.array([1.0]))
    collected = Reader(schemas).read([bare])
    assert collected.samples == ()
    assert collected.loads == {}


def test_what_is_gone_is_forgotten(schemas: Schemas) -> None:
    reader = Reader(schemas)
    reader.read([good("a", 1.0), good("b", 1.0)])
    reader.forget_all_but(["a"])
    assert queue(reader) == {"a": 40.0}
