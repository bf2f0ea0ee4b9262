"""`ds4watch fleet`: change the fleet step by step, show how far it is, pause, go on, give back."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
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
from ds4watch.cli.display import instant
from ds4watch.cli.forecast_lines import forecast_lines
from ds4watch.cli.hold import asked_by_hand, user_name

app = new_app(no_args_is_help=True)

_FOLLOW_SECONDS = 1.0
_ENDED = ("done", "returned")
Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the audit.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on telling until it has ended.")]
_BY_HAND = "by hand"


@app.callback()
def fleet() -> None:
    """Change the fleet step by step, and see to it."""


@app.command()
def apply(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Settings file on the daemon's machine. [default: its own]"
        ),
    ] = None,
    *,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    watch: Watch = False,
    why: Why = _BY_HAND,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Make the running fleet what the settings and profiles say now, worker by worker.

    It is watched, and given back by itself if errors, latency or quality get worse.

    Example: ds4watch fleet apply --why "vLLM 0.33" --watch
    """
    client = connect(config, admin, state).client
    path = str(file.absolute()) if file is not None else None
    who = user_name()
    plan = client.apply(file=path, plan=None, dry_run=True, who=who, why=why)
    if not as_json:
        typer.echo("\n".join(plan_lines(plan)))
    if plan["steps"] and not dry_run:
        if not yes and not _agreed():
            raise typer.Exit(1)
        agreed = None if plan["begun"] else plan["plan"]
        plan = client.apply(file=path, plan=agreed, dry_run=False, who=who, why=why)
    if as_json:
        print_json(plan)
    if watch and plan["begun"]:
        _follow(client)


@app.command()
def status(
    *,
    watch: Watch = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Show the rolling change under way, or the last.

    Example: ds4watch fleet status --watch
    """
    client = connect(config, admin, state).client
    if watch:
        _follow(client)
        return
    change = client.change()
    if as_json:
        print_json(change)
    else:
        typer.echo("\n".join(change_lines(change)))


@app.command()
def forecast(
    hours: Annotated[float, typer.Option("--hours", help="So many hours ahead, up to 48.")] = 6.0,
    *,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Show the load ahead, with its interval, and the workers that it asks for.

    Example: ds4watch fleet forecast --hours 12
    """
    found = connect(config, admin, state).client.forecast(hours)
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join(forecast_lines(found)))


@app.command()
def pause(
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Let the running step end, and begin no other until `resume`.

    Example: ds4watch fleet pause --why "lunch"
    """
    client = connect(config, admin, state).client
    _steer(client, "pause", asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def resume(
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Go on with a change that was paused.

    Example: ds4watch fleet resume
    """
    client = connect(config, admin, state).client
    _steer(client, "resume", asked_by_hand(why, dry_run=dry_run), as_json=as_json)


@app.command()
def abort(
    why: Why = _BY_HAND,
    *,
    dry_run: DryRun = False,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Give back what was changed, step by step.

    Example: ds4watch fleet abort --why "answers are odd"
    """
    client = connect(config, admin, state).client
    _steer(client, "abort", asked_by_hand(why, dry_run=dry_run), as_json=as_json)


def _steer(client: AdminClient, verb: str, body: dict[str, Any], *, as_json: bool) -> None:
    told = client.steer_change(verb, body)
    tell(told, {"told": told}, as_json=as_json)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        message = "nobody is there to be asked: say --yes, or --dry-run"
        raise AdminError(message)
    return typer.confirm("Begin?")


def _follow(client: AdminClient) -> None:
    told: list[str] = []
    while True:
        change = client.change()
        lines = change_lines(change)
        if lines != told:
            typer.echo("\n".join(line for line in lines if line not in told))
        told = lines
        if change is None or change["status"] in _ENDED:
            if change is not None and change["status"] == "returned":
                raise typer.Exit(1)
            return
        time.sleep(_FOLLOW_SECONDS)


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return a plan for people."""
    if not plan["steps"]:
        return ["The fleet is what the files say."]
    lines = [f"{step['number']:3}. {step['told']}" for step in plan["steps"]]
    if plan["unchanged"]:
        lines.append(f"Unchanged: {', '.join(plan['unchanged'])}")
    ready = f"At least {plan['ready_at_least']} workers stay ready."
    begun = "It is under way." if plan["begun"] else f"Plan {plan['plan']}."
    return [*lines, f"{ready} {begun}"]


def change_lines(change: Mapping[str, Any] | None) -> list[str]:
    """Return how far a change is, for people."""
    if change is None:
        return ["The fleet was never changed."]
    status = "paused" if change["paused"] else change["status"]
    head = f"Change {change['number']}, begun {instant(change['begun_at'])}: {status}"
    by = f"by {change['who']}: {change['why']}"
    lines = [head, by]
    if change["reason"]:
        lines.append(f"halted: {change['reason']}")
    lines += [f"{it['number']:3}. {it['told']} [{it['state']}]" for it in change["steps"]]
    if change["waiting"]:
        lines.append(f"now: {change['waiting']}")
    return lines
