"""What `ds4watch history` shows, and where it writes."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ds4watch.cli.display import DASH
from ds4watch.engine.archive import Progress as Told
from ds4watch.history.export import series_text
from ds4watch.history.verify import TargetStats
from ds4watch.model.errors import ConfigError, Located
from ds4watch.promql.numbers import plain
from ds4watch.promql.result import Matrix


@contextlib.contextmanager
def sink(output: Path | None) -> Iterator[TextIO]:
    """Open the file to write, or take the standard output. Raises ConfigError."""
    if output is None:
        yield sys.stdout
        return
    try:
        # Who may read the history is for its owner to say.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(output, flags, 0o600), "w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        finding = Located(f"{output} cannot be written: {reason}", field="--output")
        raise ConfigError(finding) from error


@contextlib.contextmanager
def bar(what: str, unit: str) -> Iterator[Told]:
    """Show a progress bar on the terminal, away from what may be piped on."""
    shown = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with shown:
        task = shown.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield told


def stats_table(stats: list[TargetStats]) -> Table:
    """Return what is stored of each target."""
    table = Table(box=None, pad_edge=False)
    for head in ("TARGET", "FIRST", "LAST"):
        table.add_column(head, no_wrap=True)
    numbers = ("SCRAPES", "SAMPLES", "CHUNKS", "NOT FOLDED", "MIB", "BYTES/SAMPLE", "ROLL-UPS MIB")
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("ROLL-UPS SINCE", no_wrap=True)
    for one in stats:
        table.add_row(
            one.target,
            _when(one.first_at),
            _when(one.last_at),
            *_amounts(one),
            _when(one.rollups_first_at),
        )
    return table


def _amounts(one: TargetStats) -> Iterator[str]:
    yield from (f"{count:,}" for count in (one.scrapes, one.samples, one.chunks, one.rows))
    yield _mib(one.bytes)
    yield f"{one.bytes_a_sample:.2f}" if one.samples else DASH
    yield _mib(one.rollup_bytes)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.2f}"


def _when(at: float | None) -> str:
    return DASH if at is None else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))


def matrix_rows(matrix: Matrix) -> Iterator[str]:
    """Yield what a query gave as CSV lines: time, series, value."""
    times = [_iso(at) for at in matrix.steps.tolist()]
    yield "time,series,value\n"
    for row, labels in enumerate(matrix.labels):
        text = io.StringIO()
        there = matrix.there[row]
        pairs = zip(times, matrix.values[row].tolist(), there.tolist(), strict=True)
        csv.writer(text, lineterminator="\n").writerows(
            (at, series_text(labels), plain(value)) for at, value, is_there in pairs if is_there
        )
        yield text.getvalue()


def matrix_document(matrix: Matrix) -> list[dict[str, Any]]:
    """Return what a query gave, in the shape of Prometheus's API."""
    steps = matrix.steps.tolist()
    return [
        {
            "metric": dict(labels),
            "values": [
                [steps[place], plain(float(matrix.values[row, place]))]
                for place in np.flatnonzero(matrix.there[row]).tolist()
            ],
        }
        for row, labels in enumerate(matrix.labels)
    ]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
