"""`ds4watch rules`: look at rules before they are trusted, and while they run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.alerting.lint.check import lint
from ds4watch.alerting.lint.findings import Finding
from ds4watch.alerting.rulefile import RuleFile, read_rules
from ds4watch.cli.common import Admin, Config, Json, State, connect, new_app, print_json
from ds4watch.cli.explained import explained_lines
from ds4watch.cli.replay import replay_rules
from ds4watch.cli.rule_tests import FileOutcome, outcome_json, outcome_lines, run_file
from ds4watch.config.files import find_settings, read_text, rule_files
from ds4watch.config.shipped import shipped
from ds4watch.model.errors import ConfigError, Located
from ds4watch.vocabulary.known import KnownMetrics

app = new_app(no_args_is_help=True)

EXIT_FOUND = 1

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILES]...", help="Rule files. [default: those of the settings]"),
]


@app.callback()
def rules() -> None:
    """Check, test, explain and replay alert rules."""


@app.command()
def check(files: Files = None, config: Config = None, as_json: Json = False) -> None:
    """Load rule files as the daemon does, and point out what would be silent or false.

    Exits with 2 if a file does not load, with 1 if there is something to point out.

    Example: ds4watch rules check my-rules.yml
    """
    loaded = find_settings(config, os.environ)
    read, faults = _read_each(files or rule_files(loaded))
    interval = loaded.settings.scrape.interval_seconds
    findings = lint(read, KnownMetrics(), interval_seconds=interval)
    if as_json:
        print_json(_check_json(read, faults, findings))
    else:
        _print_check(read, findings)
    if faults and not as_json:
        raise ConfigError(*faults)
    raise typer.Exit(2 if faults else EXIT_FOUND if findings else 0)


@app.command("test")
def run_tests(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILES]...", help="Test files. [default: those of the rules]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run unit tests in Prometheus's format (`promtool test rules`) by our own evaluator.

    Exits with 2 if a file does not load, with 1 if a test fails.

    Example: ds4watch rules test my-tests.yml
    """
    outcomes: list[FileOutcome] = []
    for path in files or sorted(shipped("rules/tests").glob("*.yml")):
        outcomes.append(run_file(path))
        if not as_json:
            typer.echo("\n".join(outcome_lines(outcomes[-1])) + "\n")
    if as_json:
        print_json({"files": [outcome_json(outcome) for outcome in outcomes]})
    if any(outcome.faults for outcome in outcomes):
        raise typer.Exit(2)
    raise typer.Exit(0 if all(outcome.is_good for outcome in outcomes) else EXIT_FOUND)


@app.command()
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An alert, or a recorded series.")],
    config: Config = None,
    admin: Admin = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Show what a rule of the running daemon sees now, and how far it is from each tier.

    Example: ds4watch rules explain QueueDepthHigh
    """
    found = connect(config, admin, state).client.explain(name)
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join(explained_lines(found)).rstrip())


app.command("replay")(replay_rules)


def _read_each(paths: Sequence[Path]) -> tuple[list[RuleFile], list[Located]]:
    read: list[RuleFile] = []
    faults: list[Located] = []
    for path in paths:
        try:
            read.append(read_rules(read_text(path), str(path)))
        except ConfigError as error:
            faults += error.findings
    return read, faults


def _print_check(read: Sequence[RuleFile], findings: Sequence[Finding]) -> None:
    for finding in findings:
        typer.echo(str(finding))
    bad = {finding.file for finding in findings}
    for file in read:
        if file.document.file not in bad:
            count = sum(len(group.rules) for group in file.groups)
            typer.echo(f"ok  {file.document.file}: {count} rules")


def _check_json(
    read: Sequence[RuleFile], faults: Sequence[Located], findings: Sequence[Finding]
) -> dict[str, Any]:
    return {
        "files": [file.document.file for file in read],
        "faults": [
            {
                "file": fault.file,
                "line": fault.line,
                "field": fault.field,
                "message": fault.message,
                "mend": fault.mend,
            }
            for fault in faults
        ],
        "findings": [
            {
                "file": it.file,
                "line": it.line,
                "rule": it.rule,
                "check": it.advice.check.value,
                "what": it.advice.what,
                "why": it.advice.why,
                "mend": it.advice.mend,
            }
            for it in findings
        ],
    }
