"""`ds4watch undo`."""

from __future__ import annotations

from ds4watch.cli.asking import Action, Why, tell
from ds4watch.cli.common import Admin, Config, DryRun, Json, State, connect, new_app
from ds4watch.cli.hold import asked_by_hand

app = new_app()


@app.command()
def undo(
    action: Action,
    why: Why,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Take back an action on a worker; a level is taken back by `ds4watch act normal`.

    Example: ds4watch undo act:12 --why "it is well again"
    """
    client = connect(config, admin, state).client
    command = client.decide(action, "undo", asked_by_hand(why, dry_run=dry_run))
    tell(client, command, as_json=as_json)
