"""What ds4watch adds to the workers' own numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.cost.attribution import Charge, CostPart
from ds4watch.cost.book import CostBook
from ds4watch.cost.budgets import Budget, BudgetBook, Period, Scope
from ds4watch.cost.hours import HourSum
from ds4watch.engine.cost_signals import (
    anomaly_samples,
    budget_samples,
    cost_samples,
    hour_samples,
)
from ds4watch.engine.signals import (
    ACCURACY_DROP,
    CLASS_LOSS,
    CLASS_LOSS_AT_LEAST,
    QualityReading,
    RequestTotals,
    gpu_samples,
    policy_samples,
    quality_samples,
    worker_state_samples,
)
from ds4watch.engine.status import fleet_signals
from ds4watch.model.series import Sample
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.scrape.gpu import LATE, GpuReading, GpuReport

RECORD = RequestRecord(
    id="r",
    gateway="g0",
    seq=1,
    ended_at=0.0,
    key="",
    path="/v1/completions",
    model_asked="tiny",
    model_served="tiny",
    worker="w",
    status=200,
    outcome=RequestOutcome.OK,
    stream=False,
    duration_seconds=1.2,
    retries=(("v", RetryReason.CONNECT),),
)


def named(samples: list[Sample], name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {sample.labels: sample.value for sample in samples if sample.name == name}


def test_requests_and_retries_are_counted_by_outcome_and_reason() -> None:
    totals = RequestTotals()
    unserved = replace(
        RECORD, outcome=RequestOutcome.SHED, retries=(), model_asked="evil", model_served=""
    )
    totals.add([RECORD, unserved])
    samples = totals.samples()
    assert named(samples, "ds4_gateway_requests_total") == {
        (("model", "tiny"), ("outcome", "ok")): 1.0,
        (("model", "unknown"), ("outcome", "shed")): 1.0,
    }
    retries = named(samples, "ds4_retry_count_total")
    assert retries[(("reason", "connect"),)] == 1.0
    assert sum(retries.values()) == 1.0


def test_a_request_of_just_1200_ms_is_within_the_edge_that_the_rule_goes_by() -> None:
    totals = RequestTotals()
    totals.add([RECORD, replace(RECORD, duration_seconds=1.2001)])
    buckets = named(totals.samples(), "ds4_gateway_request_duration_seconds_bucket")
    assert buckets[(("le", "1.0"),)] == 0.0
    assert buckets[(("le", "1.2"),)] == 1.0
    assert buckets[(("le", "+Inf"),)] == 2.0


def test_shed_and_failed_requests_do_not_make_latency_look_better() -> None:
    totals = RequestTotals()
    totals.add([replace(RECORD, outcome=RequestOutcome.SHED, duration_seconds=0.001)])
    assert named(totals.samples(), "ds4_gateway_request_duration_seconds_count") == {(): 0.0}


def test_each_worker_is_in_one_state() -> None:
    view = WorkerView("w", "p", ("m",), "http://x", WorkerPhase.LOADING, since=0.0)
    samples = worker_state_samples([view])
    assert sum(sample.value for sample in samples) == 1.0
    (state,) = [dict(sample.labels)["state"] for sample in samples if sample.value]
    assert state == "loading"


def test_what_a_gpu_does_not_report_is_absent() -> None:
    unified = GpuReading(0, "u", "GB10")
    full = GpuReading(1, "v", "H200", memory_used_bytes=5, memory_total_bytes=0)
    samples = gpu_samples(GpuReport((unified, full)))
    assert {dict(sample.labels)["gpu"] for sample in samples} == {"1"}
    assert named(samples, "ds4_gpu_memory_total_bytes")[(("gpu", "1"), ("uuid", "v"))] == 0.0


def test_a_mig_instances_memory_is_not_added_to_that_of_the_gpu_it_is_in() -> None:
    whole = GpuReading(0, "u", "H100", memory_used_bytes=70)
    instance = GpuReading(0, "u", "H100", mig="MIG-1", memory_used_bytes=30)
    samples = gpu_samples(GpuReport((whole, instance)))
    assert len(samples) == 2
    assert fleet_signals(samples) == {"ds4_gpu_memory_used_bytes": 70.0}


def test_no_reading_at_all_is_said_in_one_series() -> None:
    assert gpu_samples(GpuReport(why_not=LATE)) == [
        Sample("ds4_gpu_unavailable", (("reading", "all"), ("why", LATE)), 1.0)
    ]


def test_an_old_quality_reading_is_absent() -> None:
    reading = QualityReading("q", "f", "mean_abs_delta_logp", 0.2, at=100.0)
    assert [it.name for it in quality_samples([reading], 200.0, 100.0, 1e6)] == [
        "ds4_quantization_error",
        "ds4_quality_measured_timestamp_seconds",
    ]
    assert quality_samples([reading], 200.1, 100.0, 1e6) == []


def test_a_drop_in_accuracy_has_a_series_of_its_own_and_says_when_it_was_measured() -> None:
    samples = quality_samples(
        [QualityReading("q", "f", ACCURACY_DROP, 1.5, at=100.0)], 200.0, 10.0, 1e6
    )
    pair = (("profile", "q"), ("reference", "f"))
    assert [(it.name, it.labels, it.value) for it in samples] == [
        ("ds4_quality_accuracy_drop_points", pair, 1.5),
        ("ds4_quality_measured_timestamp_seconds", (("metric", ACCURACY_DROP), *pair), 100.0),
    ]


def test_what_golden_questions_say_has_an_age_of_its_own_and_classes_their_series() -> None:
    readings = [
        QualityReading("q", "f", f"{CLASS_LOSS}/mathematics", 1.5, at=100.0),
        QualityReading("q", "f", f"{CLASS_LOSS_AT_LEAST}/mathematics", 0.5, at=100.0),
    ]
    labels = (("class", "mathematics"), ("profile", "q"), ("reference", "f"))
    assert quality_samples(readings, 200.0, 10.0, 100.0) == [
        Sample("ds4_quality_class_loss_points", labels, 1.5),
        Sample("ds4_quality_class_loss_least_points", labels, 0.5),
    ]
    assert quality_samples(readings, 200.1, 1e6, 100.0) == []


def test_requests_in_flight_are_told_only_when_every_gateway_said() -> None:
    known = policy_samples(ServicePolicy(level=2), {"g0": 3, "g1": 4})
    assert named(known, "ds4_gateway_inflight_requests") == {(): 7.0}
    assert named(known, "ds4_degradation_level") == {(("pool", "default"),): 2.0}
    unknown = policy_samples(ServicePolicy(), {"g0": 3, "g1": None})
    assert named(unknown, "ds4_gateway_inflight_requests") == {}
    assert named(policy_samples(ServicePolicy(), {}), "ds4_gateway_inflight_requests") == {}


def test_money_is_shown_in_its_unit() -> None:
    samples = cost_samples(950_000_000, 1_500_000_000, "EUR")
    assert named(samples, "ds4_cost_per_hour") == {(("currency", "EUR"),): 0.95}
    assert named(samples, "ds4_cost_spent_total") == {(("currency", "EUR"),): 1.5}


def test_an_hour_is_shown_beside_what_is_expected_where_that_is_known() -> None:
    day, now = 86_400, 86_400 + 1800.0
    book = CostBook({0: HourSum(3600.0, 2 * 10**9, 10**9)})
    assert hour_samples(book, now, "EUR") == []
    for at in (float(day), now):
        busy = Charge(day, "w", "p", CostPart.BUSY, 10**9)
        book.note([busy], {"w": 0.25}, at, longest_seconds=1800.0)
    samples = hour_samples(book, now, "EUR")
    eur = ("currency", "EUR")
    assert named(samples, "ds4_cost_hour_so_far") == {
        (eur, ("measure", "spent")): 1.0,
        (eur, ("measure", "used")): 1.0,
    }
    spent, used = ((("basis", "yesterday"), eur, ("measure", it)) for it in ("spent", "used"))
    expected = named(samples, "ds4_cost_hour_expected")
    assert (expected[spent], expected[used]) == pytest.approx((1.0, 0.5))
    assert named(samples, "ds4_cost_hour_difference")[used] == pytest.approx(0.5)
    stages = named(samples, "ds4_cost_used_total")
    assert stages[eur, ("profile", "p"), ("stage", "prefill")] == 0.5
    assert stages[eur, ("profile", "p"), ("stage", "decode")] == 1.5


def test_what_is_unlike_earlier_days_is_shown_with_its_money_and_nothing_without_history() -> None:
    monday, day = 4 * 86_400, 86_400
    usual = HourSum(3600.0, 2 * 10**9, 10**9, 10**6, 10**8, 7200.0, 1000, 500_000, 100_000)
    hours = {monday + hour * 3600: usual for hour in range(3 * 24)}
    now = monday + 3 * day + 3599.0
    assert anomaly_samples(CostBook({monday + 3 * day: usual}), now, "EUR") == []
    book = CostBook(hours | {monday + 3 * day: replace(usual, spent=4 * 10**9)})
    shown: list[Sample] = []
    for _ in range(20):  # what was there before is learned hour by hour
        shown = anomaly_samples(book, now, "EUR")
    price = (("currency", "EUR"), ("driver", "price"))
    assert named(shown, "ds4_cost_anomaly_deviation_ratio")[price] == pytest.approx(1.0)
    assert named(shown, "ds4_cost_anomaly_score")[price] > 1
    assert named(shown, "ds4_cost_anomaly_impact")[price] == pytest.approx(2.0)
    traffic = (("currency", "EUR"), ("driver", "traffic"))
    assert named(shown, "ds4_cost_anomaly_score")[traffic] == pytest.approx(0.0)


def test_a_budget_is_shown_with_what_is_spent_and_what_it_will_come_to() -> None:
    book = BudgetBook([Budget(Scope.TOTAL, "", Period.HOUR, 2 * 10**9)])
    book.add_money(0, 10**9)
    labels = (("currency", "EUR"), ("period", "hour"), ("scope", "total"), ("who", "all"))
    shown = budget_samples(book, 1800.0, "EUR")
    assert named(shown, "ds4_cost_budget_limit") == {labels: 2.0}
    assert named(shown, "ds4_cost_budget_spent") == {labels: 1.0}
    assert named(shown, "ds4_cost_budget_projected") == {labels: 2.0}
    assert named(budget_samples(book, 60.0, "EUR"), "ds4_cost_budget_projected") == {}
