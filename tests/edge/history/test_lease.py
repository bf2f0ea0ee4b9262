"""One of several daemons acts: whatever stops, hangs, is cut off, or has a wrong clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds4watch.engine.leadership import Leadership
from ds4watch.history import audit_rows
from ds4watch.history.lease import VANISHED_SECONDS, LeaseFence, LeaseStore, Replica
from ds4watch.history.ledger_values import SpoolBatch
from ds4watch.history.migrate import Which
from ds4watch.history.rows import AuditEntry, AuditKind, TickCommit
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus, Outcome
from ds4watch.model.errors import EdgeReason, StoreError
from tests.edge.history.helpers import AB, NOW, Bases, FixedClock, PostgresBase, scrape
from tests.postgres import PostgresServer

pytestmark = pytest.mark.needs("postgres")

LEASE_SECONDS = 10.0
NAMES = ("a", "b", "c")


@dataclass
class Clock:
    """A wall clock that somebody may have set wrong."""

    off_seconds: float = 0.0

    def now(self) -> float:
        return time.time() + self.off_seconds

    def monotonic(self) -> float:
        return time.monotonic()


class Wire:
    """The lease's connection, which can be cut."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store
        self.is_cut = False

    async def take(self) -> int | None:
        self.pass_on()
        return await self.store.take()

    async def renew(self, number: int) -> bool:
        self.pass_on()
        return await self.store.renew(number)

    async def release(self, number: int) -> bool:
        self.pass_on()
        return await self.store.release(number)

    def pass_on(self) -> None:
        if self.is_cut:
            raise StoreError("cut", reason=EdgeReason.GONE, retryable=True)


class Daemon:
    """As much of a daemon as leads and acts."""

    def __init__(self, place: Any, name: str, world: World) -> None:
        self.clock = Clock()
        self.rate = 1.0
        self._counted = self._seen = 0.0
        self.fence = LeaseFence(name * 16)
        replica = Replica(self.fence.holder, f"host-{name}", "http://127.0.0.1:9464")
        self.lease = LeaseStore.open(place, replica, self.clock, seconds=LEASE_SECONDS)
        self.wire = Wire(self.lease)
        self.state = StateStore.open(place, self.clock, fence=self.fence)
        self.world = world
        self.leadership = Leadership(
            self.wire, seconds=LEASE_SECONDS, elapsed=self.elapsed, took=self.fence.take
        )

    def elapsed(self) -> float:
        """Count time on a clock that nobody sets, and that may go a little fast or slow."""
        now = self.world.passed_seconds + time.monotonic()
        self._counted += (now - self._seen) * self.rate
        self._seen = now
        return self._counted

    async def look(self) -> None:
        """Do what the loops do five times in a lease."""
        if self.leadership.number is None:
            await self.leadership.take()
        else:
            await self.leadership.renew()

    async def close(self) -> None:
        await self.lease.close()
        await self.state.close()


@dataclass
class World:
    """The daemons, the database and the time that passes for all of them."""

    base: PostgresBase
    passed_seconds: float = 0.0
    count: int = 0
    acted: list[int] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    daemons: dict[str, Daemon] = field(default_factory=dict)
    connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def open(self, names: Sequence[str]) -> World:
        self.daemons = {name: Daemon(self.base.place, name, self) for name in names}
        return self

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask on a connection of the test's own, which stays open."""
        if self.connection is None:
            self.connection = self.base._connect()
        cursor = self.connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        for daemon in self.daemons.values():
            await daemon.close()
        if self.connection is not None:
            self.connection.close()

    async def forget(self) -> None:
        """Begin anew: nobody leads, all wires are whole."""
        self.acted, self.running = [], []
        for daemon in self.daemons.values():
            daemon.wire.is_cut = False
            daemon.leadership.forget()
        self.sql("UPDATE lease SET expires_at = clock_timestamp()")

    def wait(self, seconds: float) -> None:
        """Let time pass, for the server too: what is left of the lease gets less."""
        self.passed_seconds += seconds
        self.sql(f"UPDATE lease SET expires_at = expires_at - interval '{seconds} s'")

    def holder(self) -> tuple[int, str, bool]:
        (found,) = self.sql("SELECT number, holder, expires_at > clock_timestamp() FROM lease")
        return found[0], found[1], found[2]

    async def act(self, daemon: Daemon) -> None:
        """Commit and claim an action, as one who has not noticed anything would."""
        if daemon.wire.is_cut:
            return
        self.count += 1
        plan = ActionPlan(f"plan-{self.count}", ActionKind.SET_LEVEL, "p", "x", daemon.clock.now())
        number = daemon.fence.number
        _, _, is_valid = self.holder()
        try:
            done = await daemon.state.commit_tick(
                TickCommit(at=daemon.clock.now(), plans=(plan,), claims=True)
            )
        except StoreError:
            assert self.holder() != (number, daemon.fence.holder, True)
            return
        assert done.claimed_plans == (plan.id,)
        assert number is not None
        assert is_valid, "acted after the lease ran out"
        assert self.holder()[:2] == (number, daemon.fence.holder)
        self.acted.append(number)
        self.running.append(plan.id)

    async def finish(self, daemon: Daemon) -> None:
        """Write the end of the last action, whoever began it."""
        if daemon.wire.is_cut or not self.running:
            return
        outcome = Outcome(self.running[-1], ActionStatus.APPLIED, daemon.clock.now(), 0.0)
        try:
            await daemon.state.finish_action(outcome)
        except StoreError:
            return
        assert daemon.fence.number == self.holder()[0]
        self.running.pop()

    def assert_one_acts(self) -> None:
        leading = [name for name, it in self.daemons.items() if it.leadership.is_held]
        assert len(leading) <= 1, leading
        assert self.acted == sorted(self.acted)
        for name in leading:
            number, holder, is_valid = self.holder()
            daemon = self.daemons[name]
            assert (number, holder, is_valid) == (daemon.fence.number, daemon.fence.holder, True)

    async def take(self, step: tuple[Any, ...]) -> None:
        kind, name, amount = step
        daemon = self.daemons[name]
        match kind:
            case "wait":
                self.wait(amount)
            case "look":
                await daemon.look()
            case "act":
                await self.act(daemon)
            case "finish":
                await self.finish(daemon)
            case "cut" | "mend":
                daemon.wire.is_cut = kind == "cut"
            case "skew":
                daemon.clock.off_seconds = (amount - 6) * 3600
            case _:
                daemon.elapsed()
                daemon.rate = 1 + (amount - 6) / 100


@pytest.fixture(scope="module")
def world(postgres: PostgresServer) -> Iterator[tuple[World, asyncio.Runner]]:
    base = PostgresBase(postgres.new_database(), Which.STATE)
    with asyncio.Runner() as runner:
        world = World(base).open(NAMES)
        runner.run(world.daemons["a"].lease.take())
        yield world, runner
        runner.run(world.close())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["wait", "wait", "look", "look", "look", "act", "act", "finish", "cut", "mend", "skew",
             "rate"]
        ),
        st.sampled_from(NAMES),
        st.floats(0.1, 12.0).map(lambda it: round(it, 1)),
    ),
    min_size=4,
    max_size=40,
)  # fmt: skip


@given(steps=STEPS)
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_two_daemons_act_over_any_schedule_of_pauses_cuts_and_clocks(
    world: tuple[World, asyncio.Runner], steps: Sequence[tuple[Any, ...]]
) -> None:
    one, runner = world
    for daemon in one.daemons.values():
        daemon.elapsed()
        daemon.rate = 1.0
    runner.run(one.forget())
    for step in steps:
        runner.run(one.take(step))
        one.assert_one_acts()


@pytest.fixture
def pair(postgres_bases: Bases) -> World:
    assert isinstance(postgres_bases.state, PostgresBase)
    return World(postgres_bases.state).open(("a", "b"))


def entry(summary: str) -> AuditEntry:
    return AuditEntry(NOW, AuditKind.DAEMON, "daemon", summary)


async def test_the_lease_waits_for_what_the_last_leader_is_writing(pair: World) -> None:
    first, second = pair.daemons["a"], pair.daemons["b"]
    assert await first.leadership.take()
    with first.state._database._database.writing() as connection:
        await first.leadership.renew()  # waits for nobody who writes
        assert first.leadership.is_held
        pair.wait(LEASE_SECONDS * 2)
        assert not await second.leadership.take()
        assert second.fence.number is None
        audit_rows.insert_audit(connection, [entry("begun before the end")])
    assert await second.leadership.take()
    assert second.fence.number == 2
    with pytest.raises(StoreError, match="number 1, ran out or is another daemon's"):
        await first.state.add_audit(entry("late"))
    await second.state.add_audit(entry("in time"))
    assert pair.sql("SELECT summary FROM audit ORDER BY id") == [
        ("begun before the end",),
        ("in time",),
    ]
    await pair.close()


@pytest.mark.slow
async def test_a_leader_that_vanishes_while_it_writes_is_waited_for_so_long_and_no_longer(
    pair: World,
) -> None:
    first, second = pair.daemons["a"], pair.daemons["b"]
    assert await first.leadership.take()
    with closing(pair.base._connect()) as vanished, vanished.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)",
                       (str(round(VANISHED_SECONDS * 1000)),))  # fmt: skip
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM lease FOR KEY SHARE")
        pair.wait(LEASE_SECONDS * 2)
        began = time.monotonic()
        while not await second.leadership.take():
            assert time.monotonic() - began < VANISHED_SECONDS + 2.0
    await pair.close()


async def test_who_stands_by_writes_nothing_and_is_told_who_leads(pair: World) -> None:
    first, second = pair.daemons["a"], pair.daemons["b"]
    assert await second.lease.seen() is None
    assert await first.leadership.take()
    assert not await second.leadership.take()
    with pytest.raises(StoreError, match="on standby; `ds4watch status` names the one that leads"):
        await second.state.add_audit(entry("no"))
    seen = await second.lease.seen()
    assert seen is not None
    assert (seen.number, seen.host) == (1, "host-a")
    assert 0 < seen.left_seconds <= LEASE_SECONDS
    await pair.close()


async def test_a_daemon_started_again_takes_its_own_lease_at_once_under_a_new_number(
    pair: World,
) -> None:
    first = pair.daemons["a"]
    assert await first.leadership.take()
    again = Daemon(pair.base.place, "a", pair)
    assert await again.leadership.take()
    assert again.fence.number == 2
    with pytest.raises(StoreError):
        await first.state.add_audit(entry("of the one before"))
    assert not await pair.daemons["b"].leadership.take()
    await again.close()
    await pair.close()


async def test_a_lease_let_go_is_taken_at_once(pair: World) -> None:
    first, second = pair.daemons["a"], pair.daemons["b"]
    assert await first.leadership.take()
    await first.leadership.release()
    assert not first.leadership.is_held
    assert await second.leadership.take()
    await pair.close()


async def test_a_lease_that_ran_out_and_nobody_took_goes_on_under_its_number(pair: World) -> None:
    first = pair.daemons["a"]
    assert await first.leadership.take()
    pair.wait(LEASE_SECONDS * 3)
    assert not first.leadership.is_held
    with pytest.raises(StoreError):
        await first.state.add_audit(entry("after the end"))
    assert await first.leadership.regain()
    assert first.fence.number == 1
    await first.state.add_audit(entry("again"))
    await pair.close()


async def test_a_lease_that_another_took_is_not_regained(pair: World) -> None:
    first, second = pair.daemons["a"], pair.daemons["b"]
    assert await first.leadership.take()
    pair.wait(LEASE_SECONDS * 3)
    assert await second.leadership.take()
    assert not await first.leadership.regain()
    assert first.fence.number is None
    await pair.close()


async def test_samples_are_fenced_too_and_wait_in_memory(pair: World) -> None:
    first, second = pair.daemons["a"], pair.daemons["b"]
    assert await first.leadership.take()
    samples = SampleStore.open(pair.base.place, FixedClock(), fence=first.fence)
    samples.intern(AB)
    await samples.append([scrape(NOW, [0, 0])])
    pair.wait(LEASE_SECONDS * 2)
    assert await second.leadership.take()
    await samples.append([scrape(NOW + 1, [1, 0])])
    assert samples.waiting_rows == 1
    back = await samples.read("w1", NOW, NOW + 9)
    assert [one.at for one in back] == [NOW]
    await samples.close()
    await pair.close()


async def test_spools_from_before_belong_to_the_first_who_leads(pair: World) -> None:
    first = pair.daemons["a"]
    old = StateStore.open(pair.base.place, FixedClock())
    await old.commit_tick(TickCommit(at=NOW, spools=(SpoolBatch("g0", 0, 70, ()),)))
    await old.close()
    assert await first.leadership.take()
    stored = await first.state.look(NOW)
    assert stored.spool_offsets == {f"{'a' * 12}/g0": 70}
    await pair.close()


async def test_a_number_is_given_to_one_daemon_however_many_ask_at_once(pair: World) -> None:
    """Nor to the one whose first answer was lost: it asks again, and gets the next number."""
    pair.daemons["c"] = Daemon(pair.base.place, "c", pair)
    stores = [daemon.lease for daemon in pair.daemons.values()]
    given = list[tuple[int, str]]()
    for _ in range(10):
        numbers = await asyncio.gather(*(store.take() for store in stores))
        (winner,) = [at for at, number in enumerate(numbers) if number is not None]
        given.append((numbers[winner] or 0, NAMES[winner]))
        again = await stores[winner].take()  # as if the answer had never come
        assert again is not None
        given.append((again, NAMES[winner]))
        renewed = await asyncio.gather(*(store.renew(again) for store in stores))
        assert [at for at, is_ours in enumerate(renewed) if is_ours] == [winner]
        pair.sql("UPDATE lease SET expires_at = clock_timestamp()")
    assert [number for number, _ in given] == list(range(given[0][0], given[0][0] + 20))
    await pair.close()
