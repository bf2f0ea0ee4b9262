"""`ds4watch status`."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ds4watch.cli.client import AdminClient, AdminError
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.status_view import status_parts

app = new_app()

WATCH_SECONDS = 1.0


@app.command()
def status(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it anew each second.")] = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Print only a link that lets a browser act on the page, once."),
    ] = False,
) -> None:
    """Show workers, alerts, the service level in force and why, gateway, signals and cost.

    What is not yet as it should be stands first, as "waiting for …". A dash: not reported.

    Example: ds4watch status --watch
    """
    client = connect(config, admin, state).client
    if link:
        sys.stdout.write(f"{client.page_link()}\n")
        return
    if watch and not as_json:
        _watch(client)
        return
    found = client.status()
    if as_json:
        print_json(found)
        return
    seen = console()
    seen.print(Group(*status_parts(found, seen.width)))
    if sys.stdout.isatty():
        _show_link(client)


def _show_link(client: AdminClient) -> None:
    """Tell how to act on the page; who has no token only reads, and needs no link for it."""
    with contextlib.suppress(AdminError):
        sys.stdout.write(f"to act on the page, once, within 5 minutes: {client.page_link()}\n")


def _watch(client: AdminClient) -> None:
    seen = console()
    with Live(_view(client, seen), console=seen, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(WATCH_SECONDS)
            live.update(_view(client, seen), refresh=True)


def _view(client: AdminClient, seen: Console) -> RenderableType:
    try:
        return Group(*status_parts(client.status(), seen.width))
    except AdminError as error:
        return Text(str(error), style="bold red")
