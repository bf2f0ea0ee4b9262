"""Provisioning over a fleet that is only told of: what is wished, told and kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ds4watch.cost.forecast import BIN_SECONDS, BINS_PER_DAY
from ds4watch.engine.arrivals import Arrivals, restored
from ds4watch.engine.load_ahead import LoadAhead, ProfileFacts
from ds4watch.engine.provision import Provisioning
from ds4watch.engine.provision_bounds import ProvisionSettings
from ds4watch.fleet.board import GatewayView
from ds4watch.fleet.pool import Facts
from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.history.rows import AuditEntry
from ds4watch.model.action import Hold
from ds4watch.model.usage import RequestOutcome, RequestRecord
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from ds4watch.policy.provision import ProvisioningLimits

DAY = 86_400.0
NOW = 30 * DAY
READY, ABSENT, ASLEEP = WorkerPhase.READY, WorkerPhase.ABSENT, WorkerPhase.ASLEEP
SETTINGS = ProvisionSettings(
    limits=ProvisioningLimits(slots=10, target_ratio=1.0, margin=0.0, stabilise_seconds=10.0),
    profiles={},
    min_hot=1,
    look_seconds=1.0,
    sleeps=True,
)


class Clock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Book:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []
        self.kept: dict[str, Any] = {}

    async def add_audit(self, *entries: AuditEntry) -> None:
        self.entries += entries

    async def keep_value(self, name: str, value: Any) -> None:
        self.kept[name] = value


class Bench:
    """Provisioning with everything around it."""

    def __init__(
        self,
        *views: WorkerView,
        settings: ProvisionSettings = SETTINGS,
        kept: Mapping[str, Any] | None = None,
        spares: tuple[str, ...] = (),
    ) -> None:
        self.views = {view.id: view for view in views}
        self.clock, self.book = Clock(), Book()
        self.wishes: Mapping[str, Wanted] = {}
        self.spares = spares
        self.times = StartTimes()
        ahead = LoadAhead(settings.profiles, self.times, kept or {}, coverage=settings.coverage)
        self.it = Provisioning(self, self.book, settings, ahead, self.clock)

    async def wish(self, by: By, wanted: Mapping[str, Wanted]) -> None:
        assert by is By.PROVISIONING
        self.wishes = wanted

    def facts(self, above: By) -> dict[str, Facts]:
        assert above is By.PROVISIONING
        return {
            name: Facts(can_sleep=name not in self.spares, is_spare=name in self.spares)
            for name in self.views
        }

    async def look(
        self, *, holds: tuple[Hold, ...] = (), unserved: Mapping[str, int] | None = None
    ) -> dict[str, Wish | None]:
        self.clock.at += 5.0
        gateways = [GatewayView("g0", 1, 0, 0, unserved=unserved)] if unserved else []
        fleet = FleetSnapshot(self.clock.at, tuple(self.views.values()))
        await self.it.step(fleet, holds, gateways)
        return {name: it.wish for name, it in self.wishes.items()}

    def told(self) -> list[str]:
        return [f"{it.subject}: {it.summary}" for it in self.book.entries]


def worker(
    name: str,
    phase: WorkerPhase = READY,
    *,
    running: float | None = 0.0,
    waiting: float = 0.0,
    profile: str = "p",
) -> WorkerView:
    load = WorkerLoad(running=running, waiting=waiting) if phase is READY else WorkerLoad()
    return WorkerView(name, profile, (profile,), "", phase, 0.0, load)


def record(
    at: float, name: str = "a", outcome: RequestOutcome = RequestOutcome.OK
) -> RequestRecord:
    return RequestRecord("r", "g0", 1, at + 2.0, "", "/v1", "p", "p", name, 200, outcome, True, 2.0)


async def test_load_calls_a_sleeper_and_all_values_are_in_the_audit() -> None:
    bench = Bench(worker("a", running=10.0, waiting=5.0), worker("b", ASLEEP))
    assert await bench.look() == {"a": Wish.READY, "b": Wish.READY}
    (entry,) = bench.book.entries
    assert entry.summary == (
        "called by provisioning: load asks for 2, 2 are wanted: 15 requests are open"
    )
    assert entry.detail["in_flight"] == 15.0
    assert entry.detail["asks"] == {"floor": 1, "load": 2}
    assert entry.detail["dry_run"] is False


async def test_in_a_dry_run_nothing_is_wished_and_it_is_told_once() -> None:
    settings = replace(SETTINGS, dry_until=math.inf)
    bench = Bench(worker("a", running=15.0), worker("b", ASLEEP), settings=settings)
    for _ in range(5):
        assert await bench.look() == {}
    (told,) = bench.told()
    assert told.startswith("b: would be called, in the dry run only told: load asks for 2")


async def test_silence_of_one_worker_lets_nobody_rest() -> None:
    bench = Bench(worker("a"), worker("b", running=None))
    for _ in range(5):
        await bench.look()
    assert not bench.book.entries
    bench.views["b"] = worker("b")
    for _ in range(3):
        await bench.look()
    assert [it.wish for it in bench.wishes.values()].count(Wish.ASLEEP) == 1


async def test_requests_that_found_nobody_call_a_spare_where_none_is_up() -> None:
    bench = Bench(worker("a", profile="q"), worker("s", ABSENT), spares=("s",), settings=SETTINGS)
    assert (await bench.look())["s"] is Wish.STOPPED
    assert (await bench.look(unserved={"p": 3}))["s"] is Wish.READY
    assert "requests find nobody" in bench.told()[-1]


async def test_a_hold_leaves_a_worker_as_it_was_wished() -> None:
    bench = Bench(worker("a", running=15.0), worker("b", ASLEEP))
    hold = Hold("*", NOW + 3600, "me", "test", NOW)
    assert await bench.look(holds=(hold,)) == {}
    assert await bench.look() == {"a": Wish.READY, "b": Wish.READY}


async def test_two_profiles_share_the_ceiling_and_it_is_told_once() -> None:
    settings = replace(SETTINGS, max_workers=3)
    bench = Bench(
        worker("a", running=30.0),
        worker("b", ASLEEP),
        worker("c", running=30.0, profile="q"),
        worker("d", ASLEEP, profile="q"),
        settings=settings,
    )
    for _ in range(3):
        wishes = await bench.look()
    assert [wishes["b"], wishes["d"]].count(Wish.READY) == 1
    refused = [it for it in bench.told() if "none is called" in it]
    assert len(refused) == 2


async def test_the_last_of_a_profile_with_sleepers_stays() -> None:
    bench = Bench(worker("a"), worker("b", profile="q"), worker("c", profile="q"))
    for _ in range(10):
        wishes = await bench.look()
    assert wishes["a"] is Wish.READY
    assert sorted(str(wishes[it]) for it in "bc") == ["asleep", "ready"]


def history(counts: float, days: int = 20) -> dict[str, Any]:
    """Return rows of so many requests a bin from noon to one each day, else one."""
    found = {}
    for day in range(30 - days, 30):
        bins = np.ones(BINS_PER_DAY)
        bins[144:156] = counts
        found[f"arrivals:p:{day % 30}"] = {
            "profile": "p",
            "day": day,
            "counts": [int(it) for it in bins],
            "service_seconds": 2.0,
        }
    return found


async def test_before_the_hour_that_was_busy_each_day_a_worker_is_called_a_start_ahead() -> None:
    settings = replace(SETTINGS, profiles={"p": ProfileFacts(10.0, start_seconds=240.0)})
    bench = Bench(
        worker("a"), worker("s", ABSENT), spares=("s",), kept=history(3000.0), settings=settings
    )
    bench.clock.at = NOW + DAY / 2 - 900
    assert (await bench.look())["s"] is Wish.STOPPED
    bench.clock.at = NOW + DAY / 2 - 235
    assert (await bench.look())["s"] is Wish.READY
    assert "forecast asks for 2" in bench.told()[-1]
    found = bench.it.as_json(2.0)["profiles"][0]
    assert len(found["points"]) == 24
    assert found["points"][2]["workers"] == 2
    samples = {it.name: it.value for it in bench.it.samples()}
    assert samples["ds4_forecast_lead_seconds"] == 240.0
    assert samples["ds4_forecast_requests_per_second"] == 10.0


def test_arrivals_are_counted_when_they_came_and_what_nobody_watched_is_a_gap() -> None:
    counts = Arrivals()
    counts.watch(NOW)
    counts.add(NOW + 10)
    counts.add(NOW - BIN_SECONDS)
    counts.watch(NOW + 3 * BIN_SECONDS)
    found = counts.history(NOW + 4 * BIN_SECONDS)
    assert found is not None
    values = found.values[-5:].tolist()
    assert values[:2] == [1.0, 1.0]
    assert all(math.isnan(it) for it in values[2:4])
    assert values[4] == 0.0


def test_what_is_kept_is_read_again_and_rubbish_is_left_out() -> None:
    ahead = LoadAhead({}, StartTimes(), {}, coverage=0.8)
    ahead.note([record(NOW), record(NOW, "")], lambda _: "p", lambda _: False)
    rows = dict(ahead.rows())
    assert len(rows) == 1
    assert not dict(ahead.rows()), "nothing new"
    again = restored({**rows, "arrivals:x:1": {"day": "?"}, "other": 1})
    assert list(again) == ["p"]
    found = again["p"].history(NOW + BIN_SECONDS)
    assert found is not None
    assert found.values[-1] == 2.0
    assert again["p"].service_seconds == 2.0
