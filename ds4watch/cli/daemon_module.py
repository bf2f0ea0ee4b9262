"""The daemon's module, imported only by the commands that start or stop it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from ds4watch.cli.loading import loaded
from ds4watch.config.settings import Settings


class DaemonModule(Protocol):
    """What the command line calls in `ds4watch.daemon`."""

    def run(self, settings: Settings, *, config_file: Path | None, sim: bool) -> int:
        """Run until told to stop; return the exit code."""
        ...

    def down(self, settings: Settings) -> int:
        """Stop a daemon, its gateways and workers; return the exit code."""
        ...


def daemon_module() -> DaemonModule:
    """Import it now: after the settings are known to be good, for it brings in everything."""
    return cast("DaemonModule", loaded("ds4watch.daemon"))
