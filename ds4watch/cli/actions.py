"""`ds4watch actions`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.display import instant

app = new_app()


@app.command()
def actions(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Newest actions to show.")] = 20,
    status: Annotated[
        str | None, typer.Option(metavar="STATUS", help="planned, running, applied, failed, …")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Such as set_level.")] = None,
    target: Annotated[str | None, typer.Option(metavar="POOL", help="On this one only.")] = None,
) -> None:
    """List actions, newest first: what, on what, how far it got and why.

    Example: ds4watch actions --status applied
    """
    client = connect(config, admin, state).client
    found = client.actions(limit=limit, status=status, kind=kind, target=target)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no such action")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("planned", "action", "target", "status", "reason", "what came of it"):
        table.add_column(title)
    for it in found:
        when = instant(it["planned_at"])
        table.add_row(when, it["id"], it["target"], it["status"], it["reason"], it["detail"])
    console().print(table)
