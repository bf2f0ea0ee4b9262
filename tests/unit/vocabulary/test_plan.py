"""What pages of engines mean."""

from __future__ import annotations

import math

import pytest

from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary.compile import Origin
from ds4watch.vocabulary.engines import ENGINES, SGLANG, VLLM
from ds4watch.vocabulary.names import EXPOSED, WORKER_SIGNALS
from tests.unit.vocabulary.pages import (
    DATA,
    SHARED,
    Page,
    everything,
    load,
    missing,
    plan_of,
    signals,
    totals,
)

here = pytest.mark.skipif(not SHARED.exists(), reason="../shared/metrics is not here")


def test_a_real_vllm_032_page_gives_every_signal_with_its_true_value() -> None:
    assert signals((DATA / "vllm-0.32-cpu-loaded.prom").read_text()) == {
        ("ds4_prompt_tokens_total", "tiny"): 67049,
        ("ds4_prefill_tokens_total", "tiny"): 30697,
        ("ds4_cached_tokens_total", "tiny"): 36352,
        ("ds4_generated_tokens_total", "tiny"): 2986,
        ("ds4_prefill_seconds_total", "tiny"): 2.875765401994613,
        ("ds4_decode_seconds_total", "tiny"): 10.512491557005887,
        ("ds4_queue_seconds_total", "tiny"): 1.4712647220003419,
        ("ds4_preemptions_total", "tiny"): 0,
        ("ds4_engine_steps_total", "tiny"): 364,
        ("ds4_finished_requests_total", "tiny", "stop"): 0,
        ("ds4_finished_requests_total", "tiny", "length"): 79,
        ("ds4_finished_requests_total", "tiny", "error"): 0,
        ("ds4_finished_requests_total", "tiny", "repetition"): 0,
        ("ds4_queue_depth", "tiny"): 0,
        ("ds4_running_requests", "tiny"): 0,
        ("ds4_kv_usage_ratio", "tiny"): 0,
    }


def test_a_real_vllm_032_page_misses_nothing_and_is_known_as_that() -> None:
    text = (DATA / "vllm-0.32-cpu-loaded.prom").read_text()
    assert missing(text) == {}
    assert plan_of(text).model == "tiny"
    assert totals(text)[:4] == [67049, 30697, 36352, 2986]
    found = everything(text)
    assert found["ds4_vocabulary_info", "vllm", "v1-0.32"] == 1
    assert found["ds4_cache_block_tokens",] == 128
    assert found["ds4_gpu_memory_granted_ratio",] == 0.92
    assert found["ds4_engine_reported",] == 1
    assert found["ds4_engines",] == 1


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
        "ds4_swapped_requests": 0,
        "ds4_kv_usage_ratio": 0,
        "ds4_cpu_kv_usage_ratio": 0,
    }
    lacking = missing(text)
    assert set(lacking) == {it.signal for it in VLLM.meanings if it.why} - set(found)
    assert "0.7" in lacking["ds4_decode_seconds_total"]
    assert "--enable-prefix-caching" in lacking["ds4_cached_tokens_total"]
    assert ("ds4_vocabulary_info", "vllm", "v0") in everything(text)


def test_case_20_counts_of_engines_add_up_and_the_fullest_cache_counts_and_each_is_kept() -> None:
    page = {
        'vllm:num_requests_running{engine="0",model_name="m"}': 3.0,
        'vllm:num_requests_running{engine="1",model_name="m"}': 5.0,
        'vllm:num_requests_waiting{engine="0",model_name="m"}': 0.0,
        'vllm:num_requests_waiting{engine="1",model_name="m"}': 7.0,
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"}': 0.9,
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"}': 0.2,
        'vllm:generation_tokens_total{engine="0",model_name="m"}': 10.0,
        'vllm:generation_tokens_total{engine="1",model_name="m"}': 32.0,
        'vllm:iteration_tokens_total_count{engine="0",model_name="m"}': 4.0,
        'vllm:iteration_tokens_total_count{engine="1",model_name="m"}': 5.0,
    }
    assert load(page) == WorkerLoad(running=8, waiting=7, kv_usage_ratio=0.9)
    assert signals(page) == {
        ("ds4_running_requests", "m"): 8,
        ("ds4_queue_depth", "m"): 7,
        ("ds4_kv_usage_ratio", "m"): 0.9,
        ("ds4_generated_tokens_total", "m"): 42,
        ("ds4_engine_steps_total", "m"): 9,
        ("ds4_engine_running_requests", "m", "0"): 3,
        ("ds4_engine_running_requests", "m", "1"): 5,
        ("ds4_engine_queue_depth", "m", "0"): 0,
        ("ds4_engine_queue_depth", "m", "1"): 7,
        ("ds4_engine_kv_usage_ratio", "m", "0"): 0.9,
        ("ds4_engine_kv_usage_ratio", "m", "1"): 0.2,
        ("ds4_engine_loop_steps_total", "m", "0"): 4,
        ("ds4_engine_loop_steps_total", "m", "1"): 5,
    }


def test_case_18_the_old_and_the_new_name_on_one_page_are_one_quantity() -> None:
    page = {
        'vllm:gpu_cache_usage_perc{model_name="m"}': 0.8,
        'vllm:kv_cache_usage_perc{model_name="m"}': 0.5,
        'vllm:gpu_prefix_cache_hits_total{model_name="m"}': 7.0,
        'vllm:prefix_cache_hits_total{model_name="m"}': 7.0,
    }
    assert load(page).kv_usage_ratio == 0.5
    assert signals(page)["ds4_cached_tokens_total", "m"] == 7


@pytest.mark.parametrize(
    ("names", "generation"),
    [
        (("num_requests_running", "num_requests_swapped", "gpu_cache_usage_perc"), "v0"),
        (("gpu_cache_usage_perc", "gpu_prefix_cache_hits_total"), "v1-0.8"),
        (("gpu_cache_usage_perc", "kv_cache_usage_perc"), "v1-0.9.2"),
        (("kv_cache_usage_perc", "prefix_cache_hits_total"), "v1-0.11"),
        (("kv_cache_usage_perc", "prompt_tokens_by_source_total"), "v1-2026.02"),
    ],
)
def test_case_18_workers_of_several_versions_give_one_usage_and_are_told_apart(
    names: tuple[str, ...], generation: str
) -> None:
    page = {f'vllm:{name}{{source="local_compute"}}': 0.25 for name in names}
    assert load(page).kv_usage_ratio == 0.25
    assert ("ds4_vocabulary_info", "vllm", generation) in everything(page)


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
        ({"vllm:prompt_tokens_total": 5.0, "vllm:prompt_tokens_cached_total": 64.0}, None),
    ],
)
def test_computed_prompt_tokens_come_from_the_best_source_there_is(
    page: Page, prefill: float | None
) -> None:
    assert signals(page).get(("ds4_prefill_tokens_total", "")) == prefill


@pytest.mark.parametrize(
    ("page", "cached"),
    [
        ({"vllm:prompt_tokens_cached_total": 9.0, "vllm:prefix_cache_hits_total": 50.0}, 9),
        (
            {
                'vllm:prompt_tokens_by_source_total{source="local_compute"}': 11.0,
                'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': 5.0,
                'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': 2.0,
            },
            7,
        ),
        (
            {"vllm:prefix_cache_hits_total": 4.0, "vllm:external_prefix_cache_hits_total": 2.0},
            6,
        ),
        ({"vllm:prefix_cache_hits": 4.0}, 4),
        ({"vllm:gpu_prefix_cache_hit_rate": -1.0}, None),
    ],
)
def test_cached_tokens_come_from_the_best_source_there_is(page: Page, cached: float | None) -> None:
    assert signals(page).get(("ds4_cached_tokens_total", "")) == cached


@pytest.mark.parametrize(("rate", "miss"), [(0.75, 0.25), (0.0, 1.0), (-1.0, None), (1.5, None)])
def test_a_hit_rate_gauge_stands_in_for_counters_and_minus_one_means_off(
    rate: float, miss: float | None
) -> None:
    page = {"vllm:num_requests_running": 0.0, "vllm:gpu_prefix_cache_hit_rate": rate}
    assert signals(page).get(("ds4_cache_miss_ratio", "")) == miss


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
    page = {f'{name}{{engine="0",model_name="m",ReplicaId="{n}"}}': 2.0 for n in "ab"}
    assert signals(page) == {("ds4_generated_tokens_total", "m"): 4}
    assert plan_of(page).engines == ()  # of Ray: they come and go


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
    assert plan_of(page).model == "a"


def test_a_page_of_very_many_models_is_read_within_bounds() -> None:
    page = {f'vllm:num_requests_running{{model_name="m{n}"}}': 1.0 for n in range(500)}
    found = signals(page)
    assert len(found) == 65
    assert found["ds4_running_requests", "other"] == 500 - 64
    assert load(page).running == 500


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"python_info": 1.0, "process_open_fds": 35.0},
        {'vllm:cache_config_info{block_size="16"}': 1.0},
        {"vllm_router_requests_total": 1.0, "vllm_tokenizer_vocab_size": 1.0},
    ],
)
def test_a_page_without_an_engine_is_not_an_idle_engine(page: Page) -> None:
    worker = Origin(is_worker=True)
    assert not plan_of(page, worker).engine
    assert everything(page, worker)["ds4_engine_reported",] == 0
    assert ("ds4_engine_reported",) not in everything(page)
    assert load(page) == WorkerLoad()
    assert all(map(math.isnan, totals(page)))
    assert missing(page) == {}


def test_case_18_what_is_not_reported_is_absent_and_not_zero() -> None:
    assert load({"vllm:num_requests_running": 0.0}) == WorkerLoad(running=0)


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf, -math.inf])
def test_not_a_number_and_less_than_nothing_are_absent(value: float) -> None:
    page = {"vllm:num_requests_waiting": value, "vllm:kv_cache_usage_perc": value}
    assert signals(page) == {}
    assert load(page) == WorkerLoad()


@pytest.mark.parametrize(("usage", "read"), [(1.0, 1.0), (1.01, 1.0), (37.0, None)])
def test_a_share_is_never_over_one(usage: float, read: float | None) -> None:
    assert load({"vllm:kv_cache_usage_perc": usage}).kv_usage_ratio == read


def test_case_17_a_block_longer_than_what_prompts_share_is_told_beside_the_misses() -> None:
    """240 shared tokens never fill a block of 784; the rule CacheBlockLong goes by this."""
    page = {
        'vllm:cache_config_info{block_size="784",enable_prefix_caching="True"}': 1.0,
        "vllm:prompt_tokens_total": 48_000.0,
        "vllm:prefix_cache_queries_total": 48_000.0,
        "vllm:prefix_cache_hits_total": 0.0,
    }
    found = everything(page)
    assert found["ds4_cache_block_tokens",] == 784
    assert found["ds4_cached_tokens_total", ""] == 0


def test_case_12_zero_aborts_are_not_told_as_a_fact() -> None:
    page = {'vllm:request_success_total{finished_reason="abort"}': 0.0}
    assert signals(page) == {}
    page = dict.fromkeys(page, 3.0)
    assert signals(page) == {("ds4_finished_requests_total", "", "abort"): 3}


def test_case_31_adapters_are_those_of_the_newest_lora_series_and_no_instant_is_added() -> None:
    def lora(running: str, waiting: str) -> str:
        return (
            f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="{running}",'
            f'waiting_lora_adapters="{waiting}"}}'
        )

    page = {
        "vllm:num_requests_running": 1.0,
        lora("a,b,c", ""): 1.73e9,
        lora("a,b", "d"): 1.74e9,
        lora("", "x,y,z"): 1.72e9,
    }
    found = signals(page)
    assert found["ds4_lora_running_adapters",] == 2
    assert found["ds4_lora_waiting_adapters",] == 1
    assert max(found.values()) == 2


def test_a_worker_that_exports_our_own_names_is_taken_at_its_word() -> None:
    page = {
        'ds4_running_requests{model="m",engine="0"}': 4.0,
        'ds4_running_requests{model="m",engine="1"}': 3.0,
        'ds4_prompt_tokens_total{model="m"}': 500.0,
        'ds4_cache_miss_ratio{model="m"}': 0.5,
        'vllm:num_requests_running{model_name="m"}': 99.0,
        'vllm:num_requests_waiting{model_name="m"}': 2.0,
        'vllm:prompt_tokens_total{model_name="m"}': 1.0,
        'vllm:prompt_tokens_cached_total{model_name="m"}': 1.0,
    }
    assert load(page) == WorkerLoad(running=7, waiting=2)
    assert totals(page)[0] == 500
    own = {key.name for key in plan_of(page).own}
    assert "ds4_queue_depth" in own
    assert not own & {"ds4_running_requests", "ds4_prompt_tokens_total", "ds4_cache_miss_ratio"}
    shown = [it.name for it in plan_of(page).shown]
    assert shown.count("ds4_running_requests") == 2


def test_engines_are_kept_apart_beside_our_own_names_too() -> None:
    page = {f'ds4_running_requests{{model="m",engine="{n}"}}': 2.0 for n in "01"}
    page |= {f'vllm:num_requests_running{{model_name="m",engine="{n}"}}': 2.0 for n in "01"}
    assert signals(page) == {
        ("ds4_engine_running_requests", "m", "0"): 2,
        ("ds4_engine_running_requests", "m", "1"): 2,
    }
    assert plan_of(page).engines == ("0", "1")
    assert load(page) == WorkerLoad(running=4)


def test_a_page_with_our_names_alone_is_an_engines() -> None:
    page = {'ds4_running_requests{model="m"}': 1.0}
    assert plan_of(page).engine == "ds4"
    assert load(page) == WorkerLoad(running=1)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: str(engine.name))
def test_every_meaning_is_a_named_signal_with_the_workers_labels(engine: object) -> None:
    for meaning in engine.meanings:  # type: ignore[attr-defined]
        signal = EXPOSED[meaning.signal]
        assert signal in WORKER_SIGNALS
        if meaning.sources and meaning.signal != "ds4_cache_block_tokens":
            extra = {meaning.split[1]} if meaning.split else set()
            assert set(signal.labels) == {"worker", "profile", "model"} | extra


def test_sglang_under_load_is_understood() -> None:
    page = {
        'sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0"}': 162.0,
        'sglang:num_running_reqs{model_name="m",tp_rank="1",dp_rank="0"}': 162.0,
        'sglang:num_running_reqs{model_name="m",tp_rank="2",dp_rank="1"}': 40.0,
        'sglang:num_queue_reqs{model_name="m",tp_rank="0"}': 2826.0,
        'sglang:num_queue_reqs{model_name="m",tp_rank="0",priority="1"}': 26.0,
        'sglang:token_usage{model_name="m"}': 0.28,
        'sglang:prompt_tokens_total{model_name="m",is_streaming="true"}': 800.0,
        'sglang:prompt_tokens_total{model_name="m",is_streaming="false"}': 200.0,
        'sglang:cached_tokens_total{model_name="m",cache_source="device"}': 300.0,
        'sglang:generation_tokens_total{model_name="m"}': 70.0,
        'sglang:cache_hit_rate{model_name="m"}': 0.0075,
        'sglang:page_size{model_name="m"}': 64.0,
    }
    assert load(page) == WorkerLoad(running=202, waiting=2826, kv_usage_ratio=0.28)
    found = signals(page)
    assert found["ds4_prefill_tokens_total", "m"] == 700
    assert found["ds4_engine_running_requests", "m", "1"] == 40
    assert everything(page)["ds4_cache_block_tokens",] == 64
    assert set(missing(page)) >= {"ds4_prefill_seconds_total", "ds4_finished_requests_total"}
    assert "SGLang" in missing(page)["ds4_finished_requests_total"]


def test_a_table_says_each_signal_once() -> None:
    for meanings in (VLLM.meanings, SGLANG.meanings):
        names = [meaning.signal for meaning in meanings]
        assert len(names) == len(set(names))


@here
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
        (
            "vllm-ray-prefix-trimmed.prom",
            {"ds4_generated_tokens_total": 300, "ds4_kv_usage_ratio": 5.882698982295764e-05},
        ),
        (
            "sglang-docs-overload.prom",
            {
                "ds4_queue_depth": 2826,
                "ds4_running_requests": 162,
                "ds4_prompt_tokens_total": 8128902,
                "ds4_cache_miss_ratio": 1 - 0.007507552643049313,
            },
        ),
        ("vllm-llmprobe-handmade.prom", {"ds4_running_requests": 2, "ds4_kv_usage_ratio": 0.314}),
    ],
)
def test_pages_of_others_are_understood(name: str, expected: dict[str, float]) -> None:
    found = {signal: value for (signal, *_), value in signals((SHARED / name).read_text()).items()}
    assert {signal: found[signal] for signal in expected} == expected


@here
@pytest.mark.parametrize("name", ["vllm-ray-prefix-trimmed.prom", "vllm-v07-aibrix-docs.prom"])
def test_no_old_page_turns_off_into_a_miss_ratio(name: str) -> None:
    assert not [key for key in signals((SHARED / name).read_text()) if "miss_ratio" in key[0]]
