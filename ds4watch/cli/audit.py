"""`ds4watch audit`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ds4watch.cli.client import AdminClient, AdminError
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app
from ds4watch.cli.display import audit_line

app = new_app()

FOLLOW_SECONDS = 1.0
_FOLLOW_ROWS = 1000
_KIND_HELP = "Rows of this kind only: alert, plan, outcome, effect, refusal, worker, hold, …"


@app.command()
def audit(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Newest rows to show.")] = 100,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=_KIND_HELP)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on showing what happens.")
    ] = False,
) -> None:
    """Tell what happened, oldest first: when, kind, who did it, to what, what and why.

    With --json, one object a line.

    Example: ds4watch audit --limit 20 --follow
    """
    client = connect(config, admin, state).client
    rows = client.audit(limit=limit, kind=kind)
    _write(reversed(rows), as_json=as_json)
    if follow:
        last = max((row["id"] for row in rows), default=0)
        _follow(client, last, kind, as_json=as_json)


def _follow(client: AdminClient, last: int, kind: str | None, *, as_json: bool) -> None:
    is_gone = False
    while True:
        time.sleep(FOLLOW_SECONDS)
        try:
            rows = client.audit(limit=_FOLLOW_ROWS, kind=kind)
        except AdminError as error:
            if not is_gone:
                sys.stderr.write(f"ds4watch: {error}\n")
            is_gone = True
            continue
        is_gone = False
        fresh = [row for row in rows if row["id"] > last]
        _write(reversed(fresh), as_json=as_json)
        last = max((row["id"] for row in fresh), default=last)


def _write(rows: Iterable[dict[str, Any]], *, as_json: bool) -> None:
    for row in rows:
        line = json.dumps(row, ensure_ascii=False) if as_json else audit_line(row)
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
