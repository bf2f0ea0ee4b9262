"""Brings a database to the schema of this program. Alembic is loaded only if there is a step to."""

from __future__ import annotations

import importlib
import logging
from enum import StrEnum
from pathlib import Path
from typing import Protocol, cast

from sqlalchemy import Connection, Engine, column, func, inspect, select, table
from sqlalchemy.schema import CreateSchema

from ds4watch.config.shipped import shipped
from ds4watch.model.errors import ConfigError, Located

_log = logging.getLogger(__name__)

_VERSION = table("alembic_version", column("version_num"))


class Which(StrEnum):
    """The two databases; also the folder names under migrations/."""

    SAMPLES = "samples"
    STATE = "state"

    @property
    def schema(self) -> str:
        """The schema on PostgreSQL."""
        return f"ds4_{self.value}"

    @property
    def lock_key(self) -> int:
        """The advisory lock of whoever writes, on PostgreSQL."""
        return _LOCK_KEYS + list(Which).index(self)

    @property
    def steps(self) -> Path:
        """The folder of its migrations."""
        return shipped("migrations") / self.value


_LOCK_KEYS = 0x6473_3477  # "ds4w"


class _Migrations(Protocol):
    """What is used of `ds4watch.history.migrations`."""

    def to_newest(self, folder: Path, connection: Connection) -> None:
        """Apply what is missing."""
        ...


def upgrade(engine: Engine, which: Which, *, name: str, mend: str = "move the file away") -> None:
    """Apply what is missing, all of it or nothing. Raises ConfigError on a newer database.

    name: what the database is called in messages; mend: how to start without it.
    """
    with engine.begin() as connection:
        make_schema(connection, which)
        known = revisions(which)
        current = _revision_of(connection)
        if current == known[-1]:
            return
        if current is not None and current not in known:
            raise ConfigError(
                Located(
                    f"was made by a newer ds4watch (schema {current}, this one knows {known[-1]})",
                    file=name,
                    mend=f"start the newer version, or {mend}",
                )
            )
        # Alembic takes a fifth of a second to load, and most starts have no use for it.
        module = importlib.import_module("ds4watch.history.migrations")
        migrations: _Migrations = cast("_Migrations", module)
        migrations.to_newest(which.steps, connection)
    _log.info("%s: schema brought from %s to %s", name, current or "nothing", known[-1])


def revisions(which: Which) -> list[str]:
    """Return all versions of a schema, oldest first: the files' names begin with them."""
    files = (which.steps / "versions").glob("[0-9]*.py")
    return sorted(file.name.partition("_")[0] for file in files)


def check_current(connection: Connection, which: Which, *, name: str) -> None:
    """See that a database, read by a command, is of this program's schema. Raises ConfigError."""
    current = _revision_of(connection)
    head = revisions(which)[-1]
    if current is None:
        raise ConfigError(Located("nothing is stored yet", file=name, mend="run `ds4watch up`"))
    if current != head:
        raise ConfigError(
            Located(
                f"was made by another version of ds4watch (schema {current}, this one has {head})",
                file=name,
                mend="take the version that the daemon has; a newer one brings the database up",
            )
        )


def make_schema(connection: Connection, which: Which) -> None:
    """Make the schema on PostgreSQL, unless an administrator has; one of us at a time."""
    if connection.dialect.name != "postgresql":
        return
    connection.execute(select(func.pg_advisory_xact_lock(which.lock_key)))
    if which.schema not in inspect(connection).get_schema_names():
        connection.execute(CreateSchema(which.schema))


def _revision_of(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION.name):
        return None
    found: str | None = connection.execute(select(_VERSION.c.version_num)).scalar()
    return found
