"""What the plugin shows of an engine, told by objects that look like vLLM's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ds4watch.vocabulary.names import EXPOSED, WORKER_SIGNALS
from ds4watch_vllm.meter import Before, EngineMeter

RATES_NEED = {
    "ds4_prompt_tokens_total",
    "ds4_prefill_tokens_total",
    "ds4_cached_tokens_total",
    "ds4_generated_tokens_total",
    "ds4_prefill_seconds_total",
    "ds4_decode_seconds_total",
}
LOADS_NEED = {"ds4_running_requests", "ds4_queue_depth", "ds4_kv_usage_ratio"}
ENGINE = {"model": "m", "engine": "0"}


class Reason(IntEnum):
    STOP = 0
    ABORT = 2

    def __str__(self) -> str:
        return self.name.lower()


def iteration(*, finished: tuple[Any, ...] = (), **fields: Any) -> SimpleNamespace:
    known = {"num_prompt_tokens": 10, "num_generation_tokens": 3, "num_preempted_reqs": 1}
    sources = SimpleNamespace(computed=6, cached_tokens=4)
    whole = {**known, "prompt_token_stats": sources, "finished_requests": finished, **fields}
    return SimpleNamespace(**whole)


def scheduler(**fields: Any) -> SimpleNamespace:
    known = {"num_running_reqs": 2, "num_waiting_reqs": 5, "kv_cache_usage": 0.25}
    return SimpleNamespace(**known, **fields)


def request(reason: Reason, prefill: float, decode: float) -> SimpleNamespace:
    return SimpleNamespace(finish_reason=reason, prefill_time=prefill, decode_time=decode)


EMPTY = Before(
    scheduler=SimpleNamespace(num_running_reqs=0, num_waiting_reqs=0, kv_cache_usage=0.0),
    iteration=SimpleNamespace(
        num_prompt_tokens=0,
        num_generation_tokens=0,
        num_preempted_reqs=0,
        prompt_token_stats=SimpleNamespace(computed=0, cached_tokens=0),
    ),
    finished=SimpleNamespace(prefill_time=0.0, decode_time=0.0),
    reasons=tuple(Reason),
)


class Page:
    """A registry, as its page shows it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def meter(self, engine: str = "0") -> EngineMeter:
        return EngineMeter("m", engine, self.registry)

    def families(self) -> list[Any]:
        text = generate_latest(self.registry).decode()
        return list(text_string_to_metric_families(text))

    def values(self, engine: str = "0") -> Mapping[str, float]:
        """Return value by name, with `/reason` behind where there is one."""
        return {
            "/".join(filter(None, (it.name, it.labels.get("reason")))): it.value
            for family in self.families()
            for it in family.samples
            if it.labels.get("engine") == engine and not it.name.endswith("_created")
        }


@pytest.fixture
def page() -> Page:
    return Page()


def test_names_types_and_helps_are_those_of_the_daemons_table(page: Page) -> None:
    page.meter().begin(lambda: EMPTY)
    found = {family.name: family for family in page.families() if "_created" not in family.name}
    named = {
        f"{name}_total" if family.type == "counter" else name: family
        for name, family in found.items()
    }
    errors = named.pop("ds4_plugin_errors_total")
    assert errors.type == "counter"
    assert RATES_NEED | LOADS_NEED <= set(named) <= {signal.name for signal in WORKER_SIGNALS}
    for name, family in named.items():
        assert family.type == EXPOSED[name].type.value
        assert EXPOSED[name].help.startswith(family.documentation.removesuffix("."))
        own = {"reason"} if name == "ds4_finished_requests_total" else set()
        assert {key for it in family.samples for key in it.labels} == {"model", "engine", *own}
        assert {it.labels["model"] for it in family.samples} == {"m"}


def test_before_the_first_request_all_that_can_be_told_is_0(page: Page) -> None:
    page.meter().begin(lambda: EMPTY)
    values = page.values()
    assert len(values) == 14
    assert set(values.values()) == {0.0}
    assert {"ds4_finished_requests_total/stop", "ds4_finished_requests_total/abort"} <= set(values)


def test_steps_add_up(page: Page) -> None:
    meter = page.meter()
    meter.begin(lambda: EMPTY)
    meter.record(scheduler(num_skipped_waiting_reqs=1), iteration())
    done = (request(Reason.STOP, 0.5, 2.0), request(Reason.ABORT, 0.25, 0.0))
    meter.record(None, iteration(finished=done))
    meter.record(scheduler(), None)
    assert page.values() == {
        "ds4_prompt_tokens_total": 20,
        "ds4_prefill_tokens_total": 12,
        "ds4_cached_tokens_total": 8,
        "ds4_generated_tokens_total": 6,
        "ds4_preemptions_total": 2,
        "ds4_engine_steps_total": 2,
        "ds4_prefill_seconds_total": 0.75,
        "ds4_decode_seconds_total": 2.0,
        "ds4_finished_requests_total/stop": 1,
        "ds4_finished_requests_total/abort": 1,
        "ds4_queue_depth": 5,
        "ds4_running_requests": 2,
        "ds4_kv_usage_ratio": 0.25,
        "ds4_plugin_errors_total": 0,
    }


def test_a_request_that_ended_before_its_first_token_takes_nothing_off_the_time(
    page: Page,
) -> None:
    meter = page.meter()
    meter.record(None, iteration(finished=(request(Reason.STOP, 0.5, 1.0),)))
    meter.record(None, iteration(finished=(request(Reason.ABORT, -8000.0, 0.0),)))
    assert page.values()["ds4_prefill_seconds_total"] == 0.5
    assert page.values()["ds4_plugin_errors_total"] == 0


def test_what_a_version_of_vllm_does_not_tell_is_absent_and_the_rest_is_there(page: Page) -> None:
    meter = page.meter()
    old = SimpleNamespace(num_prompt_tokens=10, num_generation_tokens=3)
    meter.begin(lambda: Before(iteration=old))
    done = SimpleNamespace(**vars(old), finished_requests=[SimpleNamespace(finish_reason="stop")])
    meter.record(SimpleNamespace(num_running_reqs=1, gpu_cache_usage=0.5), done)
    assert page.values() == {
        "ds4_prompt_tokens_total": 20,
        "ds4_generated_tokens_total": 6,
        "ds4_engine_steps_total": 1,
        "ds4_finished_requests_total/stop": 1,
        "ds4_running_requests": 1,
        "ds4_kv_usage_ratio": 0.5,
        "ds4_plugin_errors_total": 0,
    }


def test_engines_behind_one_server_are_kept_apart(page: Page) -> None:
    first, second = page.meter("0"), page.meter("1")
    for meter in (first, second):
        meter.begin(lambda: EMPTY)
    second.record(scheduler(), iteration())
    assert page.values("0")["ds4_generated_tokens_total"] == 0
    assert page.values("1")["ds4_generated_tokens_total"] == 3


def test_an_engine_that_starts_anew_in_one_process_counts_on(page: Page) -> None:
    page.meter().record(None, iteration())
    page.meter().record(None, iteration())
    assert page.values()["ds4_prompt_tokens_total"] == 20


class Broken:
    """Raises whatever is asked of it."""

    @property
    def num_prompt_tokens(self) -> int:
        raise RuntimeError("renamed")


def test_after_a_failure_the_plugin_says_so_once_and_takes_its_series_back(
    page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    meter, other = page.meter("0"), page.meter("1")
    for each in (meter, other):
        each.begin(lambda: EMPTY)
        each.record(scheduler(), iteration())
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            meter.record(scheduler(), Broken())
        meter.record(scheduler(), iteration())
    assert page.values("0") == {"ds4_plugin_errors_total": 1}
    assert page.values("1")["ds4_prompt_tokens_total"] == 10
    (line,) = caplog.messages
    assert "vLLM is not affected" in line
    assert "renamed" in line


def test_a_failure_at_the_very_start_is_no_exception_either(page: Page) -> None:
    def before() -> Before:
        raise RuntimeError("moved")

    meter = page.meter()
    meter.begin(before)
    meter.record(scheduler(), iteration())
    assert page.values() == {"ds4_plugin_errors_total": 1}


def test_names_that_somebody_else_has_taken_break_nothing(
    page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    Gauge("ds4_queue_depth", "Another's.", registry=page.registry)
    meter = page.meter()
    meter.begin(lambda: EMPTY)
    meter.record(scheduler(), iteration())
    assert "Duplicated" in caplog.messages[0]
    assert len(caplog.messages) == 1
