"""Alembic, without an alembic.ini. Loaded only where there is something to migrate."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def configuration(folder: Path, connection: Connection) -> Config:
    """Return what Alembic needs to work on `connection` with the steps in `folder`."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def to_newest(folder: Path, connection: Connection) -> None:
    """Apply what is missing."""
    command.upgrade(configuration(folder, connection), "head")
