"""`ds4watch check`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.alerting.rulefile import load_rules, read_rules
from ds4watch.cli.common import Config, Json, new_app, print_json
from ds4watch.config.files import (
    LoadedSettings,
    filter_file,
    find_settings,
    load_profiles,
    policy_file,
    profile_files,
    read_filter,
    read_text,
    rule_files,
    wanted_workers,
)
from ds4watch.config.lints.findings import Lint, Severity
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.settings import BackendKind
from ds4watch.config.source import SourceKind
from ds4watch.config.store_url import without_password
from ds4watch.engine.golden_questions import golden_questions
from ds4watch.engine.order_check import check_order
from ds4watch.engine.profile_check import check_profiles, gpu_facts
from ds4watch.engine.remote_check import Report, check_offline, check_source
from ds4watch.fleet.plan import check_keys, wanted_specs
from ds4watch.model.errors import ConfigError, Located
from ds4watch.policy.policyfile import load_policy
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.nvml import GpuReader
from ds4watch.scrape.preview import check_groups
from ds4watch.shaping.filter_rules import compile_filter
from ds4watch.sim.clock import SystemClock

app = new_app()

_GPU_SECONDS = 10.0
"""Opening NVML takes seconds where the driver does not stay loaded."""


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

    Profiles are also held against what practice has taught: memory, arguments, references, prices.
    Exits with 2 if there is a fault; warnings alone are no fault. Starts nothing, needs no daemon.

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
    lints = _lints(loaded, sim=sim)
    errors = [*findings, *(it.found for it in lints if it.severity is Severity.ERROR)]
    if as_json:
        _print_json(good, findings, lints, report.notes)
        raise typer.Exit(2 if errors else 0)
    if not errors:
        typer.echo("\n".join(f"ok  {name}" for name in good))
    warnings = [it.found for it in lints if it.severity is Severity.WARNING]
    lines = [f"warning  {it}" for it in warnings] + [f"note  {it}" for it in report.notes]
    typer.echo("".join(f"{line}\n" for line in lines), nl=False)
    if errors:
        raise ConfigError(*errors)


def _lints(loaded: LoadedSettings, *, sim: bool) -> tuple[Lint, ...]:
    gpus = gpu_facts(GpuWatch(GpuReader(SystemClock())).read_blocking(_GPU_SECONDS))
    try:
        state_dir = resolve_state_dir(loaded.settings, os.environ)
    except ConfigError:
        state_dir = Path()  # without a home no model has been made
    found = check_profiles(loaded, state_dir, os.environ, gpus, sim=sim)
    return (*found, *_out_of_order(loaded, sim=sim))


def _out_of_order(loaded: LoadedSettings, *, sim: bool) -> tuple[Lint, ...]:
    """Return what does not go together of files that load; the others' faults are told anyway."""
    workers = wanted_workers(loaded.settings, sim=sim)
    path = policy_file(loaded)
    try:
        profiles = load_profiles(loaded, tuple(worker.profile for worker in workers))
        rules = [read_rules(read_text(it), str(it)) for it in rule_files(loaded)]
        policy = load_policy(read_text(path), str(path))
    except ConfigError:
        return ()
    file = str(loaded.file) if loaded.file else None
    return check_order(loaded.settings, profiles, workers, rules, policy, file=file)


def _checks(loaded: LoadedSettings, *, sim: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    wanted = tuple(worker.profile for worker in wanted_workers(loaded.settings, sim=sim))
    yield f"workers: {', '.join(wanted)}", lambda: load_profiles(loaded, wanted)
    yield "workers' API keys", lambda: _see_to_keys(loaded, sim=sim)
    if loaded.settings.scrape.groups:
        told = ", ".join(group.name for group in loaded.settings.scrape.groups)
        yield f"scrape groups: {told}", lambda: check_groups(loaded)
    if loaded.settings.store.url is not None:
        url = without_password(loaded.settings.store.url.get_secret_value())
        yield f"store: {url}", lambda: None
    every = profile_files(loaded)
    yield f"profiles: {', '.join(sorted(every))}", lambda: load_profiles(loaded, tuple(every))
    source = loaded.settings.source
    rules_told = ", ".join(map(str, rule_files(loaded)))
    yield f"rules: {rules_told}", lambda: _load_each(rule_files(loaded), load_rules)
    if source.kind is not SourceKind.EMBEDDED:
        yield f"source: {source.kind.value} at {source.url}", lambda: check_offline(loaded)
    if (rules := filter_file(loaded)) is not None:
        yield f"output filter: {rules}", lambda: compile_filter(read_filter(rules)[0], str(rules))
    if loaded.settings.quality.golden_sets is not None:
        yield "golden sets", lambda: golden_questions(loaded)
    policy = policy_file(loaded)
    yield f"policy: {policy}", lambda: _load_each((policy,), load_policy)


def _see_to_keys(loaded: LoadedSettings, *, sim: bool) -> None:
    """Look into the files; the daemon's environment is not that of whoever checks."""
    workers, fleet = wanted_workers(loaded.settings, sim=sim), loaded.settings.fleet
    profiles = load_profiles(loaded, tuple(worker.profile for worker in workers))
    specs = wanted_specs(workers, profiles, fleet, loaded.base)
    check_keys(specs, None, loaded.named, on_ray=fleet.backend is BackendKind.RAY)


def _load_each(paths: tuple[Path, ...], load: Callable[[str, str], Any]) -> None:
    findings: list[Located] = []
    for path in paths:
        try:
            load(read_text(path), str(path))
        except ConfigError as error:
            findings += error.findings
    if findings:
        raise ConfigError(*findings)


def _print_json(
    good: list[str], findings: list[Located], lints: tuple[Lint, ...], notes: Sequence[str]
) -> None:
    every = [*(Lint(Severity.ERROR, found) for found in findings), *lints]
    faults = [
        {
            "severity": lint.severity.value,
            "file": lint.found.file,
            "line": lint.found.line,
            "field": lint.found.field,
            "message": lint.found.message,
            "mend": lint.found.mend,
        }
        for lint in every
    ]
    print_json({"ok": good, "findings": faults, "notes": list(notes)})
