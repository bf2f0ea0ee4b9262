"""`ds4watch silence`."""

from __future__ import annotations

from typing import Annotated

import typer

from ds4watch.cli.common import Admin, Config, DryRun, Json, State, connect, new_app, print_json
from ds4watch.cli.display import instant
from ds4watch.cli.hold import asked_by_hand, seconds_of

app = new_app()


@app.command()
def silence(
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="MATCHER...",
            help='A label and its value: severity=warning, worker=~"tiny-.*", team!=a. '
            "A word alone is an alert's name.",
        ),
    ],
    why: Annotated[str, typer.Option("--why", help="The reason; it is kept in the audit.")],
    span: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long: 30s, 15m, 2h, 1d.")
    ] = "1h",
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Tell nobody of alerts that meet all matchers, for a while.

    Actions go on: `ds4watch hold` stops those.

    Example: ds4watch silence QueueDepthHigh worker=tiny-full-1 --for 2h --why "load test"
    """
    client = connect(config, admin, state).client
    asked = {"matchers": [matcher_of(it) for it in matchers], "seconds": seconds_of(span)}
    placed = client.silence(asked | asked_by_hand(why, dry_run=dry_run))
    if as_json:
        print_json(placed)
        return
    until = f"until {instant(placed['ends_at'])}; {placed['told']}"
    told = f"dry run: a silence {until}; nothing is done"
    typer.echo(told if dry_run else f"silence {placed['id']} {until}")


def matcher_of(text: str) -> str:
    """Return a matcher as the API reads it: a word alone is an alert's name."""
    return text if "=" in text or "!~" in text else f"alertname={text}"
