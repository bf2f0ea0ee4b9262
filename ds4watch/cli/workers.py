"""`ds4watch workers`: list them, steer them, read their logs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.cli.client import AdminClient, AdminError
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
from ds4watch.cli.fleet_rows import fleet_table
from ds4watch.cli.hold import asked_by_hand
from ds4watch.fleet.ring_log import Follower, last_lines

app = new_app()

_FOLLOW_SECONDS = 0.25

Worker = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a worker, as `ds4watch workers` lists it.")
]
Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the audit.")]
_BY_HAND = "by hand"


@app.callback(invoke_without_command=True)
def workers(
    context: typer.Context,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """List the workers; `ds4watch workers logs ID` shows the log of one.

    What is asked of a worker holds until something else is, over restarts of the daemon too.

    Example: ds4watch workers logs tiny-full-0
    """
    if context.invoked_subcommand is not None:
        return
    fleet = connect(config, admin, state).client.status()["fleet"]
    if as_json:
        print_json(fleet)
        return
    seen = console()
    seen.print(fleet_table(fleet, seen.width))


@app.command()
def drain(
    worker: Worker,
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Send a worker no more requests; what runs in it ends, and it stays loaded.

    Example: ds4watch workers drain tiny-full-0 --why "to look at it"
    """
    client = connect(config, admin, state).client
    _steer(client, "drain", worker, asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def stop(
    worker: Worker,
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Drain a worker and stop it; it stays stopped until `start`.

    Example: ds4watch workers stop tiny-full-0 --why "its GPU is lent out"
    """
    client = connect(config, admin, state).client
    _steer(client, "stop", worker, asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def start(
    worker: Worker,
    why: Why = _BY_HAND,
    *,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Anew, as its profile says: after want of memory too."),
    ] = False,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Take back what was asked of a worker, and lift its quarantine.

    Example: ds4watch workers start tiny-full-0 --why "the driver is mended"
    """
    client = connect(config, admin, state).client
    verb = "fresh" if fresh else "start"
    _steer(client, verb, worker, asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def restart(
    worker: Worker,
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Drain a worker, stop it and start it anew.

    Example: ds4watch workers restart tiny-full-0
    """
    client = connect(config, admin, state).client
    _steer(client, "restart", worker, asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def sleep(
    worker: Worker,
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Drain a worker and put it to sleep: its weights leave the GPU. Its engine has to offer it.

    Example: ds4watch workers sleep sim-full-0
    """
    client = connect(config, admin, state).client
    _steer(client, "sleep", worker, asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def wake(
    worker: Worker,
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Wake a worker and keep it ready, whatever the automatic ones would do with it.

    Example: ds4watch workers wake sim-full-0
    """
    client = connect(config, admin, state).client
    _steer(client, "wake", worker, asked_by_hand(why, dry_run=dry_run), as_json=as_json)


def _steer(
    client: AdminClient, verb: str, worker: str, body: dict[str, Any], *, as_json: bool
) -> None:
    found = client.steer(worker, verb, body)
    tell(found["told"], found, as_json=as_json)


@app.command()
def logs(
    worker: Worker,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="Lines to show, at most.")
    ] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what it writes, until Ctrl-C.")
    ] = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
) -> None:
    """Show the end of a worker's log; the worker has to run on this machine.

    Example: ds4watch workers logs tiny-full-0 --lines 50 -f
    """
    fleet = connect(config, admin, state).client.status()["fleet"]
    path = _log_of(fleet, worker)
    follower = Follower(path)
    sys.stdout.write("\n".join([*_tail(path, lines), ""]))
    while follow:
        sys.stdout.write(follower.more())
        sys.stdout.flush()
        time.sleep(_FOLLOW_SECONDS)


def _log_of(fleet: list[dict[str, Any]], name: str) -> Path:
    found = next((worker for worker in fleet if worker["id"] == name), None)
    if found is None:
        known = ", ".join(worker["id"] for worker in fleet) or "none"
        message = f"there is no worker {name} (there are: {known})"
        raise AdminError(message)
    if not found.get("log"):
        message = f"{name} is run by somebody else; its log is not here"
        raise AdminError(message)
    return Path(found["log"])


def _tail(path: Path, lines: int) -> list[str]:
    try:
        return last_lines(path, lines)
    except OSError as error:
        message = f"{path}: {(error.strerror or str(error)).lower()}"
        raise AdminError(message) from error
