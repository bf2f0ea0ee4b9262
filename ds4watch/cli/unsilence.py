"""`ds4watch unsilence`."""

from __future__ import annotations

from typing import Annotated

import typer

from ds4watch.cli.client import AdminClient
from ds4watch.cli.common import Admin, Config, DryRun, Json, State, connect, new_app, tell
from ds4watch.cli.hold import user_name
from ds4watch.model.errors import ConfigError, Located

app = new_app()


@app.command()
def unsilence(
    silence: Annotated[str, typer.Argument(metavar="ID", help="The silence, or how it begins.")],
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """End a silence; people are told of what still fires.

    Example: ds4watch unsilence 3f2a
    """
    client = connect(config, admin, state).client
    found = _one(client, silence)
    would = client.unsilence(found, who=user_name(), dry_run=dry_run)
    if dry_run:
        told = f"dry run: silence {found} is ended; {would}; nothing is done"
        tell(told, {"would_end": found, "told": would}, as_json=as_json)
        return
    tell(f"silence {found} is ended", {"ended": found}, as_json=as_json)


def _one(client: AdminClient, begin: str) -> str:
    """Return the id that begins so. Raises ConfigError unless there is exactly one."""
    ids = [str(it["id"]) for it in client.silences(over=False) if it["id"].startswith(begin)]
    if len(ids) == 1:
        return ids[0]
    what = "several silences begin so" if ids else "no silence begins so"
    raise ConfigError(Located(f"{what}: {begin}", field="ID", mend="see `ds4watch silences`"))
