"""`ds4watch undo`."""

from __future__ import annotations

from ds4watch.cli.asking import Action, Why, tell
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app
from ds4watch.cli.hold import user_name

app = new_app()


@app.command()
def undo(
    action: Action,
    why: Why,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Take back an action on a worker; a level is taken back by `ds4watch act normal`.

    Example: ds4watch undo act:12 --why "it is well again"
    """
    client = connect(config, admin, state).client
    command = client.decide(action, "undo", who=user_name(), why=why)
    tell(client, command, as_json=as_json)
