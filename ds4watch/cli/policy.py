"""`ds4watch policy`: check the policy file, tell what an alert leads to, make its reference."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.config.files import find_settings, policy_file, read_text
from ds4watch.model.errors import ConfigError, Located
from ds4watch.policy.policyfile import load_policy
from ds4watch.policy.reference import policy_reference

app = new_app()


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="A policy file. [default: the one of the settings]")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check the policy: each fault in one line, with its place. Exits with 0, or with 2.

    Example: ds4watch policy check policy.yml
    """
    path = file or policy_file(find_settings(config, os.environ))
    try:
        policy = load_policy(read_text(path), str(path))
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"file": str(path), "findings": [_finding(it) for it in error.findings]})
        raise typer.Exit(2) from error
    counts = {
        "pools": len(policy.pools),
        "actions": len(policy.actions),
        "bindings": len(policy.bindings),
    }
    if as_json:
        print_json({"file": str(path), "findings": [], **counts})
        return
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    typer.echo(f"{path}: in order: {told}{'; dry run' if policy.dry_run else ''}")


@app.command()
def explain(
    alert: Annotated[
        list[str] | None,
        typer.Argument(help="Name of an alert, and labels as name=value; without any: all alerts."),
    ] = None,
    config: Config = None,
    state: State = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Tell what an alert leads to now and why, guard by guard.

    If there is no such alert now, it is told what would follow if one with these labels fired.

    Example: ds4watch policy explain QueueDepthHigh severity=critical
    """
    found = connect(config, admin, state).client.explain_policy(_labels(alert or []))
    if as_json:
        print_json(found)
        return
    for line in _told(found["alerts"]):
        typer.echo(line)


@app.command()
def reference() -> None:
    """Print the keys of the policy file, as docs/policy.md has them.

    Example: ds4watch policy reference
    """
    sys.stdout.write(policy_reference())


def _labels(given: list[str]) -> dict[str, str]:
    found = {}
    for it in given:
        name, sep, value = it.partition("=")
        if not sep:
            name, value = "alertname", it
        if name in found:
            message = f"gives {name} twice: {it!r}"
            raise ConfigError(Located(message, field="ALERT"))
        found[name] = value
    return found


def _told(alerts: list[Mapping[str, Any]]) -> Iterator[str]:
    if not alerts:
        yield "no alert is pending or firing"
    for alert in alerts:
        labels = ", ".join(f"{name}={value}" for name, value in alert["alert"].items() if value)
        how = "supposed to fire" if alert["supposed"] else f"{alert['phase']} at {alert['value']:g}"
        yield f"{labels}: {how}"
        if not alert["asks"]:
            yield "  no binding matches: it informs"
        for asks in alert["asks"]:
            yield f"  binding {asks['binding']} asks for {asks['asks_for']} → {asks['then']}"
            for guard in asks["guards"]:
                yield f"    {'ok' if guard['passed'] else 'NO'}  {guard['guard']}: {guard['told']}"


def _finding(it: Located) -> dict[str, Any]:
    return {
        "file": it.file,
        "line": it.line,
        "field": it.field,
        "message": it.message,
        "mend": it.mend,
    }
