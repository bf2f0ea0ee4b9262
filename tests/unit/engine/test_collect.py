"""From scrapes to signals: what is late, what failed, what is gone."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from ds4watch.engine.collect import Collected, Reader
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey, is_stale, labels_of
from ds4watch.model.worker import WorkerLoad
from tests.unit.vocabulary.pages import page_of

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


def failed(worker: str, at: float, reason: EdgeReason = EdgeReason.CONNECT) -> ScrapeResult:
    failure = ScrapeFailure(reason, "refused")
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
    assert len(extended.values) == len(series)


def test_every_scrape_of_a_page_has_the_same_series_and_absent_is_stale(schemas: Schemas) -> None:
    reader = Reader(schemas)
    seen = set()
    for second in range(5):
        tokens = 0.0 if second < 2 else 100.0 * second
        waiting = np.nan if second == 3 else 1.0
        (result,) = reader.read([good("a", float(second), waiting, tokens)]).results
        seen.add(result.schema_id)
        assert value(schemas, result, "ds4_queue_depth") == ("stale" if second == 3 else 1.0)
    assert len(seen) == 1
    assert value(schemas, result, "ds4_tokens_per_second", kind="prompt") == 100.0


def test_workers_in_any_order_and_number_have_their_own_past(schemas: Schemas) -> None:
    reader = Reader(schemas)
    for second in range(30):
        wave = [
            good(f"w{n}", second + n / 100, tokens=float(second * n))
            for n in sorted(range(40), key=lambda n: (n * second) % 7)
            if (n + second) % 5
        ]
        results = reader.read(wave).results
        assert [it.target for it in results] == [it.target for it in wave]
    for result in results:
        rate = value(schemas, result, "ds4_tokens_per_second", kind="prompt")
        number = int(result.target.name[1:])
        assert rate == ("stale" if number == 0 else pytest.approx(number))


def test_a_target_that_comes_twice_in_a_wave_is_read_twice(schemas: Schemas) -> None:
    reader = Reader(schemas)
    results = reader.read([good("a", 1.0), good("a", 2.0, tokens=50.0), good("b", 1.0)]).results
    assert value(schemas, results[1], "ds4_tokens_per_second", kind="prompt") == 50.0


def value(
    schemas: Schemas, result: ScrapeResult, name: str, **labels: str
) -> float | Literal["stale"]:
    wanted = labels_of({"model": "tiny", **labels})
    column = schemas.schema(result.schema_id).series.index(SeriesKey(name, wanted))
    return "stale" if is_stale(result.values)[column] else float(result.values[column])


def engines(at: float, *running: float, first: int = 0, tokens: float = 0.0) -> dict[str, float]:
    page = {}
    for place, requests in enumerate(running):
        labels = f'engine="{first + place}",model_name="tiny"'
        page[f"vllm:num_requests_running{{{labels}}}"] = requests
        page[f"vllm:num_requests_waiting{{{labels}}}"] = 0.0
        page[f"vllm:prompt_tokens_total{{{labels}}}"] = tokens + at
        page[f"vllm:generation_tokens_total{{{labels}}}"] = tokens + at
    return page


def scraped(schemas: Schemas, at: float, page: dict[str, float]) -> ScrapeResult:
    schema, values = page_of(page)
    return ScrapeResult(target("a"), at, schemas.intern(schema.series).id, values)


def of(collected: Collected, name: str) -> dict[tuple[str, ...], float]:
    told = ("worker", "profile", "model")
    return {
        tuple(text for label, text in it.labels if label not in told): it.value
        for it in collected.samples
        if it.name == name
    }


def test_case_22_an_engine_that_vanishes_is_missed_and_its_load_is_not_taken_for_nothing(
    schemas: Schemas, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(schemas)
    for second in range(10):
        both = reader.read([scraped(schemas, second, engines(second, 3, 5, tokens=1e9))])
    assert both.loads["a"].running == 8
    assert of(both, "ds4_engines_missing") == {(): 0}
    one = reader.read([scraped(schemas, 10.0, engines(10.0, 3, tokens=1e9))])
    assert of(one, "ds4_engines_missing") == {(): 1}
    assert one.loads["a"] == WorkerLoad()
    for name in ("ds4_running_requests", "ds4_prompt_tokens_total", "ds4_tokens_per_second"):
        assert of(one, name) == {}
    reader.read([scraped(schemas, 11.0, engines(11.0, 3, tokens=1e9))])
    assert [it.message for it in caplog.records] == [
        "a: engines ['1'] are not on its page; its totals are unknown"
    ]
    for second in range(12, 120):
        again = reader.read([scraped(schemas, second, engines(second, 3, 5, tokens=1e9))])
        rates = of(again, "ds4_tokens_per_second").values()
        assert all(rate <= 2.0 + 1e-6 for rate in rates)
    assert again.loads["a"].running == 8
    assert of(again, "ds4_tokens_per_second") == {("prompt",): 2.0, ("generated",): 2.0}


def test_case_22_an_engine_that_stays_away_is_given_up_and_a_restart_expects_nothing(
    schemas: Schemas,
) -> None:
    reader = Reader(schemas)
    reader.read([scraped(schemas, 0.0, engines(0.0, 3, 5))])
    for second in range(1, 700):
        last = reader.read([scraped(schemas, second, engines(second, 3))])
    assert last.loads["a"].running == 3
    reader.read([scraped(schemas, 700.0, engines(700.0, 3, 5))])
    reader.read([failed("a", 701.0, EdgeReason.TIMEOUT)])
    assert reader.read([scraped(schemas, 702.0, engines(702.0, 3))]).loads["a"].running is None
    reader.read([failed("a", 703.0)])
    assert reader.read([scraped(schemas, 704.0, engines(704.0, 3))]).loads["a"].running == 3


def test_case_9_gauges_frozen_with_flat_counters_are_marked_stale(schemas: Schemas) -> None:
    reader = Reader(schemas)
    for second in range(62):
        frozen = reader.read([good("a", float(second), waiting=15.0, tokens=5.0)])
    assert of(frozen, "ds4_gauges_stale") == {(): 1}
    assert frozen.loads["a"].running == 8
    moved = reader.read([good("a", 62.0, waiting=15.0, tokens=6.0)])
    assert of(moved, "ds4_gauges_stale") == {(): 0}


def test_case_9_gauges_that_only_canaries_move_are_marked_stale(schemas: Schemas) -> None:
    """Our own canary moves a counter each ten seconds; who asks it knows how much that says."""
    reader = Reader(schemas)
    for second in range(130):
        tokens = 5.0 + 4 * (second // 10)
        moved = reader.read([good("a", float(second), tokens=tokens)], {"a": 0.0})
    assert of(moved, "ds4_gauges_stale") == {(): 0}
    frozen = reader.read([good("a", 130.0, tokens=tokens)], {"a": 61.0})
    assert of(frozen, "ds4_gauges_stale") == {(): 1}
    idle = ScrapeResult(target("a"), 131.0, 1, np.array([0.0, 0.0, tokens, tokens]))
    assert of(reader.read([idle], {"a": 62.0}), "ds4_gauges_stale") == {(): 0}


def test_samples_are_made_of_this_wave_and_stay_so(schemas: Schemas) -> None:
    reader = Reader(schemas)
    before = reader.read([good("a", 1.0, waiting=1.0)]).samples
    reader.read([good("a", 2.0, waiting=2.0)])
    assert {it.value for it in before if it.name == "ds4_queue_depth"} == {1.0}
    assert all(it.labels == labels_of(dict(it.labels)) for it in before)


def test_pages_that_are_no_workers_are_named_after_their_target(schemas: Schemas) -> None:
    schemas.intern((SeriesKey("vllm_router_requests_total", (("route", "/v1"),)),))
    schemas.intern((SeriesKey("DCGM_FI_DEV_GPU_TEMP", (("UUID", "GPU-a"), ("gpu", "0"))),))
    wave = [
        ScrapeResult(Target("edge", "http://10.0.0.1:29000/metrics"), 1.0, 2, np.array([5.0])),
        ScrapeResult(Target("spare", "http://10.0.0.2:29000/metrics"), 1.0, 2, np.array([6.0])),
        ScrapeResult(Target("dcgm", "http://10.0.0.3:9400/metrics"), 1.0, 3, np.array([40.0])),
    ]
    collected = Reader(schemas).read(wave)
    found = {(it.name, dict(it.labels).get("router")): it for it in collected.samples}
    assert found["ds4_router_requests_total", "edge"].value == 5
    assert found["ds4_router_requests_total", "spare"].value == 6
    heat = dict(found["ds4_gpu_temperature_celsius", None].labels)
    assert heat == {"gpu": "0", "uuid": "GPU-a", "host": "10.0.0.3"}
    assert collected.loads == {}


def test_load_and_progress_follow_the_page(schemas: Schemas) -> None:
    reader = Reader(schemas)
    first = reader.read([good("a", 1.0, tokens=5.0)])
    second = reader.read([good("a", 2.0, tokens=6.0)])
    assert first.loads["a"].waiting == 40.0
    assert second.progress["a"] > first.progress["a"]


def test_a_page_without_engine_metrics_is_not_an_idle_worker(schemas: Schemas) -> None:
    schemas.intern((SeriesKey("process_cpu_seconds_total"),))
    reader = Reader(schemas)
    reader.read([good("a", 1.0)])
    collected = reader.read([ScrapeResult(target("a"), 2.0, 2, np.array([1.0]))])
    assert [(it.name, it.value) for it in collected.samples] == [("ds4_engine_reported", 0.0)]
    assert collected.loads == {}
    assert collected.progress == {}


def test_a_page_that_says_nothing_we_know_is_left_as_it_is(schemas: Schemas) -> None:
    schemas.intern((SeriesKey("node_load1"),))
    node = Target("node", "http://127.0.0.1:9100/metrics", (("job", "node"),), "others")
    bare = ScrapeResult(node, 1.0, 2, np.array([1.0]))
    collected = Reader(schemas).read([bare])
    assert collected.results == (bare,)
    assert list(collected.samples) == []


def test_case_26_a_worker_whose_page_says_nothing_of_its_engine_is_not_seen(
    schemas: Schemas,
) -> None:
    schemas.intern((SeriesKey("node_load1"),))
    worker = Target("w", "http://127.0.0.1:8101/metrics", (("worker", "w"),))
    (result,) = Reader(schemas).read([ScrapeResult(worker, 1.0, 2, np.array([1.0]))]).results
    assert result.blind


def test_what_is_gone_is_forgotten(schemas: Schemas) -> None:
    reader = Reader(schemas)
    reader.read([good("a", 1.0), good("b", 1.0)])
    reader.forget_all_but(["a"])
    assert queue(reader) == {"a": 40.0}
