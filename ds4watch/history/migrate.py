"""Brings a database to the schema of this program, with Alembic and without an alembic.ini."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, Engine

from ds4watch.config.shipped import shipped
from ds4watch.model.errors import ConfigError, Located

_log = logging.getLogger(__name__)


class Which(StrEnum):
    """The two databases; also the folder names under migrations/."""

    SAMPLES = "samples"
    STATE = "state"


def configuration(which: Which, connection: Connection) -> Config:
    """Return what Alembic needs to work on `connection`."""
    config = Config(attributes={"connection": connection})
    folder = str(shipped("migrations") / which.value)
    config.set_main_option("script_location", folder.replace("%", "%%"))
    return config


def upgrade(engine: Engine, which: Which, *, file: Path) -> None:
    """Apply what is missing, all of it or nothing. Raises ConfigError on a newer database."""
    with engine.begin() as connection:
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
                    file=str(file),
                    mend="start the newer version, or move the file away",
                )
            )
        command.upgrade(config, "head")
    _log.info("%s: schema brought from %s to %s", file, current or "nothing", head)


def _steps(scripts: ScriptDirectory) -> list[Script]:
    return list(scripts.walk_revisions())
