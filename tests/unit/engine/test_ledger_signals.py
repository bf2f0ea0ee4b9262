"""The newest hours of the ledger as samples."""

from __future__ import annotations

import pytest

from ds4watch.cost.attribution import CostPart
from ds4watch.cost.prices import PriceEntry
from ds4watch.cost.recent import RecentHours
from ds4watch.engine.ledger_signals import LedgerSignals
from ds4watch.model.series import Sample
from ds4watch.model.work import Place, Work
from ds4watch.model.worker import WorkerPhase, WorkerView

PRICES = (PriceEntry("*", 2_000_000_000, 0.0),)
VIEWS = tuple(
    WorkerView(id=it, profile="p", models=("m", "alias"), url="", phase=WorkerPhase.READY, since=0)
    for it in ("v", "w")
)
WORK = Work(
    requests=2, prompt_tokens=3000, cached_tokens=1000, again_tokens=500, completion_tokens=1000,
    held_ms=4000, kv_token_ms=7000,
)  # fmt: skip


def recent() -> RecentHours:
    found = RecentHours()
    found.add_money(7200, "w", CostPart.PREFILL, 400_000_000)
    found.add_money(7200, "w", CostPart.DECODE, 600_000_000)
    found.add_money(7200, "v", CostPart.IDLE, 1_000_000_000)
    found.add_work(7300.0, Place("w", "p", "4k"), WORK)
    return found


def by_labels(samples: tuple[Sample, ...], name: str, *labels: str) -> dict[str, float]:
    return {
        "/".join(dict(it.labels).get(label, "") for label in labels): it.value
        for it in samples
        if it.name == name
    }


def samples() -> tuple[Sample, ...]:
    return LedgerSignals(PRICES, "EUR").samples(recent(), VIEWS, 7400.0)


def test_parts_of_the_running_hour_sum_to_what_it_cost_and_say_how_they_are_known() -> None:
    assert by_labels(samples(), "ds4_cost_hour_part", "part", "method") == {
        "prefill/stage_time": 0.3,
        "prefill_again/conversations": 0.1,
        "decode/stage_time": 0.6,
        "idle/phase": 1.0,
    }


def test_bands_have_money_requests_time_and_what_they_keep() -> None:
    found = samples()
    assert by_labels(found, "ds4_cost_hour_context", "band") == {"4k": 1.0}
    assert by_labels(found, "ds4_context_hour_requests", "band") == {"4k": 2.0}
    assert by_labels(found, "ds4_context_hour_seconds", "band") == {"4k": 4.0}
    assert by_labels(found, "ds4_context_hour_kv_token_seconds", "band") == {"4k": 7.0}


def test_opencosts_names_have_both_bases_and_both_phases() -> None:
    found = samples()
    hourly = by_labels(found, "llm_total_hourly_cost", "model_name", "cost_basis")
    assert hourly == {"m/allocation": 4.0, "m/usage": 2.0}
    labels = ("cost_basis", "phase", "allocation_method")
    wanted = {
        "allocation//": 500.0,
        "allocation/prompt/compute_time": 2.0 * 0.4 * 1e6 / 3000,
        "allocation/generation/compute_time": 1200.0,
        "usage//": 250.0,
        "usage/prompt/compute_time": 0.4 * 1e6 / 3000,
        "usage/generation/compute_time": 600.0,
    }
    assert by_labels(found, "llm_cost_per_million_tokens", *labels) == pytest.approx(wanted)
    assert by_labels(found, "llm_cache_savings_fraction", "model_name") == {"m": 1 / 3}


def test_they_are_reckoned_anew_after_ten_seconds() -> None:
    signals, hours = LedgerSignals(PRICES, "EUR"), RecentHours()
    first = signals.samples(hours, VIEWS, 7400.0)
    hours.add_money(7200, "w", CostPart.IDLE, 5)
    assert signals.samples(hours, VIEWS, 7409.0) is first
    assert signals.samples(hours, VIEWS, 7410.0) != first


def test_without_tokens_there_is_no_rate() -> None:
    found = LedgerSignals(PRICES, "EUR").samples(RecentHours(), VIEWS, 7400.0)
    assert {it.name for it in found} == {"llm_total_hourly_cost"}
