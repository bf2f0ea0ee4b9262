"""`ds4watch act`: an action by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from ds4watch.cli.asking import Why, tell
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app
from ds4watch.cli.hold import user_name

app = new_app()


@app.command()
def act(
    name: Annotated[
        str,
        typer.Argument(
            help="An action of the policy, a kind such as restart-worker, or the name of a level."
        ),
    ],
    why: Why,
    pool: Annotated[str, typer.Option("--pool", help="The pool.")] = "default",
    worker: Annotated[str, typer.Option("--worker", help="Id of the worker.")] = "",
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done.")
    ] = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Do something by hand, through the same guards as what alerts lead to.

    Example: ds4watch act restart-worker --worker tiny-full-0 --why "it answers oddly"
    """
    client = connect(config, admin, state).client
    body = {"name": name, "pool": pool, "dry_run": dry_run, "why": why, "who": user_name()}
    command = client.act(body | {"target": worker} if worker else body)
    tell(client, command, as_json=as_json)
