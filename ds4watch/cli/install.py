"""`ds4watch install`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ds4watch.cli.common import new_app
from ds4watch.config.files import find_settings, read_text
from ds4watch.config.settings import BackendKind, RunBy, Settings
from ds4watch.config.shipped import shipped
from ds4watch.fleet.install import InstallPlan, PlannedFile, units_of, write_missing
from ds4watch.model.errors import ConfigError, Located

app = new_app()

_SETTINGS = """\
# ds4watch as a service: workers and gateways are units of their own.
# Every key there is: docs/configuration.md. What is wrong here: ds4watch check.
fleet:
  backend: systemd
  systemd: {bus: system}
gateway:
  run_by: systemd
"""


@app.command()
def install(
    systemd: Annotated[
        bool, typer.Option("--systemd", help="Write the units, the polkit rule and the settings.")
    ] = False,
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="Settings of the service.")
    ] = Path("/etc/ds4watch/ds4watch.yml"),
    user: Annotated[str, typer.Option(help="User that the service runs as.")] = "ds4watch",
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="Write under this folder, as for an image.")
    ] = Path("/"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be written; write nothing.")
    ] = False,
) -> None:
    """Install ds4watch as a systemd service: daemon, gateways and workers in units of their own.

    A file that is there already and differs is kept; the new one is written beside it as .new.
    Settings that are there are never changed: what does not fit in them is said.

    Example: sudo ds4watch install --systemd
    """
    if not systemd:
        finding = Located("say what to install", field="install", mend="add --systemd")
        raise ConfigError(finding)
    program = Path(sys.argv[0]).resolve() if Path(sys.argv[0]).name == "ds4watch" else None
    plan = InstallPlan(
        program=program or Path(sys.executable).with_name("ds4watch"),
        config=config.absolute(),
        user=user,
    )
    processes = _fitting(root, plan.config).gateway.processes
    folder = shipped("serving/systemd")
    files = [
        *units_of(plan, {path.name: read_text(path) for path in sorted(folder.iterdir())}),
        PlannedFile(plan.config, _SETTINGS, mode=0o644, is_ours_to_change=False),
    ]
    if dry_run:
        typer.echo("\n".join(f"# {it.path}\n{it.text}" for it in files))
        return
    for line in write_missing(files, root):
        typer.echo(line)
    typer.echo(_next_steps(plan, processes))


def _fitting(root: Path, config: Path) -> Settings:
    """Return the settings that will hold. Raises ConfigError if they are for another set-up."""
    path = root / config.relative_to("/")
    if not path.exists():
        return Settings()
    settings = find_settings(path, os.environ).settings
    findings = []
    if settings.fleet.backend is not BackendKind.SYSTEMD:
        mend = "set it to systemd: the service's own unit is no place for workers"
        findings.append(
            Located(
                f"is {settings.fleet.backend.value}", str(path), field="fleet.backend", mend=mend
            )
        )
    if settings.gateway.run_by is not RunBy.SYSTEMD:
        mend = "set it to systemd: gateways are units of their own"
        findings.append(Located("is daemon", str(path), field="gateway.run_by", mend=mend))
    if findings:
        raise ConfigError(*findings)
    return settings


def _next_steps(plan: InstallPlan, processes: int) -> str:
    gateways = " ".join(f"ds4watch-gateway@g{number}" for number in range(processes))
    return (
        "next, as root:\n"
        f"  id {plan.user} || useradd --system --home-dir /var/lib/ds4watch "
        f"--shell /usr/sbin/nologin {plan.user}\n"
        f"  {plan.program} check --config {plan.config}\n"
        "  systemctl daemon-reload\n"
        f"  systemctl enable --now ds4watch.target ds4watch {gateways}"
    )
