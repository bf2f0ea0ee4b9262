"""`ds4watch alerts`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from ds4watch.cli.alert_rows import worst_first
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.cli.display import instant, number

app = new_app()


@app.command()
def alerts(
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of this rule only.")] = None,
    phase: Annotated[
        str | None, typer.Option(metavar="PHASE", help="pending, firing or resolved.")
    ] = None,
    severity: Annotated[
        str | None, typer.Option(metavar="TIER", help="critical, warning, info or none.")
    ] = None,
    silenced: Annotated[
        bool | None,
        typer.Option("--silenced/--not-silenced", help="Those that a silence mutes, or does not."),
    ] = None,
) -> None:
    """Show alerts: phase, since when, value, labels, and the silence that mutes them.

    Example: ds4watch alerts --phase firing --not-silenced
    """
    client = connect(config, admin, state).client
    found = client.alerts(name=name, phase=phase, severity=severity, silenced=silenced)
    if as_json:
        print_json(found)
    elif found:
        console().print(_table(sorted(found, key=worst_first)))
    else:
        typer.echo("no such alert")


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("alert", "severity", "phase", "since", "value", "silenced by", "labels"):
        table.add_column(title)
    for alert in found:
        table.add_row(
            alert["name"],
            alert["severity"],
            alert["phase"],
            instant(alert["since"]),
            number(alert["value"]),
            ", ".join(it[:8] for it in alert["silenced_by"]) or "-",
            ", ".join(f"{key}={value}" for key, value in _own(alert["labels"]).items()),
        )
    return table


def _own(labels: dict[str, str]) -> dict[str, str]:
    return {key: it for key, it in labels.items() if key not in ("alertname", "severity")}
