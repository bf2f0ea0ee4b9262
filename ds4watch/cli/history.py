"""`ds4watch history`: what is stored of the past."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ds4watch.alerting.rulefile import place_of_fault
from ds4watch.cli.common import Config, Json, State, new_app, print_json, tell
from ds4watch.cli.console import console
from ds4watch.cli.history_output import bar, matrix_document, matrix_rows, sink, stats_table
from ds4watch.cli.instants import instant, step_seconds
from ds4watch.config.files import find_settings
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.settings import StoreSettings
from ds4watch.engine.archive import Archive, Choice, Resolution, opened, range_of, unknown_targets
from ds4watch.engine.archive import Progress as Told
from ds4watch.engine.archive import prune as prune_store
from ds4watch.engine.query_wire import RangeQuery
from ds4watch.fleet.lock import daemon_lock, running_daemon
from ds4watch.model.errors import BadQueryError, ConfigError, Located

app = new_app(no_args_is_help=True)
T = TypeVar("T")

_SHOWN_DAMAGES = 10
_START = typer.Option(
    "--start",
    "--from",
    metavar="TIME",
    help="Begin: ISO 8601 (UTC, unless it has a zone), unix seconds, or an age such as 2h.",
)
_END = typer.Option("--end", "--to", metavar="TIME", help="End, likewise. [default: now]")


class Format(StrEnum):
    """What an export is written as."""

    OPENMETRICS = "openmetrics"
    CSV = "csv"


class SystemClock:
    """The real clock."""

    def now(self) -> float:
        """Return the wall-clock instant."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()


@app.callback()
def history() -> None:
    """Show, query, export, check and prune the stored samples.

    Example: ds4watch history inspect
    """


@app.command()
def inspect(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Show what is stored of each target: since when, how much, in how many bytes.

    Example: ds4watch history inspect
    """
    stats = _with_archive(config, state, lambda archive: archive.stats())
    if as_json:
        print_json([asdict(one) | {"bytes_a_sample": one.bytes_a_sample} for one in stats])
    elif stats:
        console().print(stats_table(stats))
    else:
        sys.stdout.write("nothing is stored yet\n")


@app.command()
def export(  # noqa: PLR0917 - Typer makes an option of each
    config: Config = None,
    state: State = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="openmetrics: for `promtool tsdb create-blocks-from`."),
    ] = Format.OPENMETRICS,
    resolution: Annotated[
        Resolution,
        typer.Option("--resolution", help="raw, or roll-ups of a minute or an hour (as CSV)."),
    ] = Resolution.RAW,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="NAME", help="This one only; repeatable."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="METRIC", help="Likewise a metric.")
    ] = None,
    start: Annotated[str | None, _START] = None,
    end: Annotated[str | None, _END] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; else it is printed.")
    ] = None,
) -> None:
    """Write samples as text; a daemon may be at work meanwhile.

    Into a Prometheus: docs/storage.md.

    Example: ds4watch history export --start 2h -o history.om

    Example: ds4watch history export --format csv --name ds4_queue_depth --start 15m

    Example: ds4watch history export --format csv --resolution 1h --start 30d -o month.csv
    """
    if resolution is not Resolution.RAW and form is not Format.CSV:
        raise _bad("--resolution", "roll-ups are exported as CSV", mend="add --format csv")
    choice = _choice(target, name, start, end)

    async def write(archive: Archive) -> None:
        unknown = unknown_targets(choice.targets, await archive.stats())
        if unknown:
            mend = "see `ds4watch history inspect`"
            raise _bad("--target", f"nothing is stored of {', '.join(unknown)}", mend=mend)
        with sink(output) as file, bar("exported", "parts") as told:
            async for text in _texts(archive, choice, form, resolution, told=told):
                file.write(text)
        _tell_damage(archive.damaged)

    _with_archive(config, state, write)


@app.command()
def query(
    expression: Annotated[str, typer.Argument(metavar="PROMQL", help="What to compute.")],
    config: Config = None,
    state: State = None,
    start: Annotated[str, _START] = "1h",
    end: Annotated[str | None, _END] = None,
    step: Annotated[
        str,
        typer.Option("--step", metavar="TIME", help="From one value to the next: 15s, or seconds."),
    ] = "60s",
    as_json: Json = False,
) -> None:
    """Evaluate PromQL over the stored samples, step by step; prints CSV.

    Example: ds4watch history query 'sum(rate(ds4_generated_tokens_total[5m]))' --start 6h --step 5m
    """
    choice = _choice(None, None, start, end)
    settings, folder = _place(config, state)
    asked = RangeQuery(expression, choice.start_at, choice.end_at, step_seconds(step))
    try:
        matrix = asyncio.run(range_of(settings, folder, asked))
    except BadQueryError as error:
        raise _bad("PROMQL", f"{error}{place_of_fault(expression, error.position)}") from error
    if as_json:
        print_json(matrix_document(matrix))
    else:
        sys.stdout.writelines(matrix_rows(matrix))


@app.command()
def verify(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Read everything that is stored and name what is damaged; exit code 1 if anything is.

    Example: ds4watch history verify
    """

    async def look(archive: Archive) -> list[tuple[str, str]]:
        with bar("verified", "parts") as told:
            return [(it.target, it.message) for it in await archive.verify(told)]

    findings = _with_archive(config, state, look)
    if as_json:
        print_json([{"target": where, "message": what} for where, what in findings])
    else:
        for where, what in findings:
            sys.stdout.write(f"{where}: {what}\n")
        sys.stdout.write(f"damaged: {len(findings)}\n" if findings else "all of it is sound\n")
    raise typer.Exit(1 if findings else 0)


@app.command()
def prune(
    before: Annotated[
        str,
        typer.Option(
            "--before", metavar="TIME", help="Delete what is older: ISO 8601, or an age (48h)."
        ),
    ],
    config: Config = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Delete old samples and roll-ups at once; the daemon does so by itself, as `store:` says.

    No daemon may run on the state folder meanwhile.

    Example: ds4watch history prune --before 48h
    """
    clock = SystemClock()
    before_at = instant(before, clock.now(), option="--before")
    if before_at > clock.now():
        raise _bad("--before", f"{before} is yet to come", mend="all of it would be deleted")
    settings, folder = _place(config, state)
    with _alone(folder), bar("pruned", "kinds") as told:
        deleting = prune_store(settings, folder, before_at, clock=clock, progress=told)
        scrapes, buckets = asyncio.run(deleting)
    words = f"{scrapes} scrapes and {buckets} roll-ups deleted"
    tell(words, {"scrapes": scrapes, "roll_ups": buckets}, as_json=as_json)


def _place(config: Path | None, state: Path | None) -> tuple[StoreSettings, Path]:
    settings = find_settings(config, os.environ).settings
    folder = (state or resolve_state_dir(settings, os.environ)).absolute()
    if settings.store.url is None and not folder.is_dir():
        mend = "run `ds4watch up`, or name the right one with --state"
        raise ConfigError(
            Located("there is no such state folder: nothing is stored yet", str(folder), mend=mend)
        )
    return settings.store, folder


def _with_archive(
    config: Path | None, state: Path | None, work: Callable[[Archive], Awaitable[T]]
) -> T:
    settings, folder = _place(config, state)

    async def run() -> T:
        with opened(settings, folder) as archive:
            return await work(archive)

    return asyncio.run(run())


def _choice(
    targets: Sequence[str] | None,
    names: Sequence[str] | None,
    start: str | None,
    end: str | None,
) -> Choice:
    now = SystemClock().now()
    start_at = instant(start, now, option="--start") if start else 0.0
    end_at = instant(end, now, option="--end") if end else now
    if start_at > end_at:
        raise _bad("--start", f"{start} is after the end, {end or 'now'}")
    return Choice(start_at, end_at, targets=frozenset(targets or ()), names=frozenset(names or ()))


def _bad(option: str, message: str, *, mend: str | None = None) -> ConfigError:
    return ConfigError(Located(message, field=option, mend=mend))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep daemons off the state folder. Raises ConfigError if one is there."""
    if not folder.is_dir():  # the database is on a server, which is asked who else is there
        yield
        return
    pid = running_daemon(folder)
    if pid is not None:
        finding = Located(
            f"the daemon, process {pid}, is at work here and prunes by itself",
            str(folder),
            mend="see `store:` in docs/configuration.md, or stop it with `ds4watch down`",
        )
        raise ConfigError(finding)
    with daemon_lock(folder):
        yield


def _tell_damage(damaged: Collection[str]) -> None:
    """Name what is missing from an export, and exit with 1, if anything is."""
    if not damaged:
        return
    for what in list(damaged)[:_SHOWN_DAMAGES]:
        sys.stderr.write(f"ds4watch: {what}\n")
    if len(damaged) > _SHOWN_DAMAGES:
        sys.stderr.write(f"ds4watch: {len(damaged)} such parts; `ds4watch history verify`\n")
    raise typer.Exit(1)


def _texts(
    archive: Archive, choice: Choice, form: Format, resolution: Resolution, *, told: Told
) -> AsyncIterator[str]:
    if resolution is not Resolution.RAW:
        return archive.rollups(choice, resolution, told)
    if form is Format.CSV:
        return archive.csv(choice, told)
    return archive.openmetrics(choice, told)
