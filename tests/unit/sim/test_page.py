from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from ds4watch.sim.http_meter import HttpMeter
from ds4watch.sim.meters import Meters
from ds4watch.sim.page import Page, label_value, number, one_two_five, template

REAL = Path(__file__).parents[2] / "data" / "metrics" / "vllm-0.32-cpu-idle.prom"
REPLACEMENTS = {
    "MODEL": "tiny",
    "PYTHON": 'implementation="CPython",major="3",minor="11",patchlevel="7",version="3.11.7"',
    "BLOCK_SIZE": "128",
    "BLOCKS": "16384",
    "KV_TOKENS": "2097152",
    "KV_BYTES": "1073741824",
    "CONCURRENCY": "256.0",
}


def _page(max_model_len: int = 8192, **replacements: str) -> tuple[Page, Meters]:
    page = Page(template(), replacements=REPLACEMENTS | replacements, max_model_len=max_model_len)
    return page, Meters(page.edges)


def _after_one_chat() -> str:
    page, meters = _page()
    http = HttpMeter(meters)
    http.count(
        "/v1/chat/completions",
        "POST",
        status=200,
        seconds=0.2,
        request_bytes=204,
        response_bytes=3659,
        now=1.0,
    )
    return page.render(meters, http.lines()).decode()


def _series(text: str) -> list[str]:
    """All that is not a value, in order: comments, names, labels."""
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in text.splitlines()]


def test_the_page_is_the_real_workers_line_by_line_but_for_the_values() -> None:
    assert _series(_after_one_chat()) == _series(REAL.read_text(encoding="utf-8"))


def test_a_parser_finds_the_same_names_types_and_labels_as_on_the_real_page() -> None:
    def shape(text: str) -> set[tuple[str, str, str, frozenset[str]]]:
        return {
            (family.name, family.type, sample.name, frozenset(sample.labels))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    assert shape(_after_one_chat()) == shape(REAL.read_text(encoding="utf-8"))


def test_what_is_metered_comes_out_in_its_own_line() -> None:
    page, meters = _page()
    meters.add("vllm:prompt_tokens_total", 12_345_678)
    meters.add('vllm:prompt_tokens_by_source_total{source="local_cache_hit"}', 7)
    meters.put("vllm:kv_cache_usage_perc", 0.25)
    for value in (0.3, 0.31, 9999):
        meters.observe("vllm:e2e_request_latency_seconds", value)
    lines = dict(
        line.rsplit(" ", 1)
        for line in page.render(meters, {}).decode().splitlines()
        if line[0] != "#"
    )
    worker = 'engine="0",model_name="tiny"'
    assert lines[f"vllm:prompt_tokens_total{{{worker}}}"] == "1.2345678e+07"
    source = f'{{{worker},source="local_cache_hit"}}'
    assert lines[f"vllm:prompt_tokens_by_source_total{source}"] == "7.0"
    assert lines[f"vllm:kv_cache_usage_perc{{{worker}}}"] == "0.25"
    bucket = 'vllm:e2e_request_latency_seconds_bucket{engine="0",le="%s",model_name="tiny"}'
    counts = [lines[bucket % edge] for edge in ("0.3", "0.5", "7680.0", "+Inf")]
    assert counts == ["1.0", "2.0", "2.0", "3.0"]
    assert lines[f"vllm:e2e_request_latency_seconds_count{{{worker}}}"] == "3.0"


def test_token_buckets_reach_up_to_the_longest_context() -> None:
    page, meters = _page(max_model_len=300)
    text = page.render(meters, {}).decode()
    edges = [
        line.split('le="')[1].split('"')[0]
        for line in text.splitlines()
        if line.startswith("vllm:request_prompt_tokens_bucket")
    ]
    assert edges == [
        *("1.0", "2.0", "5.0", "10.0", "20.0", "50.0", "100.0", "200.0"),
        "+Inf",
    ]


def test_a_model_name_with_quotes_and_percent_signs_survives() -> None:
    name = 'a"b\\c %s 100%'
    page, meters = _page(MODEL=label_value(name))
    families = text_string_to_metric_families(page.render(meters, {}).decode())
    names = {
        sample.labels["model_name"]
        for family in families
        for sample in family.samples
        if "model_name" in sample.labels
    }
    assert names == {name}


def test_a_reset_starts_all_counts_anew() -> None:
    page, meters = _page()
    empty = page.render(meters, {})
    meters.add("vllm:generation_tokens_total", 5)
    meters.observe("vllm:iteration_tokens_total", 5)
    assert page.render(meters, {}) != empty
    meters.reset()
    assert page.render(meters, {}) == empty


@pytest.mark.parametrize(
    ("limit", "edges"), [(1, (1,)), (9, (1, 2, 5)), (20, (1, 2, 5, 10, 20)), (0, ())]
)
def test_one_two_five(limit: int, edges: tuple[float, ...]) -> None:
    assert one_two_five(limit) == edges


@given(st.one_of(st.floats(0, 1e15, allow_subnormal=False), st.integers(0, 10**12)))
def test_numbers_are_written_as_prometheus_client_writes_them(value: float) -> None:
    assert number(value) == floatToGoString(value)  # type: ignore[no-untyped-call]
