from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, MetaData, create_engine, insert, inspect, select

from ds4watch.history.migrate import Which, configuration, upgrade
from ds4watch.history.sample_models import SAMPLES, targets
from ds4watch.history.state_models import STATE, cost_hourly
from ds4watch.model.errors import ConfigError
from tests.edge.history.helpers import NOW, query

BOTH = [(Which.SAMPLES, SAMPLES), (Which.STATE, STATE)]
FOR_PEOPLE = {
    "workers", "alerts", "alert_events", "actions", "audit", "holds", "silences", "cost_hourly",
    "quality_runs", "requests_hourly",
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a 100% odd name.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


@pytest.mark.parametrize(("which", "metadata"), BOTH)
def test_the_migrations_make_what_the_models_say(
    engine: Engine, path: Path, which: Which, metadata: MetaData
) -> None:
    upgrade(engine, which, file=path)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.parametrize(("which", "metadata"), BOTH)
def test_up_and_down_and_up_on_a_database_with_data(
    engine: Engine, path: Path, which: Which, metadata: MetaData
) -> None:
    upgrade(engine, which, file=path)
    with engine.begin() as connection:
        connection.execute(insert(targets if which is Which.SAMPLES else cost_hourly), ROWS[which])
        command.downgrade(configuration(which, connection), "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]
    upgrade(engine, which, file=path)
    assert set(inspect(engine).get_table_names()) == {*metadata.tables, "alembic_version"}


ROWS: dict[Which, dict[str, object]] = {
    Which.SAMPLES: {"name": "w1", "url": "http://w1", "labels": {"job": "vllm"}},
    Which.STATE: {"hour_at": NOW, "worker": "w", "profile": "p", "part": "busy", "nanos": 10**15},
}


def test_the_tables_for_people_are_there_and_an_instant_is_readable(
    engine: Engine, path: Path
) -> None:
    upgrade(engine, Which.STATE, file=path)
    assert set(inspect(engine).get_table_names()) >= FOR_PEOPLE
    with engine.begin() as connection:
        connection.execute(insert(cost_hourly), ROWS[Which.STATE])
        assert connection.execute(select(cost_hourly.c.hour_at)).scalar() == NOW
    sql = "SELECT hour_at, strftime('%s', hour_at) FROM cost_hourly"
    assert query(path, sql) == [("2027-01-15T08:00:00.000000Z", str(int(NOW)))]


def test_it_says_what_it_did_once_and_leaves_logging_alone(
    engine: Engine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.history")
    root, ours = logging.getLogger(), logging.getLogger("ds4watch.history.migrate")
    before = (root.level, list(root.handlers), ours.level, ours.disabled)
    upgrade(engine, Which.STATE, file=path)
    upgrade(engine, Which.STATE, file=path)
    said = [record.getMessage() for record in caplog.records if record.name == ours.name]
    assert said == [f"{path}: schema brought from nothing to 0001"]
    assert (root.level, list(root.handlers), ours.level, ours.disabled) == before


def test_a_database_of_a_newer_version_is_left_alone_with_one_clear_line(
    engine: Engine, path: Path
) -> None:
    upgrade(engine, Which.STATE, file=path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
        other.commit()
    with pytest.raises(ConfigError) as caught:
        upgrade(engine, Which.STATE, file=path)
    assert str(caught.value) == (
        f"{path}: was made by a newer ds4watch (schema 9999, this one knows 0001) "
        "(start the newer version, or move the file away)"
    )
    assert query(path, "SELECT version_num FROM alembic_version") == [("9999",)]
