"""`ds4watch history`: what is stored of the past."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ds4watch.cli.common import Config, Json, State, console, new_app, print_json
from ds4watch.cli.instants import instant
from ds4watch.config.files import find_settings
from ds4watch.config.places import resolve_state_dir
from ds4watch.config.settings import StoreSettings
from ds4watch.engine.archive import Archive, Choice, Resolution, opened, unknown_targets
from ds4watch.engine.archive import Progress as Told
from ds4watch.fleet.lock import daemon_lock
from ds4watch.history.verify import TargetStats

app = new_app(no_args_is_help=True)
T = TypeVar("T")

_START = typer.Option(
    "--start", metavar="TIME", help="Begin: ISO 8601, unix seconds, or an age (2h)."
)
_END = typer.Option("--end", metavar="TIME", help="End, likewise. [default: now]")


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
    """Show, export, check and prune the stored samples.

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
        return
    console().print(_table(stats))


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
    """Write samples as text; a daemon may be running meanwhile.

    Example: ds4watch history export --start 2h -o history.om
    """
    if resolution is not Resolution.RAW and form is not Format.CSV:
        raise typer.BadParameter("roll-ups are exported as CSV: add --format csv")
    now = SystemClock().now()
    choice = Choice(
        instant(start, now) if start else 0.0,
        instant(end, now) if end else now,
        targets=frozenset(target or ()),
        names=frozenset(name or ()),
    )

    async def write(archive: Archive) -> None:
        unknown = unknown_targets(target or (), await archive.stats())
        if unknown:
            raise typer.BadParameter(f"no history of {', '.join(unknown)}: see history inspect")
        with _sink(output) as sink, _bar("exported", "targets") as told:
            async for text in _texts(archive, choice, form, resolution, told=told):
                sink.write(text)

    _with_archive(config, state, write)


@app.command()
def verify(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Read everything that is stored and name what is damaged; exit code 1 if anything is.

    Example: ds4watch history verify
    """

    async def look(archive: Archive) -> list[tuple[str, str]]:
        with _bar("verified", "parts") as told:
            return [(it.target, it.message) for it in await archive.verify(told)]

    findings = _with_archive(config, state, look)
    if as_json:
        print_json([{"target": where, "message": what} for where, what in findings])
    else:
        for where, what in findings:
            sys.stdout.write(f"{where}: {what}\n")
        sys.stdout.write(f"{len(findings)} damaged parts\n" if findings else "all of it is sound\n")
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
) -> None:
    """Delete old samples and roll-ups at once; the daemon does so by itself, as `store:` says.

    No daemon may run on the state folder meanwhile.

    Example: ds4watch history prune --before 48h
    """
    before_at = instant(before, SystemClock().now())

    async def delete(archive: Archive) -> int:
        with _bar("pruned", "kinds") as told:
            return await archive.prune(before_at, told)

    with daemon_lock(_place(config, state)[1]):
        gone = _with_archive(config, state, delete)
    sys.stdout.write(f"{gone} scrapes deleted\n")


def _place(config: Path | None, state: Path | None) -> tuple[StoreSettings, Path]:
    settings = find_settings(config, os.environ).settings
    folder = state or resolve_state_dir(settings, os.environ)
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no state folder {folder}: nothing is stored yet")
    return settings.store, folder.absolute()


def _with_archive(
    config: Path | None, state: Path | None, work: Callable[[Archive], Awaitable[T]]
) -> T:
    settings, folder = _place(config, state)

    async def run() -> T:
        async with opened(settings, folder, SystemClock()) as archive:
            return await work(archive)

    return asyncio.run(run())


def _texts(
    archive: Archive, choice: Choice, form: Format, resolution: Resolution, *, told: Told
) -> AsyncIterator[str]:
    if resolution is not Resolution.RAW:
        return archive.rollups(choice, resolution, told)
    if form is Format.CSV:
        return archive.csv(choice, told)
    return archive.openmetrics(choice, told)


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file


@contextlib.contextmanager
def _bar(what: str, unit: str) -> Iterator[Told]:
    """Show a progress bar on the terminal, away from what may be piped on."""
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield told


def _table(stats: list[TargetStats]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("TARGET")
    for head in ("FIRST", "LAST"):
        table.add_column(head)
    for head in (
        "SCRAPES",
        "SAMPLES",
        "CHUNKS",
        "NOT FOLDED",
        "MIB",
        "BYTES/SAMPLE",
        "ROLL-UPS MIB",
    ):
        table.add_column(head, justify="right")
    for one in stats:
        table.add_row(
            one.target,
            _when(one.first_at),
            _when(one.last_at),
            str(one.scrapes),
            str(one.samples),
            str(one.chunks),
            str(one.rows),
            f"{one.bytes / 2**20:.2f}",
            f"{one.bytes_a_sample:.2f}",
            f"{one.rollup_bytes / 2**20:.2f}",
        )
    return table


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))
