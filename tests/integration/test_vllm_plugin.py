"""The plugin in a real vLLM: its counters are vLLM's own, and what the clients were told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import profile_of
from tests.edge.vllm_plugin.built import install_plugin
from tests.integration.workers import Gauge, RealWorker, running

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

SAME = {
    "ds4_prompt_tokens_total": "vllm:prompt_tokens_total",
    "ds4_cached_tokens_total": "vllm:prompt_tokens_cached_total",
    "ds4_generated_tokens_total": "vllm:generation_tokens_total",
    "ds4_prefill_seconds_total": "vllm:request_prefill_time_seconds_sum",
    "ds4_decode_seconds_total": "vllm:request_decode_time_seconds_sum",
    "ds4_preemptions_total": "vllm:num_preemptions_total",
    "ds4_engine_steps_total": "vllm:iteration_tokens_total_count",
    "ds4_finished_requests_total": "vllm:request_success_total",
    "ds4_queue_depth": "vllm:num_requests_waiting",
    "ds4_running_requests": "vllm:num_requests_running",
    "ds4_kv_usage_ratio": "vllm:kv_cache_usage_perc",
}
"""Their only series, or their sum over the reasons, is the same number."""

Page = Mapping[tuple[str, str], float]
"""(name, value of its label `reason`, `finished_reason` or `source`) → value."""


@pytest.fixture(scope="module")
def worker(
    vllm_python: Path, tiny_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealWorker]:
    plugin = install_plugin(tmp_path_factory.mktemp("plugin"))
    tiny = profile_of("tiny-full")
    profile = tiny.model_copy(
        update={
            "environment": {**tiny.environment, "PYTHONPATH": str(plugin)},
            # statistics off: the plugin turns them on again
            "engine_args": (*tiny.engine_args, "--disable-log-stats"),
        }
    )
    with running([profile], python=vllm_python, state_dir=tiny_models) as workers:
        yield workers[profile.name]


async def page_of(session: aiohttp.ClientSession, worker: RealWorker) -> Page:
    async with session.get(f"{worker.url}/metrics") as response:
        text = await response.text()
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for it in family.samples:
            if it.name.startswith(("ds4_", "vllm:")) and "le" not in it.labels:
                labels = it.labels
                kind = labels.get("reason", labels.get("finished_reason", labels.get("source")))
                found[it.name, kind or ""] = it.value
                if it.name.startswith("ds4_"):
                    assert (labels["model"], labels["engine"]) == ("tiny-full", "0")
    return found


async def settled(session: aiohttp.ClientSession, worker: RealWorker, requests: int) -> Page:
    """Return the page once vLLM has counted that many finished requests."""
    async with asyncio.timeout(30):
        while True:
            page = await page_of(session, worker)
            if total(page, "vllm:request_success_total") >= requests:
                return page
            await asyncio.sleep(0.1)


def total(page: Page, name: str) -> float:
    return sum(value for (other, _), value in page.items() if other == name)


async def complete(
    session: aiohttp.ClientSession, worker: RealWorker, prompt: str, max_tokens: int
) -> Any:
    body = {"model": "tiny-full", "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
    async with session.post(f"{worker.url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        return (await response.json())["usage"]


async def test_before_a_request_all_is_there_and_0(
    worker: RealWorker, session: aiohttp.ClientSession
) -> None:
    page = await page_of(session, worker)
    assert {name for name, _ in page} >= {*SAME, "ds4_prefill_tokens_total"}
    assert {total(page, name) for name in SAME} == {0.0}
    assert total(page, "ds4_plugin_errors_total") == 0
    reasons = {kind for name, kind in page if name == "ds4_finished_requests_total"}
    assert reasons == {kind for name, kind in page if name == "vllm:request_success_total"}


async def test_its_counters_are_vllms_and_the_answers_to_the_token(
    worker: RealWorker, session: aiohttp.ClientSession
) -> None:
    before = await page_of(session, worker)
    prompt = "All that a cache can hold of a prompt is whole blocks of it. " * 6
    usages = [await complete(session, worker, prompt, 8) for _ in range(3)]
    usages += await asyncio.gather(
        *(complete(session, worker, f"number {number}", 5 + number) for number in range(12))
    )
    finished = len(usages) + int(total(before, "vllm:request_success_total"))
    page = await settled(session, worker, finished)

    told = {
        "ds4_prompt_tokens_total": sum(usage["prompt_tokens"] for usage in usages),
        "ds4_generated_tokens_total": sum(usage["completion_tokens"] for usage in usages),
        "ds4_cached_tokens_total": sum(
            (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0 for usage in usages
        ),
        "ds4_finished_requests_total": len(usages),
    }
    assert told["ds4_cached_tokens_total"] > 0
    assert {name: total(page, name) - total(before, name) for name in told} == told
    prefill = told["ds4_prompt_tokens_total"] - told["ds4_cached_tokens_total"]
    assert (
        total(page, "ds4_prefill_tokens_total") - total(before, "ds4_prefill_tokens_total")
        == prefill
    )

    for ours, theirs in SAME.items():
        assert total(page, ours) == pytest.approx(total(page, theirs), rel=1e-12), ours
    assert (
        page["ds4_prefill_tokens_total", ""]
        == page["vllm:prompt_tokens_by_source_total", "local_compute"]
    )
    for (name, reason), value in page.items():
        if name == "ds4_finished_requests_total":
            assert value == page["vllm:request_success_total", reason]
    assert total(page, "ds4_plugin_errors_total") == 0


async def test_ds4watch_takes_its_word_and_adds_nothing_of_its_own(
    worker: RealWorker, session: aiohttp.ClientSession
) -> None:
    before = await page_of(session, worker)
    await complete(session, worker, "a word is taken", 4)
    finished = 1 + int(total(before, "vllm:request_success_total"))
    page = await settled(session, worker, finished)
    reading = await Gauge(session, worker).read()
    assert not {name for name, _ in reading.signals} & {name for name, _ in page}
    counted = ("prompt", "prefill", "cached", "generated")
    told = [total(page, f"ds4_{name}_tokens_total") for name in counted]
    assert list(reading.point[1][:4]) == told
    assert reading.load.running == 0


async def test_the_log_says_that_vllm_took_it(worker: RealWorker) -> None:
    text = worker.log.read_text(errors="replace")
    assert "ds4watch -> ds4watch_vllm.stat_logger:Ds4StatLogger" in text
