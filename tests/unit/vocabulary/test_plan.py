from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from ds4watch.model.series import Sample, Schema, SeriesKey, labels_of
from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary.names import EXPOSED, WORKER_SIGNALS
from ds4watch.vocabulary.plan import load_of, missing, plan_for, point_of, signals_of
from ds4watch.vocabulary.table import MEANINGS

DATA = Path(__file__).resolve().parents[2] / "data" / "metrics"
SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "metrics"
WORKER = labels_of({"worker": "w1", "profile": "tiny-full"})

Page = dict[str, float]


def page_of(lines: Page | str) -> tuple[Schema, np.ndarray]:
    """Make a page from {series as written: value}, or from well-formed text."""
    if isinstance(lines, str):
        pairs = [line.rpartition(" ") for line in lines.splitlines() if line[:1] not in ("#", "")]
        lines = {series: float(value) for series, _, value in pairs}
    series = tuple(
        SeriesKey(
            written.partition("{")[0], labels_of(dict(re.findall(r'(\w+)="([^"]*)"', written)))
        )
        for written in lines
    )
    return Schema(1, series), np.array([*lines.values()], dtype=np.float64)


def signals(lines: Page | str) -> dict[tuple[str, ...], float]:
    """Return {(signal, model, further label value…): value}."""
    schema, values = page_of(lines)
    found = signals_of(plan_for(schema), values, WORKER)
    for sample in found:
        assert set(WORKER) <= set(sample.labels)
        assert sample.labels == labels_of(dict(sample.labels))
    return {short(sample): sample.value for sample in found}


def short(sample: Sample) -> tuple[str, ...]:
    labels = {name: value for name, value in sample.labels if (name, value) not in WORKER}
    return (sample.name, labels.pop("model", ""), *labels.values())


def load(lines: Page | str) -> WorkerLoad:
    schema, values = page_of(lines)
    return load_of(plan_for(schema), values)


def test_a_real_vllm_032_page_gives_every_signal_with_its_true_value() -> None:
    found = signals((DATA / "vllm-0.32-cpu-loaded.prom").read_text())
    assert found == {
        ("ds4_prompt_tokens_total", "tiny"): 67049,
        ("ds4_prefill_tokens_total", "tiny"): 30697,
        ("ds4_cached_tokens_total", "tiny"): 36352,
        ("ds4_generated_tokens_total", "tiny"): 2986,
        ("ds4_prefill_seconds_total", "tiny"): 2.875765401994613,
        ("ds4_decode_seconds_total", "tiny"): 10.512491557005887,
        ("ds4_preemptions_total", "tiny"): 0,
        ("ds4_engine_steps_total", "tiny"): 364,
        ("ds4_finished_requests_total", "tiny", "stop"): 0,
        ("ds4_finished_requests_total", "tiny", "length"): 79,
        ("ds4_finished_requests_total", "tiny", "abort"): 0,
        ("ds4_finished_requests_total", "tiny", "error"): 0,
        ("ds4_finished_requests_total", "tiny", "repetition"): 0,
        ("ds4_queue_depth", "tiny"): 0,
        ("ds4_running_requests", "tiny"): 0,
        ("ds4_kv_usage_ratio", "tiny"): 0,
    }


def test_a_real_vllm_032_page_misses_nothing() -> None:
    schema, values = page_of((DATA / "vllm-0.32-cpu-loaded.prom").read_text())
    plan = plan_for(schema)
    assert missing(plan) == ()
    assert plan.models == ("tiny",)
    point = point_of(plan, values, 12.0)
    assert point[:5] == (12.0, 67049, 30697, 36352, 2986)


def test_a_page_of_version_06_gives_what_it_has_and_tells_what_it_lacks() -> None:
    text = (DATA / "vllm-v06-idle-hitrate-minus1.prom").read_text()
    found = {name: value for (name, *_), value in signals(text).items()}
    assert found == {
        "ds4_prompt_tokens_total": 0,
        "ds4_prefill_tokens_total": 0,
        "ds4_generated_tokens_total": 0,
        "ds4_preemptions_total": 0,
        "ds4_queue_depth": 0,
        "ds4_running_requests": 0,
        "ds4_kv_usage_ratio": 0,
    }
    lacking = {signal for signal, _ in missing(plan_for(page_of(text)[0]))}
    assert lacking == {meaning.signal for meaning in MEANINGS} - set(found)


def test_counts_of_engines_add_up_and_the_fullest_cache_counts() -> None:
    page = {
        'vllm:num_requests_running{engine="0",model_name="m"}': 3.0,
        'vllm:num_requests_running{engine="1",model_name="m"}': 5.0,
        'vllm:num_requests_waiting{engine="0",model_name="m"}': 0.0,
        'vllm:num_requests_waiting{engine="1",model_name="m"}': 7.0,
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"}': 0.9,
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"}': 0.2,
        'vllm:generation_tokens_total{engine="0",model_name="m"}': 10.0,
        'vllm:generation_tokens_total{engine="1",model_name="m"}': 32.0,
    }
    assert load(page) == WorkerLoad(running=8, waiting=7, kv_usage_ratio=0.9)
    assert signals(page) == {
        ("ds4_running_requests", "m"): 8,
        ("ds4_queue_depth", "m"): 7,
        ("ds4_kv_usage_ratio", "m"): 0.9,
        ("ds4_generated_tokens_total", "m"): 42,
    }


def test_the_old_and_the_new_name_on_one_page_are_one_quantity() -> None:
    page = {
        'vllm:gpu_cache_usage_perc{model_name="m"}': 0.8,
        'vllm:kv_cache_usage_perc{model_name="m"}': 0.5,
        'vllm:gpu_prefix_cache_hits_total{model_name="m"}': 7.0,
        'vllm:prefix_cache_hits_total{model_name="m"}': 7.0,
    }
    assert load(page).kv_usage_ratio == 0.5
    assert signals(page)["ds4_cached_tokens_total", "m"] == 7


@pytest.mark.parametrize(
    ("page", "prefill"),
    [
        (
            {
                'vllm:prompt_tokens_by_source_total{source="local_compute"}': 11.0,
                'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': 5.0,
                "vllm:prompt_tokens_total": 100.0,
                "vllm:prompt_tokens_cached_total": 1.0,
            },
            11,
        ),
        ({"vllm:prompt_tokens_total": 100.0, "vllm:prompt_tokens_cached_total": 30.0}, 70),
        (
            {
                "vllm:prompt_tokens_total": 100.0,
                'vllm:cache_config_info{enable_prefix_caching="False"}': 1.0,
                "vllm:prefix_cache_queries_total": 0.0,
                "vllm:prefix_cache_hits_total": 0.0,
            },
            100,
        ),
        (
            {
                "vllm:prompt_tokens_total": 100.0,
                'vllm:cache_config_info{enable_prefix_caching="True"}': 1.0,
                "vllm:prefix_cache_queries_total": 96.0,
                "vllm:prefix_cache_hits_total": 16.0,
            },
            80,
        ),
        ({"vllm:gpu_prefix_cache_queries": 96.0, "vllm:gpu_prefix_cache_hits": 16.0}, 80),
        ({"vllm:prompt_tokens_total": 100.0}, None),
        ({"vllm:prompt_tokens_total": 100.0, "vllm:prefix_cache_queries_total": 96.0}, None),
    ],
)
def test_computed_prompt_tokens_come_from_the_best_source_there_is(
    page: Page, prefill: float | None
) -> None:
    assert signals(page).get(("ds4_prefill_tokens_total", "")) == prefill


@pytest.mark.parametrize(
    ("page", "cached"),
    [
        (
            {
                "vllm:prompt_tokens_cached_total": 9.0,
                "vllm:prefix_cache_hits_total": 50.0,
            },
            9,
        ),
        (
            {
                'vllm:prompt_tokens_by_source_total{source="local_compute"}': 11.0,
                'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': 5.0,
                'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': 2.0,
            },
            7,
        ),
        (
            {
                "vllm:prefix_cache_hits_total": 4.0,
                "vllm:external_prefix_cache_hits_total": 2.0,
            },
            6,
        ),
        ({"vllm:prefix_cache_hits": 4.0}, 4),
        ({"vllm:gpu_prefix_cache_hit_rate": -1.0}, None),
    ],
)
def test_cached_tokens_come_from_the_best_source_there_is(page: Page, cached: float | None) -> None:
    assert signals(page).get(("ds4_cached_tokens_total", "")) == cached


@pytest.mark.parametrize(
    "name",
    [
        "vllm:generation_tokens_total",
        "vllm:generation_tokens",
        "vllm_generation_tokens_total",
        "ray_vllm:generation_tokens_total",
        "ray_vllm_generation_tokens",
        "kserve_vllm:generation_tokens_total",
    ],
)
def test_every_prefix_and_either_ending_is_understood(name: str) -> None:
    page = {f'{name}{{model_name="m",ReplicaId="{n}"}}': 2.0 for n in "ab"}
    assert signals(page) == {("ds4_generated_tokens_total", "m"): 4}


def test_two_prefixes_on_one_page_do_not_count_twice() -> None:
    page = {
        'vllm:generation_tokens_total{model_name="m"}': 2.0,
        'kserve_vllm:generation_tokens_total{model_name="m"}': 2.0,
    }
    assert signals(page) == {("ds4_generated_tokens_total", "m"): 2}


def test_models_of_one_page_are_kept_apart_and_the_load_is_of_all() -> None:
    page = {
        'vllm:num_requests_running{model_name="a"}': 1.0,
        'vllm:num_requests_running{model_name="b"}': 2.0,
    }
    assert signals(page) == {("ds4_running_requests", "a"): 1, ("ds4_running_requests", "b"): 2}
    assert load(page).running == 3
    assert plan_for(page_of(page)[0]).models == ("a", "b")


@pytest.mark.parametrize("page", [{}, {"python_info": 1.0, "process_open_fds": 35.0}])
def test_a_page_without_an_engine_is_not_an_idle_engine(page: Page) -> None:
    schema, values = page_of(page)
    plan = plan_for(schema)
    assert not plan.has_engine
    assert signals(page) == {}
    assert load(page) == WorkerLoad()
    assert point_of(plan, values, 1.0)[1:] == (None,) * 6
    assert {why for _, why in missing(plan)} == {"the page has no vLLM metrics"}
    assert len(missing(plan)) == len(MEANINGS)


def test_what_is_not_reported_is_absent_and_not_zero() -> None:
    assert load({"vllm:num_requests_running": 0.0}) == WorkerLoad(running=0)


@pytest.mark.parametrize("value", [math.nan, -1.0])
def test_not_a_number_and_less_than_nothing_are_absent(value: float) -> None:
    page = {"vllm:num_requests_waiting": value, "vllm:kv_cache_usage_perc": value}
    assert signals(page) == {}
    assert load(page) == WorkerLoad()


def test_every_meaning_is_a_named_signal_with_the_workers_labels() -> None:
    for meaning in MEANINGS:
        signal = EXPOSED[meaning.signal]
        assert signal in WORKER_SIGNALS
        extra = {meaning.split[1]} if meaning.split else set()
        assert set(signal.labels) == {"worker", "profile", "model"} | extra


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/metrics is not here")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "vllm-v1-2025-idle-trimmed.prom",
            {"ds4_kv_usage_ratio": 0, "ds4_prefill_tokens_total": 0},
        ),
        (
            "vllm-datadog-mixed-v0-v1-names.prom",
            {"ds4_prompt_tokens_total": 5, "ds4_kv_usage_ratio": 0},
        ),
        ("vllm-chimera-handmade.prom", {"ds4_queue_depth": 3, "ds4_cached_tokens_total": 371460}),
        (
            "vllm-v07-aibrix-docs.prom",
            {"ds4_prompt_tokens_total": 148, "ds4_generated_tokens_total": 955},
        ),
    ],
)
def test_pages_of_others_are_understood(name: str, expected: dict[str, float]) -> None:
    found = {signal: value for (signal, *_), value in signals((SHARED / name).read_text()).items()}
    assert {signal: found[signal] for signal in expected} == expected
