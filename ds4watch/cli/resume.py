"""`ds4watch resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from ds4watch.cli.common import Admin, Config, DryRun, Json, State, connect, new_app, tell
from ds4watch.cli.hold import held, user_name

app = new_app()


@app.command()
def resume(
    target: Annotated[
        str, typer.Argument(help="What was given to `ds4watch hold`; * if nothing was.")
    ] = "",
    pool: Annotated[str, typer.Option("--pool", help="The pool.")] = "",
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Lift a hold, so that actions are taken again.

    Example: ds4watch resume --pool default
    """
    target = held(target, pool)
    client = connect(config, admin, state).client
    would = client.lift(target, who=user_name(), dry_run=dry_run)
    if dry_run:
        told = f"dry run: the hold on {target} is lifted; {would}; nothing is done"
        tell(told, {"would_lift": target, "told": would}, as_json=as_json)
        return
    tell(f"the hold on {target} is lifted", {"lifted": target}, as_json=as_json)
