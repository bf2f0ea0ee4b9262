"""What only a server does: refuse us, go away, hang, come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ds4watch.history.ledger_values import CostRow
from ds4watch.history.line import Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.place import Server
from ds4watch.history.postgres import PostgresHome
from ds4watch.history.rows import TickCommit
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.errors import ConfigError, EdgeReason, StoreError
from tests.edge.history.helpers import AB, NOW, Bases, FixedClock, PostgresBase, scrape
from tests.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.needs("postgres")
COST = CostRow(NOW, "w1", "p", "busy", 7)


def samples_at(bases: Bases) -> SampleStore:
    store = SampleStore.open(bases.samples.place, FixedClock(), waiting_results=5)
    store.intern(AB)
    return store


def state_at(bases: Bases) -> StateStore:
    return StateStore.open(
        bases.state.place, FixedClock(), busy_timeout_seconds=0.1, answer_timeout_seconds=0.3
    )


def database_of(bases: Bases) -> str:
    assert isinstance(bases.state, PostgresBase)
    return bases.state.url.rpartition("/")[2]


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    while not await look():
        await asyncio.sleep(0.02)


async def commits(store: StateStore, at: float) -> bool:
    try:
        await store.commit_tick(TickCommit(at=at))
    except StoreError:
        return False
    return True


def refusal(url: str) -> str:
    """Return the one line that a person gets for an address."""
    with pytest.raises(ConfigError) as caught:
        StateStore.open(Server(url), FixedClock())
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wrong_password_is_one_line_without_it(postgres: PostgresServer) -> None:
    url = postgres.url("postgres", password="wr0ng-word")
    assert refusal(url) == (
        f"store.url: postgresql://ds4@127.0.0.1:{postgres.port}/postgres: "
        'password authentication failed for user "ds4" '
        "(set the password by PGPASSWORD, in ~/.pgpass, or in the address)"
    )
    assert "wr0ng" not in refusal(url)


def test_a_database_that_is_not_there_is_one_line_with_a_way_out(
    postgres: PostgresServer,
) -> None:
    said = refusal(postgres.url("nowhere"))
    assert 'database "nowhere" does not exist (make it with: createdb nowhere,' in said


def test_a_user_who_may_not_make_schemas_is_told_what_to_grant(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE not_ours ENCODING UTF8")
    said = refusal(postgres.url("not_ours"))
    assert "permission denied for database not_ours" in said
    assert "(GRANT CREATE, CONNECT ON DATABASE not_ours TO ds4)" in said


async def test_schemas_that_an_administrator_made_are_enough(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE prepared ENCODING UTF8")
    for which in Which:
        postgres.execute(f"CREATE SCHEMA {which.schema} AUTHORIZATION ds4", "prepared")
    store = StateStore.open(Server(postgres.url("prepared")), FixedClock())
    assert await commits(store, NOW)
    await store.close()


def test_a_database_that_is_not_in_utf8_is_refused(postgres: PostgresServer) -> None:
    url = postgres.new_database("ENCODING LATIN1 TEMPLATE template0")
    assert "the database is in LATIN1, not UTF8" in refusal(url)


def test_a_server_that_is_too_old_is_refused() -> None:
    server = Server("postgresql://ann:secret@db:5432/fleet")
    home = PostgresHome(server, Which.STATE, Tuning(durable=True, busy_timeout_seconds=1))
    raw: Any = SimpleNamespace(info=SimpleNamespace(server_version=130_014))
    with pytest.raises(ConfigError) as caught:
        home._check(raw)
    assert str(caught.value) == (
        "store.url: postgresql://ann@db:5432/fleet: is PostgreSQL 13; ds4watch needs 14 or newer "
        "(upgrade the server)"
    )


def test_a_server_that_is_away_at_the_start_may_come_back(free_port: int) -> None:
    with pytest.raises(StoreError) as caught:
        StateStore.open(Server(f"postgresql://a:s3cret@127.0.0.1:{free_port}/db"), FixedClock())
    assert (caught.value.reason, caught.value.retryable) == (EdgeReason.GONE, True)
    assert f"store.url: postgresql://a@127.0.0.1:{free_port}/db: " in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_connections_that_are_ended_are_made_anew_and_nothing_is_lost(
    postgres: PostgresServer, postgres_bases: Bases
) -> None:
    samples, state = samples_at(postgres_bases), state_at(postgres_bases)
    await samples.append([scrape(NOW, [0, 0])])
    await state.commit_tick(TickCommit(at=NOW))
    assert postgres.kill_backends(database_of(postgres_bases)) > 0

    async def appended() -> bool:
        await samples.append([])
        return samples.waiting_rows == 0

    await samples.append([scrape(NOW + 1, [1, 0])])
    await until(appended)
    await until(lambda: commits(state, NOW + 1))
    assert [one.values[0] for one in await samples.read("w1", NOW, NOW + 9)] == [0, 1]
    assert samples.lost_rows == 0
    await samples.close()
    await state.close()


async def test_while_the_server_is_down_samples_wait_and_the_loss_is_counted_and_told(
    postgres: PostgresServer, postgres_bases: Bases, caplog: pytest.LogCaptureFixture
) -> None:
    samples, state = samples_at(postgres_bases), state_at(postgres_bases)
    await samples.append([scrape(NOW, [0, 0])])
    await state.commit_tick(TickCommit(at=NOW, costs=(COST,)))
    postgres.stop()
    try:
        for at in range(1, 8):
            await samples.append([scrape(NOW + at, [at, 0])])
        with pytest.raises(StoreError):
            await state.commit_tick(TickCommit(at=NOW + 1, costs=(COST,)))
    finally:
        postgres.start()
    assert (samples.waiting_rows, samples.lost_rows) == (5, 2)

    async def appended() -> bool:
        await samples.append([])
        return samples.waiting_rows == 0

    await until(appended)
    await until(lambda: commits(state, NOW + 2))
    back = await samples.read("w1", NOW, NOW + 9)
    assert [one.values[0] for one in back] == [0, 3, 4, 5, 6, 7]
    assert await state.ledger.spent_total() == COST.nanos
    told = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert any("samples wait in memory" in line for line in told)
    assert any("2 scrapes lost" in line for line in told)
    assert PASSWORD not in caplog.text
    await samples.close()
    await state.close()


async def test_a_server_that_hangs_is_given_up_and_asked_again_when_it_answers(
    postgres: PostgresServer, postgres_bases: Bases
) -> None:
    state = state_at(postgres_bases)
    await state.commit_tick(TickCommit(at=NOW))
    with postgres.frozen(database_of(postgres_bases)):
        with pytest.raises(StoreError) as caught:
            await state.commit_tick(TickCommit(at=NOW + 1))
        assert (caught.value.reason, caught.value.retryable) == (EdgeReason.TIMEOUT, True)
    await until(lambda: commits(state, NOW + 2))
    assert (await state.load(NOW)).last_tick_at == NOW + 2
    await state.close()


async def test_a_statement_that_takes_too_long_is_ended(postgres_bases: Bases) -> None:
    state = state_at(postgres_bases)
    body = "BEGIN PERFORM pg_sleep(60); RETURN NEW; END"
    postgres_bases.state.execute(
        f"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$; "
        "CREATE TRIGGER slow BEFORE INSERT ON cost_hourly FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    with pytest.raises(StoreError) as caught:
        await state.commit_tick(TickCommit(at=NOW, costs=(COST,)))
    assert caught.value.reason is EdgeReason.TIMEOUT
    await until(lambda: commits(state, NOW + 1))
    await state.close()


async def test_the_readers_view_does_not_change_while_it_reads(postgres_bases: Bases) -> None:
    state = state_at(postgres_bases)
    with state._database._database.reading() as connection:
        before = connection.exec_driver_sql("SELECT count(*) FROM meta").scalar()
        await state.commit_tick(TickCommit(at=NOW))
        assert connection.exec_driver_sql("SELECT count(*) FROM meta").scalar() == before
    with pytest.raises(StoreError) as caught, state._database._database.reading() as connection:
        connection.exec_driver_sql("DELETE FROM meta")
    assert caught.value.reason is EdgeReason.REFUSED
    await state.close()
