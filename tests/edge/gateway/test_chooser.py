"""What is held against a worker, and what is not."""

from __future__ import annotations

import logging

import pytest

from ds4watch.config.routing import RoutingSettings
from ds4watch.gateway.call import Call
from ds4watch.gateway.chooser import Chooser
from ds4watch.gateway.inflight import Inflight
from ds4watch.model.usage import RequestOutcome, RetryReason, Usage
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.routing.choice import Ask, RouteDecision
from tests.edge.gateway.support import board_of


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.at = 5000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Fleet:
    """A chooser over some workers, the first of which is watched."""

    def __init__(self, *names: str) -> None:
        self.clock = Clock()
        self.draws = [0.9]
        self.inflight = Inflight(lambda: None)
        self.chooser = Chooser(
            RoutingSettings(), self.inflight, self.clock, draw=self._draw, processes=1
        )
        ready = WorkerPhase.READY
        views = [WorkerView(name, "p", ("m",), "", ready, since=0.0) for name in names]
        self.chooser.apply(board_of(*views), frozenset())

    def _draw(self) -> float:
        return self.draws.pop() if len(self.draws) > 1 else self.draws[0]

    def answers(
        self,
        count: int,
        *,
        first_byte: float = 0.1,
        outcome: RequestOutcome = RequestOutcome.OK,
        stream: bool = True,
        tokens: int = 10,
        is_long: bool = False,
    ) -> None:
        for _ in range(count):
            call = self.call(stream=stream, is_long=is_long)
            call.first_byte_at = self.clock.at + first_byte
            call.usage = Usage(10, 0, tokens)
            call.end(200, outcome)
            self.chooser.answered("w1", call, self.clock.at)

    def fails(self, count: int, reason: RetryReason, call: Call | None = None) -> None:
        for _ in range(count):
            self.chooser.failed("w1", call or self.call(), reason)

    def call(self, *, stream: bool = True, is_long: bool = False) -> Call:
        return Call("id", "/v1/x", self.clock.at, stream=stream, is_long=is_long)

    def aside(self) -> dict[str, str]:
        return self.chooser.aside()

    def takes(self) -> set[str]:
        taken = set()
        for draw in (0.1, 0.3, 0.6, 0.9):
            self.draws = [draw]
            found = self.chooser.choose(Ask("m"))
            assert isinstance(found, RouteDecision)
            taken.add(found.worker.id)
        return taken


def test_errors_set_a_worker_aside_it_is_told_once_and_probes_bring_it_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    fleet = Fleet("w1", "w2", "w3")
    fleet.answers(20)
    fleet.fails(5, RetryReason.STATUS_5XX)
    assert fleet.aside() == {"w1": "errors"}
    assert fleet.takes() == {"w2", "w3"}
    assert caplog.text.count("worker w1 is set aside for 10 s: 3 of 23 requests failed") == 1
    fleet.clock.at += 10
    fleet.draws = [0.9, 0.01]  # the trickle
    probe = fleet.chooser.choose(Ask("m"))
    assert isinstance(probe, RouteDecision)
    assert probe.worker.id == "w1"
    fleet.answers(3)
    assert fleet.aside() == {}
    assert fleet.takes() == {"w1", "w2", "w3"}
    assert caplog.text.count("worker w1 is back") == 1


@pytest.mark.parametrize("reason", [RetryReason.STATUS_5XX, RetryReason.BROKEN])
def test_what_is_the_workers_fault_counts(reason: RetryReason) -> None:
    fleet = Fleet("w1", "w2")
    fleet.answers(20)
    fleet.fails(3, reason)
    assert fleet.aside() == {"w1": "errors"}


def test_an_error_told_in_a_stream_after_its_200_counts() -> None:
    fleet = Fleet("w1", "w2")
    fleet.answers(20)
    fleet.answers(3, outcome=RequestOutcome.UPSTREAM_ERROR)
    assert fleet.aside() == {"w1": "errors"}


def test_a_full_worker_and_a_clients_mistake_are_nothing_against_it() -> None:
    fleet = Fleet("w1", "w2")
    fleet.answers(20)
    fleet.fails(30, RetryReason.BUSY)
    fleet.answers(30, outcome=RequestOutcome.CLIENT_ERROR, first_byte=9.0)
    assert fleet.aside() == {}


def test_slow_first_bytes_set_it_aside() -> None:
    fleet = Fleet("w1", "w2")
    fleet.answers(20)
    fleet.answers(3, first_byte=1.5)
    assert fleet.aside() == {"w1": "slow"}


def test_long_answers_and_long_prompts_are_nothing_against_it() -> None:
    fleet = Fleet("w1", "w2")
    fleet.answers(20)
    fleet.answers(30, stream=False, first_byte=60.0, tokens=1000)
    fleet.answers(30, is_long=True, first_byte=20.0)
    begun = fleet.call()
    begun.response = object()  # type: ignore[assignment]
    fleet.fails(30, RetryReason.TIMEOUT, begun)  # it was generating when its time was up
    assert fleet.aside() == {}


def test_clients_that_leave_before_a_first_byte_that_is_late_count_as_slow() -> None:
    fleet = Fleet("w1", "w2")
    fleet.answers(20)
    began_at = fleet.clock.at
    fleet.chooser.left("w1", fleet.call(), began_at)  # left at once: of its own accord
    fleet.clock.at += 2
    for call in (fleet.call(stream=False), fleet.call(is_long=True)):
        fleet.chooser.left("w1", call, began_at)
    assert fleet.aside() == {}
    for _ in range(3):
        fleet.chooser.left("w1", fleet.call(), began_at)
    assert fleet.aside() == {"w1": "slow"}


def test_a_dead_worker_is_out_after_one_failure_and_comes_back_with_time() -> None:
    fleet = Fleet("w1", "w2")
    fleet.fails(1, RetryReason.CONNECT)
    assert fleet.aside() == {"w1": "unreachable"}
    assert fleet.takes() == {"w2"}
    fleet.clock.at += 1.5
    assert fleet.aside() == {}
    assert fleet.takes() == {"w1", "w2"}
    fleet.fails(1, RetryReason.CONNECT)
    fleet.clock.at += 1.5
    assert fleet.takes() == {"w2"}  # twice as long
    fleet.answers(1)
    assert fleet.takes() == {"w1", "w2"}


def test_the_share_of_one_that_has_started_grows_without_a_new_board() -> None:
    fleet = Fleet("w1", "w2")
    new = WorkerView("new", "p", ("m",), "", WorkerPhase.READY, since=fleet.clock.at)
    others = [WorkerView(it, "p", ("m",), "", WorkerPhase.READY, since=0.0) for it in ("w1", "w2")]
    fleet.chooser.apply(board_of(*others, new), frozenset())
    assert fleet.chooser.shown()["starting"] == {"new": 0.1}
    fleet.clock.at += 15
    fleet.chooser.choose(Ask("m"))
    assert fleet.chooser.shown()["starting"] == {"new": pytest.approx(0.55)}
    fleet.clock.at += 16
    fleet.chooser.choose(Ask("m"))
    assert fleet.chooser.shown()["starting"] == {}


def test_a_new_board_does_not_forget_who_is_busy() -> None:
    fleet = Fleet("w1", "w2")
    fleet.draws = [0.0]
    fleet.inflight.begin_attempt("w1")
    for version in (2, 3):
        views = [
            WorkerView(name, "p", ("m",), "", WorkerPhase.READY, since=0.0) for name in ("w1", "w2")
        ]
        fleet.chooser.apply(board_of(*views, version=version), frozenset())
        route = fleet.chooser.choose(Ask("m"))
        assert isinstance(route, RouteDecision)
        assert route.worker.id == "w2"


def test_one_that_says_it_is_full_is_passed_over_for_a_moment() -> None:
    fleet = Fleet("w1", "w2")
    fleet.fails(3, RetryReason.BUSY)
    assert fleet.chooser.shown()["busy"] == ["w1"]
    for draw in (0.0, 0.9):
        fleet.draws = [draw]
        route = fleet.chooser.choose(Ask("m"))
        assert isinstance(route, RouteDecision)
        assert route.worker.id == "w2"
    assert fleet.chooser.aside() == {}
    fleet.clock.at += 0.6
    assert fleet.chooser.shown()["busy"] == []
    fleet.fails(1, RetryReason.BUSY)
    fleet.answers(1)
    assert fleet.chooser.shown()["busy"] == []


@pytest.mark.parametrize("reason", [RetryReason.BUSY, RetryReason.CONNECT])
def test_after_a_pause_one_request_is_let_through_and_the_next_after_another(
    reason: RetryReason,
) -> None:
    fleet = Fleet("w1", "w2")
    fleet.fails(1, reason)
    fleet.clock.at += 1.1
    assert fleet.takes() == {"w1", "w2"}
    fleet.chooser.begins("w2")
    assert fleet.takes() == {"w1", "w2"}
    fleet.chooser.begins("w1")
    assert fleet.takes() == {"w2"}
    fleet.answers(1)
    assert fleet.takes() == {"w1", "w2"}


def test_a_full_worker_is_let_back_step_by_step() -> None:
    fleet = Fleet("w1", "w2")
    for _ in range(3):
        fleet.chooser.begins("w1")
        fleet.fails(1, RetryReason.BUSY)
        fleet.clock.at += 2.1
    for _ in range(2):
        assert fleet.takes() == {"w1", "w2"}
        fleet.chooser.begins("w1")
        assert fleet.takes() == {"w2"}
        fleet.answers(1)
    fleet.chooser.begins("w1")
    fleet.answers(1)
    fleet.chooser.begins("w1")
    assert fleet.takes() == {"w1", "w2"}
