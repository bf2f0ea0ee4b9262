"""`ds4watch signals`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ds4watch.cli.client import AdminError
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.display import signal

app = new_app()


@app.command()
def signals(
    name: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="Only signals whose names hold this.")
    ] = "",
    worker: Annotated[
        str | None, typer.Option("--worker", metavar="ID", help="One worker's, not the fleet's.")
    ] = None,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Show what is measured now: of the fleet, or of one worker.

    Of the fleet, what adds up is summed, and of shares the worst worker's is shown.

    Example: ds4watch signals cache --worker tiny-full-0
    """
    status = connect(config, admin, state).client.status()
    found = status["signals"] if worker is None else _of_worker(status["fleet"], worker)
    chosen = {it: found[it] for it in sorted(found) if name in it}
    if as_json:
        print_json(chosen)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("signal", overflow="fold")
    table.add_column("value", justify="right")
    for each, value in chosen.items():
        table.add_row(Text(each), signal(each, value))
    console().print(table)


def _of_worker(fleet: list[dict[str, object]], worker: str) -> dict[str, object]:
    """Return the signals of a worker. Raises AdminError if there is none of that name."""
    for each in fleet:
        if each["id"] == worker:
            found: dict[str, object] = each.get("signals") or {}  # type: ignore[assignment]
            return found
    names = ", ".join(str(each["id"]) for each in fleet)
    message = f"there is no worker {worker!r}; there are {names or 'none'}"
    raise AdminError(message)
