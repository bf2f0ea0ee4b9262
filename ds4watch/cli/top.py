"""`ds4watch top`."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from ds4watch.cli.client import AdminClient, AdminError
from ds4watch.cli.common import Admin, Config, State, connect, new_app
from ds4watch.cli.console import console
from ds4watch.cli.top_view import Past, Room, frame

app = new_app()

_STORY_ROWS = 20


@app.command()
def top(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    every: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one look, and end.")] = False,
) -> None:
    """Watch the fleet live: workers with their load, alerts, level, cost, what happened last.

    Ctrl-C ends it. A daemon that is gone is said so, and seen again when it is back.

    Example: ds4watch top
    """
    client = connect(config, admin, state).client
    past, seen = Past(), console()
    if once:
        seen.print(_looked(client, past, Room(seen.width)))
        return
    with Live(_look(client, past, seen), console=seen, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            live.update(_look(client, past, seen), refresh=True)


def _look(client: AdminClient, past: Past, seen: Console) -> RenderableType:
    try:
        return _looked(client, past, Room(seen.width, seen.height))
    except AdminError as error:
        return Text(str(error), style="bold red")


def _looked(client: AdminClient, past: Past, room: Room) -> RenderableType:
    status = client.status()
    past.add(status)
    return frame(status, client.audit(limit=_STORY_ROWS), past, room)
