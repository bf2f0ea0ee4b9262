"""A started worker that is not the model that its profile was before never becomes ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ds4watch.engine.start_baseline import MOST, MOST_OF_A_PROFILE, PREFIX, Baseline, too_many
from ds4watch.engine.start_check import StartCheck, doubt_samples, is_missed
from ds4watch.fleet.start_answers import answers_apart, start_answers
from ds4watch.fleet.wish import Wanted
from ds4watch.history.rows import AuditEntry
from ds4watch.model.errors import EdgeReason, StoreError, WorkerError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.quality.fingerprint import Step
from tests.edge.clock import SystemClock
from tests.edge.fleet.test_supervisor import Fleet, spec


class Kept:
    """The store of values, in memory."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.values = dict(values or {})
        self.audit: list[AuditEntry] = []
        self.is_full = False

    async def keep_value(self, name: str, value: Any) -> None:
        if self.is_full:
            message = "no more room"
            raise StoreError(message, reason=EdgeReason.FULL)
        self.values[name] = value
        if value is None:
            del self.values[name]

    async def add_audit(self, *entries: AuditEntry) -> None:
        self.audit += entries


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with aiohttp.ClientSession() as session:
        fleet = Fleet(tmp_path, session)
        yield fleet
        await fleet.supervisor.stop()


def check(kept: Kept, *, is_missed: bool = False, device: str = "") -> StartCheck:
    return StartCheck(
        kept.values, kept, SystemClock(), is_missed=lambda _: is_missed, device=lambda: device
    )


async def start(fleet: Fleet, *names: str) -> None:
    specs = [spec(name=name) for name in names]
    await fleet.supervisor.start(specs, FleetSnapshot(UnixSeconds(0)))


def shifted(values: Mapping[str, Any], nats: float) -> dict[str, Any]:
    """Return baselines whose log-probabilities all lie elsewhere."""

    def moved(prompts: Any) -> Any:
        return [
            [[token, {k: v - nats for k, v in top.items()}] for token, top in prompt]
            for prompt in prompts
        ]

    return {name: it | {"given": moved(it["given"])} for name, it in values.items()}


async def restarted(fleet: Fleet, judge: StartCheck) -> None:
    """Start the worker anew, to be judged by another."""
    fleet.supervisor.deeds.vetting = judge
    await fleet.wish(Wanted(restart_at=SystemClock().now()))
    await fleet.until(WorkerPhase.DRAINING)


async def test_the_first_start_sets_what_others_have_to_give_and_they_do(fleet: Fleet) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0", "sim-1")
    await fleet.until(WorkerPhase.READY)
    await fleet.journal.until(
        lambda: all(it.phase is WorkerPhase.READY for it in fleet.supervisor.views())
    )
    [name] = kept.values
    assert name.startswith(PREFIX)
    assert len(name) <= 63, "longer ones no PostgreSQL takes"
    assert kept.values[name]["profile"] == "sim"
    assert kept.audit[0].summary.startswith("start check of sim: checksum ")
    again = check(kept)
    fleet.supervisor.deeds.vetting = again
    await fleet.wish(Wanted(restart_at=SystemClock().now()))
    await fleet.until(WorkerPhase.DRAINING)
    await fleet.until(WorkerPhase.READY)
    assert len(kept.audit) == 1


async def test_a_worker_that_gives_something_else_is_quarantined_until_a_person_accepts_it(
    fleet: Fleet,
) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    kept.values = shifted(kept.values, 0.5)
    judge = check(kept)
    fleet.supervisor.deeds.vetting = judge
    await fleet.wish(Wanted(restart_at=SystemClock().now()))
    await fleet.until(WorkerPhase.QUARANTINED)
    assert "it is not the model that sim was before" in fleet.view.reason
    assert "ds4watch quality accept sim" in fleet.view.reason
    assert await judge.forget("sim", who="ops", why="converted anew")
    assert not await judge.forget("sim", who="ops", why="twice")
    assert kept.audit[-1].who == "ops"
    await fleet.wish(Wanted(pardon_at=SystemClock().now()))
    await fleet.until(WorkerPhase.READY)
    assert len(kept.values) == 1


async def test_a_worker_that_no_longer_tells_log_probabilities_does_not_serve(
    fleet: Fleet,
) -> None:
    kept = Kept()
    judge = check(kept)
    assert judge.judge_silent(spec(name="sim-0"), "400") == "", "nobody knows that it ever did"
    fleet.supervisor.deeds.vetting = judge
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    why = judge.judge_silent(spec(name="sim-0"), "400: out of range")
    assert why.startswith("it tells no log-probabilities, as sim did before (400: out of range)")
    assert await judge.forget("sim", who="ops", why="it has none")
    assert judge.judge_silent(spec(name="sim-0"), "400") == ""


async def test_log_probabilities_that_are_no_numbers_are_never_right_with_nothing_to_compare_with(
    fleet: Fleet,
) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept, is_missed=True)
    damaged = spec("--fault=no_numbers", name="sim-0")
    await fleet.supervisor.start([damaged], FleetSnapshot(UnixSeconds(0)))
    await fleet.until(WorkerPhase.QUARANTINED)
    assert fleet.view.reason.startswith("its log-probabilities are no numbers, as of damaged")
    assert "Out of range float values" in fleet.view.reason
    assert "`ds4watch workers start sim-0`" in fleet.view.reason
    assert WorkerPhase.READY not in fleet.journal.story
    assert kept.values == {}, "what it gave is nothing to compare others with"


async def test_a_store_that_is_full_keeps_no_worker_from_serving(fleet: Fleet) -> None:
    kept = Kept()
    kept.is_full = True
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)


async def test_another_gpu_gives_other_numbers_which_is_told_and_the_worker_serves(
    fleet: Fleet,
) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept, device="L4")
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    kept.values = shifted(kept.values, 2.0)
    judge = check(kept, device="H100")
    await restarted(fleet, judge)
    await fleet.until(WorkerPhase.READY)
    assert "with another engine, GPU or batch than before" in kept.audit[-1].summary
    [sample] = doubt_samples(judge.doubts)
    assert dict(sample.labels) == {"worker": "sim-0", "profile": "sim"}
    assert len(kept.values) == 2
    await restarted(fleet, check(kept, device="H100"))
    await fleet.until(WorkerPhase.READY)
    assert len(kept.audit) == 2, "from then on it is compared with what it gave there"
    assert await judge.forget("sim", who="ops", why="new machines")
    assert doubt_samples(judge.doubts) == []
    assert kept.values == {}


async def test_another_gpu_that_gives_the_same_is_not_worth_a_word(fleet: Fleet) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept, device="L4")
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    judge = check(kept, device="H100")
    await restarted(fleet, judge)
    await fleet.until(WorkerPhase.READY)
    assert "another engine" not in kept.audit[-1].summary
    assert not judge.doubts


@pytest.mark.parametrize(
    ("nats", "is_missed", "ends"),
    [
        (0.1, True, WorkerPhase.READY),
        (0.1, False, WorkerPhase.QUARANTINED),
        (0.5, True, WorkerPhase.QUARANTINED),
    ],
)
async def test_a_doubt_keeps_no_worker_from_serving_that_is_missed(
    fleet: Fleet, nats: float, ends: WorkerPhase, *, is_missed: bool
) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    kept.values = shifted(kept.values, nats)
    judge = check(kept, is_missed=is_missed)
    await restarted(fleet, judge)
    await fleet.until(ends)
    assert bool(judge.doubts) is (ends is WorkerPhase.READY)
    if judge.doubts:
        assert "it is missed, so it serves" in kept.audit[-1].summary


def test_a_worker_is_missed_while_its_profile_or_the_fleet_has_too_few_that_are_ready() -> None:
    def view(profile: str, phase: WorkerPhase = WorkerPhase.READY) -> WorkerView:
        return WorkerView("w", profile, ("m",), "http://x", phase, 0.0)

    fleet = [view("a"), view("a"), view("b", WorkerPhase.WARMING)]
    assert is_missed(fleet, "b", min_hot=1)
    assert not is_missed(fleet, "a", min_hot=2)
    assert is_missed(fleet, "a", min_hot=3)


async def test_a_prompt_that_fails_is_asked_again_and_one_that_never_answers_is_told() -> None:
    class Failing:
        def __init__(self, *, good_every: int) -> None:
            self.asked = 0
            self._good_every = good_every

        async def greedy(
            self, model: str, prompt: str, *, tokens: int, top: int
        ) -> tuple[Step, ...]:
            del model, prompt, tokens, top
            self.asked += 1
            if self.asked % self._good_every:
                message = "answered 500"
                raise WorkerError(message, reason=EdgeReason.STATUS, retryable=True)
            return ()

    assert await start_answers(Failing(good_every=2), "m") == ((), ())
    assert await answers_apart(Failing(good_every=2), "m") == ((), ())
    with pytest.raises(WorkerError, match="answered 500"):
        await start_answers(Failing(good_every=1000), "m")


async def test_small_damage_does_not_serve_once_it_is_known_how_well_starts_repeat(
    fleet: Fleet,
) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    for starts in (1, 2, 3):
        await restarted(fleet, check(kept))
        await fleet.until(WorkerPhase.READY)
        [baseline] = kept.values.values()
        assert baseline["noise"]["starts"] == starts
        assert baseline["noise"]["nats"] < 0.0005
    kept.values = shifted(kept.values, 0.01)
    judge = check(kept)
    await restarted(fleet, judge)
    await fleet.until(WorkerPhase.QUARANTINED)
    assert "those of 3 good starts by 0.000" in fleet.view.reason


async def test_what_was_kept_before_noise_was_is_read_and_learns_it(fleet: Fleet) -> None:
    kept = Kept()
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    [(name, baseline)] = kept.values.items()
    old = {key: value for key, value in baseline.items() if key not in ("noise", "used_at")}
    kept.values = {name: old}
    await restarted(fleet, check(kept))
    await fleet.until(WorkerPhase.READY)
    assert kept.values[name]["noise"]["starts"] == 1
    assert kept.values[name]["used_at"] > 0


def baseline(profile: str, place: int, used_at: float) -> Baseline:
    given = ((Step("a", {"a": -0.1}),),)
    return Baseline(profile, "model", str(place), given, used_at=UnixSeconds(used_at))


def test_of_a_profile_the_models_and_places_of_the_latest_starts_are_kept() -> None:
    mine = [baseline("p", place, used_at=place) for place in range(MOST_OF_A_PROFILE + 3)]
    other = baseline("q", 0, used_at=0)
    assert sorted(it.place for it in too_many([*mine, other])) == ["0", "1", "2"]
    many = [baseline(f"p{number}", 0, used_at=number) for number in range(MOST + 2)]
    assert {it.profile for it in too_many(many)} == {"p0", "p1"}


async def test_what_is_too_much_leaves_the_store_too(fleet: Fleet) -> None:
    old = [baseline("sim", place, used_at=place) for place in range(MOST_OF_A_PROFILE)]
    kept = Kept({it.name: it.as_json() for it in old})
    fleet.supervisor.deeds.vetting = check(kept)
    await start(fleet, "sim-0")
    await fleet.until(WorkerPhase.READY)
    assert len(kept.values) == MOST_OF_A_PROFILE
    assert old[0].name not in kept.values
    again = check(kept)
    assert await again.forget("sim", who="ops", why="all of them")
    assert kept.values == {}
