"""`ds4watch gateway`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ds4watch.cli.common import Config, State, new_app
from ds4watch.cli.loading import loaded as module_of
from ds4watch.config.files import filter_file, find_settings
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.settings import RunBy
from ds4watch.fleet.lock import make_state_dir
from ds4watch.model.errors import ConfigError, Located

app = new_app()


@app.command()
def gateway(
    name: Annotated[str, typer.Option(help="Name of this process: g0, g1, …")] = "g0",
    config: Config = None,
    state: State = None,
) -> None:
    """Run one gateway process in the foreground, for a unit of systemd's.

    Only where `gateway.run_by` is systemd: else the daemon starts its gateways itself. It serves
    what the daemon last told, also without one; SIGTERM lets open requests end.

    Example: ds4watch gateway --name g0
    """
    loaded = find_settings(config, os.environ)
    settings = loaded.settings.gateway
    if settings.run_by is not RunBy.SYSTEMD:
        finding = Located(
            "is daemon: the daemon starts its gateways itself",
            str(loaded.file) if loaded.file else None,
            field="gateway.run_by",
            mend="set it to systemd, or let `ds4watch up` do it",
        )
        raise ConfigError(finding)
    if (rules := filter_file(loaded)) is not None:
        settings = settings.model_copy(update={"output_filter": str(rules)})
    folder = (state or resolve_state_dir(loaded.settings, os.environ)).absolute()
    make_state_dir(folder)
    argv = ["--name", name, "--state", str(folder), "--settings", settings.model_dump_json()]
    raise typer.Exit(module_of("ds4watch.gateway.__main__").main(argv))
