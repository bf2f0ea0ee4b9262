from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
    Boolean,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    create_engine,
    insert,
    inspect,
    select,
)

from ds4watch.history.columns import Instant, Name, Number, Words
from ds4watch.history.ledger_models import cost_hourly
from ds4watch.history.migrate import Which, revisions, upgrade
from ds4watch.history.migrations import configuration
from ds4watch.history.sample_models import SAMPLES
from ds4watch.history.state_tables import STATE
from ds4watch.model.errors import ConfigError
from tests.edge.history.helpers import NOW, Base, Bases, PostgresBase, SqliteBase

BOTH = [(Which.SAMPLES, SAMPLES), (Which.STATE, STATE)]
FOR_PEOPLE = {
    "workers", "alerts", "alert_events", "actions", "audit", "holds", "silences", "cost_hourly",
    "quality_runs", "requests_hourly", "own_requests_hourly", "jobs",
}  # fmt: skip
COST = {"hour_at": NOW, "worker": "w", "profile": "p", "part": "busy", "nanos": 10**15}


def engine_of(base: Base) -> Engine:
    if isinstance(base, SqliteBase):
        base.path.parent.mkdir(exist_ok=True)
    return base.engine()


@pytest.fixture
def state(bases: Bases) -> Iterator[Engine]:
    engine = engine_of(bases.state)
    yield engine
    engine.dispose()


def some_value(column: Any) -> Any:
    """Return a value for a column, by its type."""
    if column.foreign_keys:
        return 1
    kinds: list[tuple[tuple[type, ...], Any]] = [
        ((Name, Words), "x"), ((Instant, Number), NOW), ((Boolean,), True), ((Float,), 0.5),
        ((LargeBinary,), b"\x00\xff"), ((JSON,), {"a": "é"}), ((Integer,), 1),
    ]  # fmt: skip
    return next(value for types, value in kinds if isinstance(column.type, types))


def fill(engine: Engine, tables: list[Table]) -> None:
    """Put a row into each table."""
    with engine.begin() as connection:
        for table in tables:
            there = {it["name"] for it in inspect(connection).get_columns(table.name)}
            row = {
                it.name: some_value(it)
                for it in table.columns
                if it.name in there and it.server_default is None
            }
            connection.execute(insert(table).values(**row))


def columns_of(engine: Engine) -> dict[str, set[str]]:
    """Return the columns that the database has, by table."""
    there = inspect(engine)
    return {
        name: {column["name"] for column in there.get_columns(name)}
        for name in tables_in(engine) - {"alembic_version"}
    }


def rows_of(engine: Engine, tables: list[Table]) -> dict[str, list[dict[str, Any]]]:
    with engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in tables
        }


def steps(which: Which, engine: Engine) -> list[str]:
    """Return all versions of a schema, newest first."""
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(configuration(which.steps, connection))
    return [step.revision for step in scripts.walk_revisions()]


@pytest.mark.parametrize("which", list(Which))
def test_the_files_names_tell_the_versions_that_alembic_knows(state: Engine, which: Which) -> None:
    assert revisions(which) == steps(which, state)[::-1]


def tables_in(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def downgrade(engine: Engine, which: Which, to: str) -> None:
    with engine.begin() as connection:
        command.downgrade(configuration(which.steps, connection), to)


@pytest.mark.parametrize(("which", "metadata"), BOTH)
def test_the_migrations_make_what_the_models_say(
    bases: Bases, which: Which, metadata: MetaData
) -> None:
    first = engine_of(bases.of(which))
    upgrade(first, which, name="it")
    first.dispose()
    engine = engine_of(bases.of(which))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


@pytest.mark.parametrize(("which", "metadata"), BOTH)
def test_down_to_nothing_and_up_again_on_a_database_with_data(
    bases: Bases, which: Which, metadata: MetaData
) -> None:
    engine = engine_of(bases.of(which))
    upgrade(engine, which, name="it")
    fill(engine, metadata.sorted_tables)
    downgrade(engine, which, "base")
    assert tables_in(engine) == {"alembic_version"}
    upgrade(engine, which, name="it")
    assert tables_in(engine) == {*metadata.tables, "alembic_version"}
    fill(engine, metadata.sorted_tables)
    engine.dispose()


@pytest.mark.parametrize(("which", "metadata"), BOTH)
def test_each_step_down_and_up_keeps_the_data_that_both_sides_know(
    bases: Bases, which: Which, metadata: MetaData
) -> None:
    engine = engine_of(bases.of(which))
    upgrade(engine, which, name="it")
    fill(engine, metadata.sorted_tables)
    for older in steps(which, engine)[1:]:
        before = rows_of(engine, metadata.sorted_tables)
        downgrade(engine, which, older)
        kept = columns_of(engine)
        upgrade(engine, which, name="it")
        after = rows_of(engine, metadata.sorted_tables)
        for table, columns in kept.items():
            for old, new in zip(before[table], after[table], strict=True):
                assert {it: new[it] for it in columns} == {it: old[it] for it in columns}
    engine.dispose()


def test_the_tables_for_people_are_there_and_an_instant_is_readable(
    bases: Bases, state: Engine
) -> None:
    upgrade(state, Which.STATE, name="it")
    assert tables_in(state) >= FOR_PEOPLE
    with state.begin() as connection:
        connection.execute(insert(cost_hourly), COST)
        assert connection.execute(select(cost_hourly.c.hour_at)).scalar() == NOW
    if isinstance(bases.state, SqliteBase):
        sql = "SELECT hour_at, strftime('%s', hour_at) FROM cost_hourly"
    else:
        sql = "SELECT hour_at, extract(epoch FROM hour_at)::int::text FROM cost_hourly"
    assert bases.state.query(sql) == [("2027-01-15T08:00:00.000000Z", str(int(NOW)))]


def test_it_says_what_it_did_once_and_leaves_logging_alone(
    state: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.history")
    root, ours = logging.getLogger(), logging.getLogger("ds4watch.history.migrate")
    before = (root.level, list(root.handlers), ours.level, ours.disabled)
    upgrade(state, Which.STATE, name="it")
    upgrade(state, Which.STATE, name="it")
    said = [record.getMessage() for record in caplog.records if record.name == ours.name]
    assert said == [f"it: schema brought from nothing to {steps(Which.STATE, state)[0]}"]
    assert (root.level, list(root.handlers), ours.level, ours.disabled) == before


def test_a_database_of_a_newer_version_is_left_alone_with_one_clear_line(
    bases: Bases, state: Engine
) -> None:
    upgrade(state, Which.STATE, name="it")
    bases.state.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError) as caught:
        upgrade(state, Which.STATE, name="it")
    newest = steps(Which.STATE, state)[0]
    assert str(caught.value) == (
        f"it: was made by a newer ds4watch (schema 9999, this one knows {newest}) "
        "(start the newer version, or move the file away)"
    )
    assert bases.state.query("SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_file_with_an_odd_name_is_a_file_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "a 100% odd name.db"
    engine = create_engine(f"sqlite:///{path}")
    upgrade(engine, Which.STATE, name=str(path))
    engine.dispose()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM audit").fetchone() == (0,)


@pytest.mark.needs("postgres")
def test_both_databases_share_one_server_in_schemas_of_their_own(postgres_bases: Bases) -> None:
    for which, metadata in BOTH:
        engine = engine_of(postgres_bases.of(which))
        upgrade(engine, which, name="it")
        assert tables_in(engine) == {*metadata.tables, "alembic_version"}
        engine.dispose()
    base = postgres_bases.state
    assert isinstance(base, PostgresBase)
    sql = "SELECT DISTINCT schemaname FROM pg_tables WHERE tableowner = current_user ORDER BY 1"
    assert base.query(sql) == [("ds4_samples",), ("ds4_state",)]
