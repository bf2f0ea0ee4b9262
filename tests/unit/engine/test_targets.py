from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.engine.targets import Registry, departures, is_discovered, registry
from ds4watch.model.scrape import Target
from ds4watch.model.worker import WorkerLoad, WorkerPhase, WorkerView

FOUND = (Target("pool/h:1", "http://h:1/metrics", (("job", "pool"),), "pool"),)


def view(name: str = "a", phase: WorkerPhase = WorkerPhase.READY) -> WorkerView:
    return WorkerView(name, "p", ("m",), "http://127.0.0.1:8101", phase, since=0.0)


@pytest.mark.parametrize(
    ("phase", "scraped"),
    [
        (WorkerPhase.READY, True),
        (WorkerPhase.WARMING, True),
        (WorkerPhase.DRAINING, True),
        (WorkerPhase.LOADING, False),
        (WorkerPhase.FAILED, False),
    ],
)
def test_workers_are_scraped_once_their_port_answers(phase: WorkerPhase, scraped: bool) -> None:
    targets = registry(Registry(), [view(phase=phase)], ()).targets
    assert bool(targets) is scraped
    if scraped:
        assert targets[0].url == "http://127.0.0.1:8101/metrics"
        assert dict(targets[0].labels) == {
            "job": "vllm",
            "instance": "127.0.0.1:8101",
            "worker": "a",
            "profile": "p",
        }


def test_while_nothing_changes_the_targets_are_the_same_object() -> None:
    first = registry(Registry(), [view()], FOUND)
    loaded = replace(view(), load=WorkerLoad(running=3.0), since=9.0)
    assert registry(first, [loaded], FOUND) is first
    assert [it.name for it in first.targets] == ["a", "pool/h:1"]


def test_a_change_leaves_the_other_targets_the_same_objects() -> None:
    first = registry(Registry(), [view("a"), view("b")], FOUND)
    second = registry(first, [view("a"), view("b", WorkerPhase.FAILED)], FOUND)
    assert [it.name for it in second.targets] == ["a", "pool/h:1"]
    assert second.targets[0] is first.targets[0]
    assert registry(second, [view("a"), view("b", WorkerPhase.LOADING)], FOUND).targets is (
        second.targets
    )


def test_a_worker_that_does_not_serve_is_silent_and_one_that_is_removed_has_ended() -> None:
    before = registry(Registry(), [view("a"), view("b"), view("c")], FOUND)
    after = registry(before, [view("a", WorkerPhase.FAILED), view("b")], ())
    left = departures(before, after)
    assert [it.name for it in left.silent] == ["a"]
    assert left.ended == ("c", "pool/h:1")


def test_a_worker_removed_while_it_is_silent_has_ended_too() -> None:
    silent = registry(Registry(), [view("a", WorkerPhase.FAILED)], ())
    assert departures(silent, registry(silent, [], ())) == (("a",), ())


@pytest.mark.parametrize("phase", [WorkerPhase.STOPPING, WorkerPhase.ABSENT])
def test_a_worker_stopped_on_purpose_has_ended_once(phase: WorkerPhase) -> None:
    before = registry(Registry(), [view("a"), view("b")], FOUND, {"a"})
    after = registry(before, [view("a", phase), view("b")], FOUND, {"a"})
    left = departures(before, after)
    assert left.ended == ("a",)
    assert [it.name for it in left.silent] == ["a"], "its last samples are not believed any longer"
    later = registry(after, [view("a", phase), view("b", WorkerPhase.FAILED)], FOUND, {"a"})
    assert departures(after, later).ended == ()
    assert departures(Registry(), after).ended == ("a",), "by a daemon that came after it was"


def test_a_failed_worker_that_is_stopped_then_has_ended_and_one_that_drains_has_not() -> None:
    failed = registry(Registry(), [view("a", WorkerPhase.FAILED)], ())
    stopped = registry(failed, [view("a", WorkerPhase.ABSENT)], (), {"a"})
    assert departures(failed, stopped) == (("a",), ())
    drains = registry(Registry(), [view("a", WorkerPhase.DRAINING)], (), {"a"})
    assert departures(registry(Registry(), [view("a")], ()), drains) == ((), ())
    restarts = registry(drains, [view("a", WorkerPhase.STOPPING)], ())
    assert departures(drains, restarts).ended == (), "it was to be stopped, now it starts anew"


def test_a_target_with_other_labels_goes_on_under_its_name() -> None:
    before = registry(Registry(), [], FOUND)
    after = registry(before, [], (replace(FOUND[0], labels=(("job", "other"),)),))
    assert departures(before, after) == ((), ())


def test_discovered_targets_are_told_from_workers_by_their_names() -> None:
    assert is_discovered("pool/h:1")
    assert not is_discovered("tiny-full-0")
