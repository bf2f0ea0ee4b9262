"""Where a database lives: a file of ours, or a PostgreSQL server of the user's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.config.settings import StoreSettings
from ds4watch.config.store_url import without_password
from ds4watch.history.migrate import Which


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL database. Its text has no password in it."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        return without_password(self.url)


Place = Path | Server


def store_label(store: StoreSettings, state_dir: Path) -> str:
    """Return where the history is, for people; no password in it."""
    return (
        f"SQLite in {state_dir}"
        if store.url is None
        else str(place_of(store, state_dir, Which.STATE))
    )


def place_of(store: StoreSettings, state_dir: Path, which: Which) -> Place:
    """Return where the settings want a database to be."""
    if store.url is not None:
        return Server(store.url.get_secret_value())
    return state_dir / f"{which.value}.db"
