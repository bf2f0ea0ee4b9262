"""`ds4watch approve`."""

from __future__ import annotations

from ds4watch.cli.asking import Action, Why, tell
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app
from ds4watch.cli.hold import user_name

app = new_app()


@app.command()
def approve(
    action: Action,
    why: Why,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Say yes to an action that waits for it.

    Example: ds4watch approve restart_worker:tiny-full-0:1f2e3d4c5b6a7980:1796028647200
    """
    client = connect(config, admin, state).client
    command = client.decide(action, "approve", who=user_name(), why=why)
    tell(client, command, as_json=as_json)
