"""`ds4watch resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, tell
from ds4watch.cli.hold import held, user_name

app = new_app()


@app.command()
def resume(
    target: Annotated[
        str, typer.Argument(help="What was given to `ds4watch hold`; * if nothing was.")
    ] = "",
    pool: Annotated[str, typer.Option("--pool", help="The pool.")] = "",
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Lift a hold, so that actions are taken again.

    Example: ds4watch resume --pool default
    """
    target = held(target, pool)
    connect(config, admin, state).client.lift(target=target, who=user_name())
    tell(f"the hold on {target} is lifted", {"lifted": target}, as_json=as_json)
