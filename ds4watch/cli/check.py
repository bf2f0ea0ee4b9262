"""`ds4watch check`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.alerting.rulefile import load_rules
from ds4watch.cli.common import Config, Json, new_app, print_json
from ds4watch.config.files import (
    LoadedSettings,
    find_settings,
    load_profiles,
    policy_file,
    profile_files,
    read_text,
    rule_files,
    wanted_workers,
)
from ds4watch.config.source import SourceKind
from ds4watch.config.store_url import without_password
from ds4watch.engine.remote_check import Report, check_offline, check_source
from ds4watch.model.errors import ConfigError, Located
from ds4watch.policy.policyfile import load_policy
from ds4watch.scrape.preview import check_groups

app = new_app()


@app.command()
def check(
    config: Config = None,
    sim: Annotated[
        bool, typer.Option("--sim", help="Check what `ds4watch up --sim` would run.")
    ] = False,
    online: Annotated[
        bool,
        typer.Option("--online", help="Ask the server that evaluates rules (source), too."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check settings, profiles, rules and policy; tell each fault with file and line.

    Exits with 2 if there is a fault. Starts nothing and needs no daemon.

    Example: ds4watch check --config ds4watch.yml
    """
    loaded = find_settings(config, os.environ)
    good: list[str] = [f"settings: {loaded.file or 'defaults'}"]
    findings: list[Located] = []
    for name, act in _checks(loaded, sim=sim):
        try:
            act()
            good.append(name)
        except ConfigError as error:
            findings += [found for found in error.findings if found not in findings]
    report = Report()
    if online and not findings:
        report = asyncio.run(check_source(loaded))
        good += report.good
        findings += report.faults
    if as_json:
        _print_json(good, findings, report.notes)
    elif not findings:
        typer.echo("\n".join(f"ok  {name}" for name in good))
    if not as_json:
        typer.echo("".join(f"note  {note}\n" for note in report.notes), nl=False)
    if findings and not as_json:
        raise ConfigError(*findings)
    raise typer.Exit(2 if findings else 0)


def _checks(loaded: LoadedSettings, *, sim: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    wanted = tuple(worker.profile for worker in wanted_workers(loaded.settings, sim=sim))
    yield f"workers: {', '.join(wanted)}", lambda: load_profiles(loaded, wanted)
    if loaded.settings.scrape.groups:
        told = ", ".join(group.name for group in loaded.settings.scrape.groups)
        yield f"scrape groups: {told}", lambda: check_groups(loaded)
    if loaded.settings.store.url is not None:
        url = without_password(loaded.settings.store.url.get_secret_value())
        yield f"store: {url}", lambda: None
    every = profile_files(loaded)
    yield f"profiles: {', '.join(sorted(every))}", lambda: load_profiles(loaded, tuple(every))
    source = loaded.settings.source
    yield "rules", lambda: _load_each(rule_files(loaded), load_rules)
    if source.kind is not SourceKind.EMBEDDED:
        yield f"source: {source.kind.value} at {source.url}", lambda: check_offline(loaded)
    policy = policy_file(loaded)
    yield f"policy: {policy}", lambda: _load_each((policy,), load_policy)


def _load_each(paths: tuple[Path, ...], load: Callable[[str, str], Any]) -> None:
    findings: list[Located] = []
    for path in paths:
        try:
            load(read_text(path), str(path))
        except ConfigError as error:
            findings += error.findings
    if findings:
        raise ConfigError(*findings)


def _print_json(good: list[str], findings: list[Located], notes: Sequence[str]) -> None:
    faults = [
        {
            "file": found.file,
            "line": found.line,
            "field": found.field,
            "message": found.message,
            "mend": found.mend,
        }
        for found in findings
    ]
    print_json({"ok": good, "findings": faults, "notes": list(notes)})
