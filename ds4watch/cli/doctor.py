"""`ds4watch doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import typer
from rich.text import Text

from ds4watch.cli.client import AdminClient, AdminError
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.console import console
from ds4watch.config.files import find_settings
from ds4watch.config.places import resolve_state_dir
from ds4watch.engine.doctor import Diagnosis, Health, Patient, examine
from ds4watch.model.errors import ConfigError
from ds4watch.sim.clock import SystemClock

app = new_app()

_STYLES = {Health.OK: "green", Health.WARN: "yellow", Health.BAD: "bold red"}
_ILL = ("failed", "quarantined", "unknown")


@app.command()
def doctor(
    config: Config = None, state: State = None, admin: Admin = None, as_json: Json = False
) -> None:
    """Look an installation over and say, of each thing that is broken, how to mend it.

    Changes nothing. Exits with 1 if something is broken; what is worth a look alone is no fault.

    Example: ds4watch doctor
    """
    found = []
    for each in _diagnoses(config, state, admin):
        found.append(each)
        if not as_json:
            console().print(_line(each))
    if as_json:
        print_json(
            [
                {"health": it.health.value, "what": it.what, "found": it.found, "mend": it.mend}
                for it in found
            ]
        )
    raise typer.Exit(1 if any(it.health is Health.BAD for it in found) else 0)


def _line(diagnosis: Diagnosis) -> Text:
    text = Text(f"{diagnosis.health.value:<5}", style=_STYLES[diagnosis.health])
    text.append(f"{diagnosis.what}: {diagnosis.found}", style="")
    return text.append(f"; mend: {diagnosis.mend}" if diagnosis.mend else "")


def _diagnoses(config: Any, state: Any, admin: str | None) -> Iterator[Diagnosis]:
    try:
        loaded = find_settings(config, os.environ)
        folder = state or resolve_state_dir(loaded.settings, os.environ)
    except ConfigError as error:
        for finding in error.findings:
            mend = "`ds4watch check` tells all that is wrong"
            yield Diagnosis(Health.BAD, "settings", str(finding), mend)
        return
    yield Diagnosis(Health.OK, "settings", str(loaded.file or "defaults"))
    yield from examine(Patient(loaded, folder.absolute(), SystemClock()))
    yield from _of_the_daemon(connect(config, admin, state).client)


def _of_the_daemon(client: AdminClient) -> Iterator[Diagnosis]:
    """Tell what the daemon, if one answers, says of itself and of its fleet."""
    try:
        status = client.status()
    except AdminError as error:
        yield Diagnosis(Health.WARN, "admin API", str(error), "if one runs, its log says why")
        return
    yield Diagnosis(Health.OK, "admin API", f"version {status['version']} at {client.url}")
    for gateway in status.get("gateways") or ():
        if not gateway.get("connected"):
            told = f"{gateway['name']} (process {gateway.get('pid')}) is not connected"
            yield Diagnosis(Health.BAD, "gateway", told, "see logs/ in the state folder")
    for worker in status.get("fleet") or ():
        if worker["phase"] in _ILL:
            told = (
                f"{worker['id']} is {worker['phase']}: {worker.get('reason') or 'no reason told'}"
            )
            mend = f"`ds4watch workers logs {worker['id']}`, then `workers start {worker['id']}`"
            yield Diagnosis(Health.BAD, "worker", told, mend)
    for alert in status.get("alerts") or ():
        if alert.get("phase") == "firing" and alert.get("severity") == "critical":
            told = f"{alert['name']}: {alert.get('summary') or ''}"
            yield Diagnosis(Health.WARN, "alert", told, alert.get("runbook_url") or "")
