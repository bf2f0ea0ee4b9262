"""`ds4watch keys`: the gateway's API keys.

Secrets are made here and shown once; the daemon never sees one.
"""

from __future__ import annotations

import os
import time
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer
from rich.table import Table

from ds4watch.access.keys import digest, new_secret
from ds4watch.access.signature import signing_key
from ds4watch.cli.common import (
    Admin,
    Config,
    DryRun,
    Json,
    State,
    connect,
    new_app,
    print_json,
    tell,
)
from ds4watch.cli.console import console
from ds4watch.cli.display import instant
from ds4watch.cli.hold import asked_by_hand, seconds_of
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.money import NANOS_PER_UNIT, nanos_from_decimal

app = new_app()

_SECRET_BYTES = 32
Name = Annotated[str, typer.Argument(help="Name of the key: lower-case letters, digits, . _ -")]
Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the audit.")]


@app.callback(invoke_without_command=True)
def keys(
    context: typer.Context, config: Config = None, admin: Admin = None, as_json: Json = False
) -> None:
    """List the gateway's API keys; `ds4watch keys add NAME` makes one.

    Example: ds4watch keys
    """
    if context.invoked_subcommand is None:
        listed(config, None, admin, as_json)


@app.command("list")
def listed(
    config: Config = None, state: State = None, admin: Admin = None, as_json: Json = False
) -> None:
    """List the keys, with what they may do and what is left of their money.

    Example: ds4watch keys list
    """
    found = connect(config, admin, state).client.keys()
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no keys: on loopback the gateway lets in everybody, elsewhere nobody")
        return
    table = Table("name", "status", "models", "limits", "budget left", "expires", box=None)
    for key in found:
        table.add_row(*_row(key))
    console().print(table)


@app.command()
def add(
    name: Name,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A model it may ask for; all if not given.")
    ] = None,
    *,
    rpm: Annotated[int | None, typer.Option("--rpm", min=1, help="Requests a minute.")] = None,
    tpm: Annotated[int | None, typer.Option("--tpm", min=1, help="Tokens a minute.")] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, help="Requests at once.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", min=0, max=9, help="Highest priority, 0 to 9.")
    ] = None,
    work_class: Annotated[str, typer.Option("--class", help="Class of its work.")] = "",
    hour: Annotated[
        str | None, typer.Option("--budget-hour", metavar="MONEY", help="Money an hour.")
    ] = None,
    day: Annotated[
        str | None, typer.Option("--budget-day", metavar="MONEY", help="Money a day (UTC).")
    ] = None,
    month: Annotated[
        str | None, typer.Option("--budget-month", metavar="MONEY", help="Money a month (UTC).")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="Good for so long: 12h, 90d.")
    ] = None,
    signed: Annotated[
        bool, typer.Option("--signed", help="Its requests are signed; the secret is never sent.")
    ] = False,
    dry_run: DryRun = False,
    why: Why = "",
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Make a key and show its secret, this once.

    Example: ds4watch keys add team-a --model tiny-full --rpm 60 --budget-day 5 --expires 90d
    """
    secret = new_secret(os.urandom(_SECRET_BYTES))
    body = {
        "name": name,
        "sha256": digest(secret),
        "signing": signing_key(secret) if signed else "",
        "limits": {
            "requests_per_minute": rpm,
            "tokens_per_minute": tpm,
            "concurrency": concurrency,
            "models": model or [],
            "priority": priority,
            "work_class": work_class,
        },
        "budget": {
            "hour": _nanos(hour, "--budget-hour"),
            "day": _nanos(day, "--budget-day"),
            "month": _nanos(month, "--budget-month"),
        },
        "expires_at": None if expires is None else time.time() + seconds_of(expires),
        **asked_by_hand(why, dry_run=dry_run),
    }
    told = connect(config, admin, state).client.add_key(body)
    _show(name, secret, told if dry_run else "", as_json=as_json)


@app.command()
def revoke(
    name: Name,
    why: Why = "",
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Let a key in no more, from now on.

    Example: ds4watch keys revoke team-a --why "it was in a public repository"
    """
    client = connect(config, admin, state).client
    told = client.change_key(name, "revoke", asked_by_hand(why, dry_run=dry_run))
    tell(told, {"told": told} if dry_run else {"revoked": name}, as_json=as_json)


@app.command()
def rotate(
    name: Name,
    grace: Annotated[
        str | None, typer.Option("--grace", metavar="TIME", help="So long the old secret is good.")
    ] = None,
    signed: Annotated[bool, typer.Option("--signed", help="It is a key that signs.")] = False,
    why: Why = "",
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Give a key another secret and show it, this once.

    Example: ds4watch keys rotate team-a --grace 1h
    """
    secret = new_secret(os.urandom(_SECRET_BYTES))
    body = {
        "sha256": digest(secret),
        "signing": signing_key(secret) if signed else "",
        "grace_seconds": 0.0 if grace is None else seconds_of(grace),
        **asked_by_hand(why, dry_run=dry_run),
    }
    told = connect(config, admin, state).client.change_key(name, "rotate", body)
    _show(name, secret, told if dry_run else "", as_json=as_json)


def _show(name: str, secret: str, would: str, *, as_json: bool) -> None:
    """Show a secret; `would`: what a dry run was told, whose secret is worth nothing."""
    if would:
        tell(would, {"name": name, "told": would}, as_json=as_json)
        return
    if as_json:
        print_json({"name": name, "secret": secret})
        return
    typer.echo(secret)
    typer.echo(f"This is the secret of {name}. It is shown this once and kept nowhere.", err=True)


def _nanos(amount: str | None, option: str) -> int | None:
    if amount is None:
        return None
    try:
        value = Decimal(amount)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0 or value > 10**9:
        message = f"must be an amount of money such as 2.50, got {amount!r}"
        raise ConfigError(Located(message, field=option))
    return nanos_from_decimal(value)


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    limits, left = key["limits"], key["left"]
    told = {
        "rpm": limits["requests_per_minute"],
        "tpm": limits["tokens_per_minute"],
        "at once": limits["concurrency"],
        "priority": limits["priority"],
        "class": limits["work_class"] or None,
        "signed": key["signs"] or None,
    }
    return (
        key["name"],
        key["status"],
        ", ".join(limits["models"]) or "all",
        ", ".join(f"{name} {value}" for name, value in told.items() if value is not None) or "-",
        "-" if left is None else f"{left['nanos'] / NANOS_PER_UNIT:.4f}",
        "-" if key["expires_at"] is None else instant(key["expires_at"]),
    )
