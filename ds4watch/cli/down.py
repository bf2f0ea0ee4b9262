"""`ds4watch down`."""

from __future__ import annotations

import os

import typer

from ds4watch.cli.common import Config, new_app
from ds4watch.cli.daemon_module import daemon_module
from ds4watch.cli.up import State
from ds4watch.config.files import find_settings

app = new_app()


@app.command()
def down(config: Config = None, state: State = None) -> None:
    """Drain the gateway, stop the workers and the daemon, and leave nothing behind.

    Example: ds4watch down
    """
    settings = find_settings(config, os.environ).settings
    if state is not None:
        settings = settings.model_copy(update={"state_dir": str(state.absolute())})
    raise typer.Exit(daemon_module().down(settings))
