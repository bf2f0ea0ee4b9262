"""Brings a database to the schema of this program, with Alembic and without an alembic.ini."""

from __future__ import annotations

import logging
from enum import StrEnum

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, Engine, func, inspect, select
from sqlalchemy.schema import CreateSchema

from ds4watch.config.shipped import shipped
from ds4watch.model.errors import ConfigError, Located

_log = logging.getLogger(__name__)


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


_LOCK_KEYS = 0x6473_3477  # "ds4w"


def configuration(which: Which, connection: Connection) -> Config:
    """Return what Alembic needs to work on `connection`."""
    config = Config(attributes={"connection": connection})
    folder = str(shipped("migrations") / which.value)
    config.set_main_option("script_location", folder.replace("%", "%%"))
    return config


def upgrade(engine: Engine, which: Which, *, name: str, mend: str = "move the file away") -> None:
    """Apply what is missing, all of it or nothing. Raises ConfigError on a newer database.

    name: what the database is called in messages; mend: how to start without it.
    """
    with engine.begin() as connection:
        make_schema(connection, which)
        config = configuration(which, connection)
        scripts = ScriptDirectory.from_config(config)
        current = MigrationContext.configure(connection).get_current_revision()
        head = scripts.get_current_head()
        if current == head:
            return
        if current is not None and current not in {step.revision for step in _steps(scripts)}:
            raise ConfigError(
                Located(
                    f"was made by a newer ds4watch (schema {current}, this one knows {head})",
                    file=name,
                    mend=f"start the newer version, or {mend}",
                )
            )
        command.upgrade(config, "head")
    _log.info("%s: schema brought from %s to %s", name, current or "nothing", head)


def make_schema(connection: Connection, which: Which) -> None:
    """Make the schema on PostgreSQL, unless an administrator has; one of us at a time."""
    if connection.dialect.name != "postgresql":
        return
    connection.execute(select(func.pg_advisory_xact_lock(which.lock_key)))
    if which.schema not in inspect(connection).get_schema_names():
        connection.execute(CreateSchema(which.schema))


def _steps(scripts: ScriptDirectory) -> list[Script]:
    return list(scripts.walk_revisions())
