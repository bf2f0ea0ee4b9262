"""Samples in text, read: OpenMetrics as ours and Prometheus's exports write it, `promtool` dumps.

These texts have no staleness markers. They are put back as a scraper sets them: where a series has
no sample at one of the instants at which its target was scraped, as `up` tells.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, STALE_NAN, FloatArray, Labels, labels_of
from ds4watch.promql.columns import IndexArray, LabelColumn
from ds4watch.promql.storage import Block, SeriesMatrix
from ds4watch.promql.vectors import without_name

UP = "up"
_SERIES = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?(?:\{(?P<labels>.*)\})?", re.DOTALL)
_LABEL = re.compile(
    r'\s*(?:(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*)?"(?P<value>(?:[^"\\]|\\.)*)"\s*,?', re.DOTALL
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_EXEMPLAR = " # {"
_MILLISECONDS_FROM = 1e11
"""Instants beyond are in milliseconds, as `promtool tsdb dump` writes them."""
_MOST_SAMPLES = 200_000_000
_TOLD_LINES = 100_000

Read = tuple[Labels, FloatArray, FloatArray]
"""One series: labels with `__name__`, times rising, values."""

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is to do."""


@dataclass(slots=True)
class _Series:
    """One series as it is read; `wanted` is false for what nobody asked for."""

    labels: Labels
    wanted: bool
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))


def read_text_file(
    path: Path, names: frozenset[str] | None, progress: Progress = lambda _done, _total: None
) -> SeriesMatrix:
    """Read a file: the series of the metrics named, or all. Raises ConfigError with the line."""
    try:
        with path.open(encoding="utf-8") as file:
            size = path.stat().st_size
            return matrix_of(_read(file, str(path), names, size, progress))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(Located(f"cannot be read: {reason}", str(path))) from error
    except UnicodeDecodeError as error:
        mend = "OpenMetrics, or what `promtool tsdb dump` prints, is wanted"
        raise ConfigError(Located("is not text", str(path), mend=mend)) from error


def rising(times: FloatArray) -> IndexArray:
    """Return the order of rising times; of equal ones the last."""
    order = np.argsort(times, kind="stable")
    last = np.append(np.diff(times[order]) > 0, [True])[: len(order)]
    kept: IndexArray = order[last]
    return kept


def matrix_of(series: list[Read]) -> SeriesMatrix:
    """Return (labels, times, values) as columns: the series of one target have its instants."""
    targets = {without_name(labels): times for labels, times, _ in series if _is_up(labels)}
    shapes = sorted({tuple(name for name, _ in one) for one in targets}, key=len, reverse=True)
    members: dict[Labels | int, list[int]] = {}
    for row, (labels, _, _) in enumerate(series):
        owner = _owner(labels, targets, shapes)
        members.setdefault(row if owner is None else owner, []).append(row)
    blocks = []
    for rows in members.values():
        parts = [series[row] for row in rows]
        times = np.unique(np.concatenate([one[1] for one in parts]))
        values = np.full((len(rows), len(times)), STALE_NAN)
        for place, (_, its, numbers) in enumerate(parts):
            values[place, np.searchsorted(times, its)] = numbers
        blocks.append(Block(np.array(rows, dtype=np.intp), times, values))
    return SeriesMatrix(LabelColumn(tuple(one[0] for one in series)), tuple(blocks))


def _is_up(labels: Labels) -> bool:
    return (NAME_LABEL, UP) in labels


def _owner(
    labels: Labels, targets: Collection[Labels], shapes: list[tuple[str, ...]]
) -> Labels | None:
    its = dict(labels)
    for names in shapes:
        target = tuple((name, its[name]) for name in names if name in its)
        if target in targets and len(target) == len(names):
            return target
    return None


def _read(
    file: TextIO, name: str, names: frozenset[str] | None, size: int, progress: Progress
) -> list[Read]:
    known: dict[str, _Series] = {}
    samples = done = 0
    for number, line in enumerate(file, start=1):
        done += len(line)
        if number % _TOLD_LINES == 0:
            progress(min(done, size), size)
        if line.startswith("#") or line.isspace():
            continue
        try:
            key, value, at = _parsed(line)
            series = known.get(key)
            if series is None:
                series = known[key] = _series(key, names)
        except ValueError:
            raise ConfigError(_bad_line(name, number, line)) from None
        if series.wanted:
            samples += 1
            series.times.append(at)
            series.values.append(value)
        if samples > _MOST_SAMPLES:
            message = f"over {_MOST_SAMPLES} samples of what the rules select"
            raise ConfigError(Located(message, name, mend="export a shorter time"))
    progress(size, size)
    return list(_arrays(known))


def _parsed(line: str) -> tuple[str, float, UnixSeconds]:
    """Split a line into series, value and instant. Raises ValueError."""
    if _EXEMPLAR in line:
        line = line.split(_EXEMPLAR, 1)[0]
    key, value, at = line.rsplit(None, 2)
    instant = float(at)
    if not math.isfinite(instant):
        raise ValueError
    return key, float(value), instant / 1000 if instant > _MILLISECONDS_FROM else instant


def _series(key: str, names: frozenset[str] | None) -> _Series:
    labels = labels_from_text(key)
    name = dict(labels)[NAME_LABEL]
    return _Series(labels, names is None or name in names or name == UP)


def labels_from_text(text: str) -> Labels:
    """Read `name{label="value"}`, or the same with the name among the labels. Raises ValueError."""
    match = _SERIES.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    labels: dict[str, str] = {NAME_LABEL: match["name"]} if match["name"] else {}
    inside, at = match["labels"] or "", 0
    while at < len(inside):
        label = _LABEL.match(inside, at)
        if label is None:
            raise ValueError(text)
        value = _ESCAPED.sub(lambda it: "\n" if it[1] == "n" else it[1], label["value"])
        labels[label["name"] or NAME_LABEL] = value
        at = label.end()
    if not labels.get(NAME_LABEL):
        raise ValueError(text)
    return labels_of(labels)


def _arrays(known: dict[str, _Series]) -> Iterator[Read]:
    joined: dict[Labels, tuple[array[float], array[float]]] = {}
    for one in known.values():
        if one.wanted:
            times, values = joined.setdefault(one.labels, (array("d"), array("d")))
            times.extend(one.times)
            values.extend(one.values)
    for labels, (times, values) in joined.items():
        at, numbers = np.array(times), np.array(values)
        kept = rising(at)
        yield labels, at[kept], numbers[kept]


def _bad_line(name: str, number: int, line: str) -> Located:
    shown = line.strip()
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    return Located(
        f"is not `series value time`: {shown!r}",
        name,
        number,
        mend="OpenMetrics with times, or what `promtool tsdb dump` prints, is wanted",
    )
