"""`ds4watch silences`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.display import instant

app = new_app()


@app.command()
def silences(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    over: Annotated[bool, typer.Option("--over", help="Those that ended last, too.")] = False,
) -> None:
    """List silences: which alerts, from when to when, who and why.

    Example: ds4watch silences --over
    """
    found = connect(config, admin, state).client.silences(over=over)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("nothing is silenced")
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("silence", "from", "until", "who", "why", "alerts"):
        table.add_column(title)
    for it in found:
        begins, ends = instant(it["starts_at"]), instant(it["ends_at"])
        table.add_row(it["id"], begins, ends, it["who"], it["why"], ", ".join(it["matchers"]))
    console().print(table)
