"""`ds4watch quality`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ds4watch.cli.client import AdminClient
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json, tell
from ds4watch.cli.console import console
from ds4watch.cli.hold import user_name
from ds4watch.cli.plot import write_plot
from ds4watch.cli.quality_output import (
    advice_lines,
    chart_lines,
    profile_table,
    regret_line,
    routes_table,
    run_line,
)
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.money import NANOS_PER_UNIT

app = new_app(no_args_is_help=True)

_LOOK_SECONDS = 1.0
_RUNNING = "running"


@app.command()
def run(
    profile: Annotated[str, typer.Argument(help="Whose answers are judged.")],
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    *,
    against: Annotated[
        str | None, typer.Option(metavar="REFERENCE", help="A profile to compare it with.")
    ] = None,
    questions: Annotated[
        int, typer.Option(min=0, help="Questions to each at most; 0: all of the golden sets.")
    ] = 0,
    max_cost: Annotated[
        float | None, typer.Option(help="It stops when it has cost so much (worker time).")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Stay until it ends; Ctrl-C does not stop it.")] = True,
    why: Annotated[str, typer.Option("--why", help="The reason, for the audit.")] = "asked for",
) -> None:
    """Ask golden questions of a profile, one at a time, behind all users.

    A run goes on after a restart; one that was stopped goes on where it was when it is asked for
    again. The exit code is 1 if it did not come to its end.

    Example: ds4watch quality run tiny-quantized --against tiny-full --questions 200
    """
    if max_cost is not None and not 0 < max_cost < 1e9:
        raise ConfigError(Located(f"must be over 0, got {max_cost:g}", field="--max-cost"))
    client = connect(config, admin, state).client
    body: dict[str, Any] = {"profile": profile, "questions": questions, "why": why}
    body |= {"who": user_name()} | ({"reference": against} if against is not None else {})
    if max_cost is not None:
        body["budget_nanos"] = max(1, round(max_cost * NANOS_PER_UNIT))
    number = client.begin_golden(body)
    found = _awaited(client, number, shown=not as_json) if wait else _found(client, number)
    if as_json:
        print_json(found)
    else:
        typer.echo(run_line(found))
    if wait and found["status"] != "done":
        raise typer.Exit(1)


@app.command()
def status(
    config: Config = None, state: State = None, admin: Admin = None, as_json: Json = False
) -> None:
    """List golden runs, newest first.

    Example: ds4watch quality status
    """
    runs = connect(config, admin, state).client.golden_runs()
    if as_json:
        print_json(runs)
        return
    for it in runs:
        typer.echo(run_line(it))
    if not runs:
        typer.echo("no golden questions were asked yet: ds4watch quality run --help")


@app.command()
def stop(
    why: Annotated[str, typer.Option("--why", help="The reason, for the audit.")],
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Stop the golden run under way; asked for again, it goes on where it was.

    Example: ds4watch quality stop --why "the GPU is needed"
    """
    client = connect(config, admin, state).client
    told = client.quality_told("stop", who=user_name(), why=why)
    tell(told, {"told": told}, as_json=as_json)


@app.command()
def accept(
    profile: Annotated[str, typer.Argument(help="Whose workers give something new, rightly.")],
    why: Annotated[str, typer.Option("--why", help="The reason, for the audit.")],
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Take what a profile gives at its next start as what it is to give from then on.

    Example: ds4watch quality accept tiny-quantized --why "converted anew"
    """
    client = connect(config, admin, state).client
    path = f"baselines/{profile}/forget"
    told = client.quality_told(path, who=user_name(), why=why)
    tell(told, {"told": told}, as_json=as_json)


@app.command()
def compare(
    profiles: Annotated[
        list[str] | None, typer.Argument(help="Profiles; all that were asked, if none is given.")
    ] = None,
    *,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    against: Annotated[
        str | None, typer.Option(metavar="REFERENCE", help="What losses are counted from.")
    ] = None,
    loss: Annotated[
        float, typer.Option(min=0, max=100, help="Points that may be lost, as measured.")
    ] = 0.9,
    bound: Annotated[
        float, typer.Option(min=0, max=100, help="Points that the 95 % bound of it may reach.")
    ] = 2.0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it too: a .png or .svg file.")
    ] = None,
) -> None:
    """Set profiles side by side, and name the cheapest within a loss, by class of work.

    Example: ds4watch quality compare --loss 0.9 --plot quality.png
    """
    client = connect(config, admin, state).client
    found = client.quality_table(profiles or [], reference=against, loss=loss, bound=bound)
    if plot is not None:
        write_plot("ds4watch.cli.quality_drawing", found, plot, without="the table has a chart")
    if as_json:
        print_json(found)
        return
    console().print(profile_table(found))
    for line in (*chart_lines(found), *advice_lines(found)):
        typer.echo(line)


@app.command()
def routes(
    config: Config = None, state: State = None, admin: Admin = None, as_json: Json = False
) -> None:
    """Show how good routing was in hindsight, and what tokens answered in time cost.

    Example: ds4watch quality routes
    """
    client = connect(config, admin, state).client
    found = client.quality_table([], reference=None, loss=0.9, bound=2.0)
    if as_json:
        costs = {it["profile"]: it["slo_cost_per_thousand_tokens"] for it in found["profiles"]}
        told = {"currency": found["currency"], "slo_cost_per_thousand_tokens": costs}
        print_json(told | {"route_regret": found["route_regret"]})
        return
    console().print(routes_table(found))
    typer.echo(regret_line(found["route_regret"]))


def _found(client: AdminClient, number: int) -> dict[str, Any]:
    return next(it for it in client.golden_runs() if it["id"] == number)


def _awaited(client: AdminClient, number: int, *, shown: bool) -> dict[str, Any]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[told]}"),
    )  # fmt: skip
    terminal = console()
    hidden = not shown or not terminal.is_terminal
    with Progress(*columns, console=terminal, disable=hidden, transient=True) as bar:
        it = _found(client, number)
        task = bar.add_task(f"golden run {number}", total=it["questions"], told="")
        while it["status"] == _RUNNING:
            bar.update(task, completed=it["answered"], told=it["told"])
            time.sleep(_LOOK_SECONDS)
            it = _found(client, number)
    return it
