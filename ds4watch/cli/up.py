"""`ds4watch up`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ds4watch.cli.common import Config, State, new_app
from ds4watch.cli.daemon_module import daemon_module
from ds4watch.config.files import find_settings, load_profiles, wanted_workers

app = new_app()


@app.command()
def up(
    config: Config = None,
    state: State = None,
    sim: Annotated[
        bool, typer.Option("--sim", help="Run two simulated workers: needs no vLLM and no model.")
    ] = False,
) -> None:
    """Start the daemon, the gateway and the workers, in the foreground.

    Ctrl-C (or `ds4watch down`) stops them all. On SIGTERM the daemon alone ends: gateway and
    workers go on, and the next `ds4watch up` takes them over.

    Example: ds4watch up --sim
    """
    loaded = find_settings(config, os.environ)
    settings = loaded.settings
    if state is not None:
        settings = settings.model_copy(update={"state_dir": str(state.absolute())})
    load_profiles(loaded, tuple(each.profile for each in wanted_workers(settings, sim=sim)))
    raise typer.Exit(daemon_module().run(settings, config_file=loaded.file, sim=sim))
