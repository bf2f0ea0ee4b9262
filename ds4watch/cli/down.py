"""`ds4watch down`."""

from __future__ import annotations

import os

import typer

from ds4watch.cli.common import Config, State, new_app
from ds4watch.cli.daemon_module import daemon_module
from ds4watch.config.files import find_settings

app = new_app()


@app.command()
def down(config: Config = None, state: State = None) -> None:
    """Stop everything: finish open requests, then end gateway, workers and daemon.

    Works too when the daemon is gone and has left gateway and workers running.

    Example: ds4watch down
    """
    settings = find_settings(config, os.environ).settings
    if state is not None:
        settings = settings.model_copy(update={"state_dir": str(state.absolute())})
    raise typer.Exit(daemon_module().down(settings))
