"""`ds4watch workers` and `ds4watch workers logs`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.cli.client import AdminError
from ds4watch.cli.common import Admin, Config, Json, connect, console, new_app, print_json
from ds4watch.cli.display import fleet_table

app = new_app()

_TAIL_BYTES = 1 << 20


@app.callback(invoke_without_command=True)
def workers(
    context: typer.Context, config: Config = None, admin: Admin = None, as_json: Json = False
) -> None:
    """List the workers; `ds4watch workers logs ID` shows the log of one.

    Example: ds4watch workers logs tiny-full-0
    """
    if context.invoked_subcommand is not None:
        return
    fleet = connect(config, admin).client.status()["fleet"]
    if as_json:
        print_json(fleet)
        return
    console().print(fleet_table(fleet))


@app.command()
def logs(
    worker: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a worker, as `ds4watch workers` lists it.")
    ],
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="Lines to show, at most.")
    ] = 100,
    config: Config = None,
    admin: Admin = None,
) -> None:
    """Show the end of a worker's log; the worker has to run on this machine.

    Example: ds4watch workers logs tiny-full-0 --lines 50
    """
    fleet = connect(config, admin).client.status()["fleet"]
    path = _log_of(fleet, worker)
    sys.stdout.write("\n".join([*_tail(path, lines), ""]))


def _log_of(fleet: list[dict[str, Any]], name: str) -> Path:
    found = next((worker for worker in fleet if worker["id"] == name), None)
    if found is None:
        known = ", ".join(worker["id"] for worker in fleet) or "none"
        message = f"there is no worker {name} (there are: {known})"
        raise AdminError(message)
    if not found.get("log"):
        message = f"{name} is run by somebody else; its log is not here"
        raise AdminError(message)
    return Path(found["log"])


def _tail(path: Path, lines: int) -> list[str]:
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            text = stream.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError as error:
        message = f"{path}: {(error.strerror or str(error)).lower()}"
        raise AdminError(message) from error
    return text.splitlines()[-lines:]
