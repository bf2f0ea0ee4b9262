"""What commands that ask for an action share: wait for what comes of it, tell it."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from ds4watch.cli.client import AdminClient, AdminError
from ds4watch.cli.common import print_json

_PATIENCE_SECONDS = 15.0
_LOOK_SECONDS = 0.1
_WAITING = "waiting"
_REFUSED = "refused"

Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the audit.")]
Action = Annotated[
    str, typer.Argument(metavar="ACTION", help="Id of an action, as `ds4watch actions` shows it.")
]


def tell(client: AdminClient, command: dict[str, Any], *, as_json: bool) -> None:
    """Wait for what comes of a command and print it. Raises AdminError if it was refused."""
    found = _settled(client, command)
    if as_json:
        print_json(found)
    elif found["status"] != _REFUSED:
        typer.echo(found["told"])
    if found["status"] == _REFUSED:
        message = f"refused: {found['told']}"
        raise AdminError(message)


def _settled(client: AdminClient, command: dict[str, Any]) -> dict[str, Any]:
    number = command["id"]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while command["status"] == _WAITING:
        if time.monotonic() > deadline:
            message = f"command {number} was not carried out within {_PATIENCE_SECONDS:g} s"
            raise AdminError(message)
        time.sleep(_LOOK_SECONDS)
        command = client.command(number)
    return command
