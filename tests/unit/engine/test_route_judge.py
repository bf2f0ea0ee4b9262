from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.cost.prices import PriceEntry
from ds4watch.engine.route_judge import Regret, RouteJudge
from ds4watch.model.usage import RequestOutcome, RequestRecord, Usage
from ds4watch.model.worker import WorkerPhase, WorkerView

PRICES = (PriceEntry("*", 3_600_000_000_000, 0.0),)  # 1 a second
FLEET = tuple(
    WorkerView(name, "p", ("m",), f"http://{name}", WorkerPhase.READY, 0.0) for name in ("a", "b")
)


def record(worker: str, at: float, *, first: float = 0.1, seconds: float = 0.5) -> RequestRecord:
    return RequestRecord(
        id="r", gateway="g0", seq=1, ended_at=at, key="", path="/v1/chat/completions",
        model_asked="m", model_served="m", worker=worker, status=200, outcome=RequestOutcome.OK,
        stream=True, duration_seconds=seconds, queue_seconds=0.0, tried_seconds=0.0,
        first_byte_seconds=first, usage=Usage(100, 0, 20), profile="p",
    )  # fmt: skip


def values(judge: RouteJudge, now: float) -> dict[str, float]:
    return {it.name: it.value for it in judge.samples(FLEET, PRICES, "EUR", now)}


def test_one_in_eight_is_judged_once_what_came_after_it_is_known() -> None:
    judge = RouteJudge()
    judge.note(
        [record("b", 100.0)] * 15 + [record("a", 100.0, first=2.1, seconds=2.5)], slo_seconds=1.2
    )
    assert values(judge, 109.0)["ds4_route_regret_seconds_count"] == 0
    found = values(judge, 111.0)
    # of 16 the 8th and the 16th: one at b, which was good, one at a, which stood in a queue
    assert found["ds4_route_regret_seconds_count"] == 2
    assert found["ds4_route_regret_seconds_sum"] == pytest.approx(2.0)
    buckets = {
        dict(it.labels)["le"]: it.value
        for it in judge.samples(FLEET, PRICES, "EUR", 111.0)
        if it.name.endswith("_bucket")
    }
    assert (buckets["0.0"], buckets["1.0"], buckets["2.5"], buckets["+Inf"]) == (1, 1, 2, 2)
    assert values(judge, 500.0)["ds4_route_regret_seconds_count"] == 2


def test_what_is_told_of_regret_is_its_mean_and_where_95_of_100_lie_below() -> None:
    judge = RouteJudge()
    assert judge.regret() == Regret(0, None, None)
    late = record("a", 100.0, first=2.1, seconds=2.5)
    judge.note([record("b", 100.0)] * 15 + [late], slo_seconds=1.2)
    values(judge, 111.0)
    told = judge.regret()
    assert told.judged == 2
    assert told.mean_seconds == pytest.approx(1.0)
    assert told.p95_seconds == pytest.approx(1.0 + 1.5 * 0.9)


def test_a_choice_without_an_alternative_is_not_counted_as_good() -> None:
    judge = RouteJudge()
    judge.note([record("a", 100.0)] * 16, slo_seconds=1.2)
    assert values(judge, 200.0)["ds4_route_regret_seconds_count"] == 0


@pytest.mark.parametrize(("served", "judged"), [("both", 2), ("narrow", 0)])
def test_of_an_alias_the_workers_of_all_profiles_that_serve_it_could_have_been_chosen(
    served: str, judged: int
) -> None:
    fleet = [
        replace(it, profile=it.id, models=(name, "both"))
        for it, name in zip(FLEET, ("wide", "narrow"), strict=True)
    ]
    asked = replace(record("b", 100.0), model_asked="both", model_served=served)
    judge = RouteJudge()
    judge.note([asked] * 16, slo_seconds=1.2)
    judge.note([record("a", 100.0)] * 3, slo_seconds=1.2)
    found = {it.name: it.value for it in judge.samples(fleet, PRICES, "EUR", 200.0)}
    assert found["ds4_route_regret_seconds_count"] == judged


def test_tokens_that_came_in_time_bear_the_money_of_all_workers_of_the_profile() -> None:
    judge = RouteJudge()
    judge.note([record("a", 100.0), record("a", 100.0, seconds=1.3)], slo_seconds=1.2)
    judge.note(
        [replace(record("a", 100.0), outcome=RequestOutcome.UPSTREAM_ERROR)], slo_seconds=1.2
    )
    values(judge, -500.0)
    # two workers, 600 s, 1 a second, over 120 tokens
    assert values(judge, 110.0)["ds4_slo_cost_per_thousand_tokens"] == pytest.approx(10_000)
    assert judge.costs == {"p": pytest.approx(10_000)}
    assert "ds4_slo_cost_per_thousand_tokens" not in values(judge, 701.0)


def test_an_answer_that_was_not_streamed_says_nothing_of_its_first_token() -> None:
    judge = RouteJudge()
    judge.note([replace(record(name, 100.0), stream=False) for name in "ab" * 8], slo_seconds=1.2)
    assert values(judge, 200.0)["ds4_route_regret_seconds_count"] == 0


def test_after_a_start_tokens_bear_the_money_of_the_time_since() -> None:
    judge = RouteJudge()
    assert "ds4_slo_cost_per_thousand_tokens" not in values(judge, 50.0)
    judge.note([record("a", 100.0)], slo_seconds=1.2)
    assert "ds4_slo_cost_per_thousand_tokens" not in values(judge, 109.0), "that would be chance"
    assert values(judge, 150.0)["ds4_slo_cost_per_thousand_tokens"] == pytest.approx(10_000 / 6)


def test_a_price_of_the_worker_s_host_counts() -> None:
    judge = RouteJudge()
    judge.note([record("a", 100.0)], slo_seconds=1.2)
    there = [replace(it, url="http://gpu-1:8000") for it in FLEET]
    prices = (PriceEntry("*", 3600 * 10**9, 0.0), PriceEntry("*", 7200 * 10**9, 0.0, "gpu-1"))
    judge.samples(there, prices, "EUR", -500.0)
    found = {it.name: it.value for it in judge.samples(there, prices, "EUR", 110.0)}
    assert found["ds4_slo_cost_per_thousand_tokens"] == pytest.approx(20_000)
