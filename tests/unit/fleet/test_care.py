"""Care: one at a time, never below min_hot, only when quiet, and at most a word in a dry run."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.care import (
    REST_SECONDS,
    Care,
    CareLimits,
    Cure,
    Patient,
    is_reset_due,
    step,
    was_reset,
    wishes,
)
from ds4watch.fleet.wish import Wanted, Wish
from ds4watch.model.worker import WorkerPhase

LIMITS = CareLimits(interval_seconds=1800.0, min_hot=2)
READY = WorkerPhase.READY
WHY = "the least memory used rose"


def patient(name: str, why: str = "", phase: WorkerPhase = READY, since: float = 0.0) -> Patient:
    return Patient(name, phase, since, ("m",), why)


THREE = [patient("a", WHY), patient("b", WHY), patient("c")]


def due(patients: list[Patient], limits: CareLimits = LIMITS, *, quiet: bool = True) -> Care:
    care, _ = step(Care(), patients, limits, 0.0, quiet=quiet)
    care, _ = step(care, patients, limits, 1800.0, quiet=quiet)
    return care


def test_nothing_is_done_before_the_interval_is_over() -> None:
    care, _ = step(Care(), THREE, LIMITS, 0.0, quiet=True)
    care, told = step(care, THREE, LIMITS, 1799.0, quiet=True)
    assert (care.under, told) == (None, ())


def test_the_first_in_need_is_drained_and_restarted_then_the_next() -> None:
    care = due(THREE)
    assert wishes(care) == {"a": Wanted(restart_at=1800.0, why=f"care: {WHY}")}
    gone = [patient("a", WHY, WorkerPhase.LOADING), *THREE[1:]]
    care, _ = step(care, gone, LIMITS, 1900.0, quiet=True)
    assert wishes(care).keys() == {"a"}
    back = [patient("a", "", since=2000.0), *THREE[1:]]
    care, told = step(care, back, LIMITS, 2000.0, quiet=True)
    assert told[0].summary == "care is over: ready after 200 s"
    assert wishes(care) == {}
    care, _ = step(care, back, LIMITS, 2060.0, quiet=True)
    assert wishes(care).keys() == {"b"}


def test_who_is_to_be_reset_is_drained_until_its_cache_is_emptied() -> None:
    in_need = [replace(patient("a", WHY), cure=Cure.RESET), *THREE[2:], patient("d")]
    care = due(in_need)
    assert wishes(care)["a"].wish is Wish.DRAINED
    assert not is_reset_due(care, in_need)
    draining = [replace(in_need[0], phase=WorkerPhase.DRAINING), *in_need[1:]]
    assert not is_reset_due(care, draining)
    drained = [replace(draining[0], is_idle=True), *in_need[1:]]
    assert is_reset_due(care, drained)
    care = was_reset(care, 1900.0)
    assert wishes(care) == {}


def test_nobody_is_touched_while_there_is_work() -> None:
    assert due(THREE, quiet=False).under is None


def test_nobody_is_touched_who_is_held() -> None:
    held = [replace(it, held=True) for it in THREE]
    assert due(held).under is None


def test_the_last_one_of_a_model_is_not_touched() -> None:
    lone = [replace(patient("a", WHY), models=("other",)), *THREE[1:], patient("d")]
    assert due(lone).under is None


def test_one_that_does_not_come_back_ends_the_round() -> None:
    care = due(THREE)
    lost = [patient("a", WHY, WorkerPhase.FAILED), *THREE[1:], patient("d")]
    care, told = step(care, lost, LIMITS, 1900.0, quiet=True)
    assert "without success" in told[0].summary
    care, _ = step(care, lost, LIMITS, 2000.0, quiet=True)
    assert care.under is None


def test_a_dry_run_tells_each_of_them_once_and_wishes_nothing() -> None:
    dry = replace(LIMITS, dry_run=True)
    care, _ = step(Care(), THREE, dry, 0.0, quiet=True)
    care, told = step(care, THREE, dry, 1800.0, quiet=True)
    assert [(it.worker, it.is_dry) for it in told] == [("a", True), ("b", True)]
    assert told[0].summary == f"would: restart of a when drained: {WHY}"
    assert wishes(care) == {}
    for at in range(1860, 1800 + int(REST_SECONDS), 60):
        care, told = step(care, THREE, dry, float(at), quiet=True)
        assert told == ()


def test_who_was_cared_for_is_left_alone_for_hours() -> None:
    four = [*THREE, patient("d")]
    care = replace(due(four), under=None, queue=(), treated_at={"a": 1800.0, "b": 1800.0})
    for at in (3600.0, 5400.0, 1700.0 + REST_SECONDS):
        care, _ = step(care, four, LIMITS, at, quiet=True)
        assert care.under is None
    care, _ = step(care, four, LIMITS, 1800.0 + 2 * REST_SECONDS, quiet=True)
    assert care.under is not None


NAMES = tuple("abcdef")
MODELS = st.lists(st.sampled_from(["m", "n"]), min_size=1, unique=True).map(tuple)


@st.composite
def fleets(draw: st.DrawFn) -> list[Patient]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return [
        Patient(
            name,
            draw(st.sampled_from([READY] * 6 + list(WorkerPhase))),
            draw(st.floats(0, 10_000)),
            draw(MODELS),
            draw(st.sampled_from(["", WHY, WHY])),
            draw(st.sampled_from(Cure)),
            is_idle=draw(st.booleans()),
            held=draw(st.integers(0, 9)) == 0,
        )
        for name in names
    ]


@given(
    looks=st.lists(st.tuples(fleets(), st.floats(0, 5000), st.booleans()), max_size=20),
    min_hot=st.integers(0, 4),
    dry_run=st.booleans(),
)
def test_whatever_the_fleet_does_never_two_at_once_and_never_below_min_hot(
    looks: list[tuple[list[Patient], float, bool]], min_hot: int, *, dry_run: bool
) -> None:
    limits = CareLimits(600.0, min_hot, dry_run)
    care, now = Care(), 0.0
    for patients, wait, quiet in looks:
        now += wait
        before = care.under
        care, _ = step(care, patients, limits, now, quiet=quiet)
        assert len(wishes(care)) <= 1
        if care.under is not None and care.under != before:
            assert before is None
            assert quiet
            assert not dry_run
            ready = {it.worker: it for it in patients if it.phase is READY}
            assert not ready[care.under.worker].held
            left = [it for name, it in ready.items() if name != care.under.worker]
            assert len(left) >= max(1, min_hot)
            models = ready[care.under.worker].models
            assert {model for it in left for model in it.models} >= set(models)
        if care.under is not None and is_reset_due(care, patients):
            care = was_reset(care, now)
