from __future__ import annotations

from ds4watch.engine.gateway_totals import GatewayTotals
from ds4watch.fleet.board import GatewayView
from ds4watch.model.series import Sample
from ds4watch.model.worker import WorkerPhase, WorkerView

WORKER = WorkerView("w1", "tiny", ("m",), "http://127.0.0.1:1", WorkerPhase.READY, since=1.0)


def view(name: str, pid: int, found: int, count: int, total: float) -> GatewayView:
    filtered = {("hush", "mask"): found}
    return GatewayView(name, pid, 1, filtered=filtered, scores={"w1": (count, total)})


def test_counters_add_up_over_gateways_and_go_on_over_their_restarts() -> None:
    totals = GatewayTotals()
    totals.note([view("g0", 1, 2, 4, 3.5), view("g1", 2, 1, 1, 0.5)])
    totals.note([view("g0", 1, 5, 6, 5.0), view("g1", 2, 1, 1, 0.5)])
    totals.note([view("g0", 3, 1, 1, 1.0)])  # a new process begins at zero
    labels = (("profile", "tiny"), ("worker", "w1"))
    assert totals.samples([WORKER]) == [
        Sample("ds4_answer_score_sum_total", labels, 6.5),
        Sample("ds4_answers_scored_total", labels, 8.0),
        Sample("ds4_output_filter_matches_total", (("action", "mask"), ("rule", "hush")), 7.0),
    ]
    # What is no worker of ours has no series.
    assert [it.name for it in totals.samples([])] == ["ds4_output_filter_matches_total"]
