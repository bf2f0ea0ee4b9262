"""Whether workers' metrics can be read."""

from __future__ import annotations

import numpy as np
import pytest

from ds4watch.engine.sight import BLIND_AFTER_SECONDS, Seeing, Sight, Sights, went_blind
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, ScrapeResult, Target
from ds4watch.model.worker import WorkerPhase, WorkerView

NOTHING = np.empty(0)


def worker(phase: WorkerPhase = WorkerPhase.READY) -> WorkerView:
    return WorkerView("a-0", "a", ("a",), "http://127.0.0.1:1", phase, since=0.0)


def page(*, failure: str = "", group: str = "fleet", took: float = 0.0) -> ScrapeResult:
    target = Target("a-0", "http://127.0.0.1:1/metrics", group=group)
    failed = ScrapeFailure(EdgeReason.STATUS, failure) if failure else None
    return ScrapeResult(target, 0.0, 0, NOTHING, failed, took)


@pytest.mark.parametrize(
    ("result", "engines", "seeing", "why"),
    [
        (page(), {"a-0"}, Seeing.MONITORED, ""),
        (page(failure="answered 500"), set(), Seeing.UNMONITORED, "answered 500"),
        (page(), set(), Seeing.NO_ENGINE, "its page has no metrics of an engine"),
    ],
    ids=["a good page", "case 25", "case 26"],
)
def test_a_ready_worker_is_seen_or_it_is_said_why_not(
    result: ScrapeResult, engines: set[str], seeing: Seeing, why: str
) -> None:
    assert Sights().note([result], [worker()], engines, 7.0) == {"a-0": Sight(seeing, 7.0, why)}


def test_what_is_under_way_or_no_worker_of_the_fleet_or_not_ready_changes_nothing() -> None:
    sights = Sights()
    seen = dict(sights.note([page()], [worker()], {"a-0"}, 1.0))
    assert sights.note([], [worker()], {"a-0"}, 2.0) == seen
    assert sights.note([page(failure="x", group="others")], [worker()], set(), 3.0) == seen
    assert sights.note([page(failure="x")], [worker(WorkerPhase.FAILED)], set(), 4.0) == {}


def test_blind_for_another_reason_is_blind_since_the_first() -> None:
    sights = Sights()
    for at, result in enumerate([page(failure="500"), page(failure="503"), page()]):
        found = sights.note([result], [worker()], set(), float(at))
    assert (found["a-0"].seeing, found["a-0"].since) == (Seeing.NO_ENGINE, 0.0)
    seen = sights.note([page()], [worker()], {"a-0"}, 9.0)
    assert seen["a-0"] == Sight(Seeing.MONITORED, 9.0)


@pytest.mark.parametrize(
    ("last", "is_spared"),
    [(page(failure="no answer in time"), True), (page(took=2.0), True), (page(took=0.01), False)],
)
def test_case_8_who_is_about_to_be_judged_is_not_scraped_if_its_pages_are_slow(
    last: ScrapeResult, *, is_spared: bool
) -> None:
    sights, targets = Sights(), (page().target,)
    sights.note([last], [worker()], {"a-0"}, 1.0)
    assert sights.spare(targets, frozenset()) is targets
    assert sights.spare(targets, {"a-0"}) == (() if is_spared else targets)


@pytest.mark.parametrize("seeing", [Seeing.UNMONITORED, Seeing.NO_ENGINE])
def test_case_25_and_26_a_worker_that_went_blind_since_the_level_rose_is_no_calm(
    seeing: Seeing,
) -> None:
    blind = [Sight(Seeing.MONITORED, 0.0), Sight(seeing, 100.0)]
    assert went_blind(blind, 50.0, 100.0 + BLIND_AFTER_SECONDS)
    assert not went_blind(blind, 50.0, 101.0)  # a scrape or two
    assert not went_blind(blind, 150.0, 500.0)  # nobody saw it when the level rose, either
    assert not went_blind(blind[:1], -1.0, 500.0)
