"""`ds4watch refuse`."""

from __future__ import annotations

from ds4watch.cli.asking import Action, Why, tell
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app
from ds4watch.cli.hold import user_name

app = new_app()


@app.command()
def refuse(
    action: Action,
    why: Why,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Say no to an action that waits for approval.

    Example: ds4watch refuse restart_worker:tiny-full-0:1f2e3d4c5b6a7980:1796028647200
    """
    client = connect(config, admin, state).client
    command = client.decide(action, "refuse", who=user_name(), why=why)
    tell(client, command, as_json=as_json)
