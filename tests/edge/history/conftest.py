from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from ds4watch.history.migrate import Which
from ds4watch.history.state import StateStore
from tests.conftest import is_missing
from tests.edge.history.helpers import Base, Bases, FixedClock, PostgresBase, SqliteBase
from tests.postgres import PostgresServer, find_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield a running server; one a session."""
    program = find_postgres()
    if program is None:
        is_missing("the program postgres is not installed")
    server = PostgresServer(program.parent)
    try:
        server.start()
        server.make_role()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def bases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bases]:
    """Yield where both databases are to be made, on each engine in turn."""
    if request.param == "sqlite":
        folder = tmp_path / "state"
        yield Bases(SqliteBase(folder / "samples.db"), SqliteBase(folder / "state.db"))
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.new_database()
    yield Bases(PostgresBase(url, Which.SAMPLES), PostgresBase(url, Which.STATE))
    server.drop(url)


@pytest.fixture
def postgres_bases(postgres: PostgresServer) -> Iterator[Bases]:
    """Yield both databases on PostgreSQL, for what SQLite does not know."""
    url = postgres.new_database()
    yield Bases(PostgresBase(url, Which.SAMPLES), PostgresBase(url, Which.STATE))
    postgres.drop(url)


@pytest.fixture
def base(bases: Bases) -> Base:
    """Return where the state is to be; tests of samples have a `base` of their own."""
    return bases.state


@pytest_asyncio.fixture
async def store(base: Base) -> AsyncIterator[StateStore]:
    """Yield a state store that is open."""
    store = StateStore.open(
        base.place, FixedClock(), busy_timeout_seconds=0.1, answer_timeout_seconds=30.0
    )
    yield store
    await store.close()
