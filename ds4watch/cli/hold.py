"""`ds4watch hold`."""

from __future__ import annotations

import getpass
import re
from typing import Annotated, Any

import typer

from ds4watch.cli.common import Admin, Config, DryRun, Json, State, connect, new_app, print_json
from ds4watch.cli.display import instant
from ds4watch.model.errors import ConfigError, Located

app = new_app()

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)?")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@app.command()
def hold(
    why: Annotated[str, typer.Option("--why", help="The reason; it is kept in the audit.")],
    target: Annotated[
        str, typer.Argument(help="A pool or a worker; everything, if neither is named.")
    ] = "",
    pool: Annotated[str, typer.Option("--pool", help="The pool.")] = "",
    span: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long: 30s, 15m, 2h, 1d.")
    ] = "1h",
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Forbid automatic actions on a target for a while; what is in force stays in force.

    Example: ds4watch hold --pool default --for 30m --why "load test"
    """
    target = held(target, pool)
    client = connect(config, admin, state).client
    body = {**asked_by_hand(why, dry_run=dry_run), "seconds": seconds_of(span)}
    placed = client.hold(target, body)
    if as_json:
        print_json(placed)
        return
    told = f"hold on {target} until {instant(placed['until_at'])}; {placed['told']}"
    typer.echo(f"dry run: {told}; nothing is done" if dry_run else told)


def held(target: str, pool: str) -> str:
    """Return what is held: a target, a pool, or everything. Raises ConfigError."""
    if target and pool and target != pool:
        message = f"names {pool!r} and the target is {target!r}: one of them"
        raise ConfigError(Located(message, field="--pool"))
    return target or pool or "*"


def seconds_of(span: str) -> float:
    """Return a span such as 15m in seconds. Raises ConfigError."""
    match = _SPAN.fullmatch(span)
    seconds = float(match[1]) * _UNIT_SECONDS[match[2] or "s"] if match else 0.0
    if seconds <= 0:
        message = f"must be a time such as 30s, 15m, 2h or 1d, got {span!r}"
        raise ConfigError(Located(message, field="--for"))
    return seconds


def asked_by_hand(why: str, *, dry_run: bool) -> dict[str, Any]:
    """Return what all that people ask for says: who, why, and whether it is only to be told."""
    return {"who": user_name(), "why": why, **({"dry_run": True} if dry_run else {})}


def user_name() -> str:
    """Return who is typing; a container may not know."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
