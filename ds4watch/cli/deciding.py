"""What `ds4watch approve` and `ds4watch refuse` share: all but the word."""

from __future__ import annotations

from typing import Literal

import typer

from ds4watch.cli.asking import Action, Why, tell
from ds4watch.cli.common import Admin, Config, DryRun, Json, State, connect, new_app
from ds4watch.cli.hold import asked_by_hand

_EXAMPLE = "restart_worker:tiny-full-0:1f2e3d4c5b6a7980:1796028647200"


def deciding_app(verdict: Literal["approve", "refuse"], told: str) -> typer.Typer:
    """Return the app of a command that answers an action which waits for a person."""
    app = new_app()

    @app.command(verdict, help=f"{told}\n\nExample: ds4watch {verdict} {_EXAMPLE} --why checked")
    def decide(
        action: Action,
        why: Why,
        *,
        dry_run: DryRun = False,
        config: Config = None,
        state: State = None,
        admin: Admin = None,
        as_json: Json = False,
    ) -> None:
        client = connect(config, admin, state).client
        command = client.decide(action, verdict, asked_by_hand(why, dry_run=dry_run))
        tell(client, command, as_json=as_json)

    return app
