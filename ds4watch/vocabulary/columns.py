"""Finds on a page the columns that a table speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ds4watch.model.series import Labels, SeriesKey, labels_of
from ds4watch.vocabulary.table import Engine, Meaning, Pick, Source

Columns: TypeAlias = Mapping[str, Sequence[int]]
"""Series by name (of an engine: without prefix) → columns, in the order of the page."""

Terms: TypeAlias = dict[Labels, list[tuple[int, float]]]
"""By the labels of a sample to be: the columns that make it, each with its weight."""

LabelsOf: TypeAlias = Callable[[SeriesKey], Labels]

MOST_SAMPLES = 64
"""Of one signal on one page; what is beyond is added up under `other`."""
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Found:
    """How a page serves a meaning: by which of its sources, and from which columns."""

    source: Source
    place: int
    terms: Terms


def label(key: SeriesKey, *names: str) -> str:
    """Return the first of these labels that a series has, or ""."""
    labels = dict(key.labels)
    return next((labels[name] for name in names if labels.get(name)), "")


def by_name(series: Sequence[SeriesKey]) -> Columns:
    """Return all columns by the series' whole names."""
    columns: dict[str, list[int]] = {}
    for column, key in enumerate(series):
        columns.setdefault(key.name, []).append(column)
    return columns


def engine_columns(engine: Engine, series: Sequence[SeriesKey]) -> Columns:
    """Return an engine's columns by bare name, under the first prefix with anything known."""
    wanted = _names_of(engine)
    for prefix in engine.prefixes:
        columns: dict[str, list[int]] = {}
        for column, key in enumerate(series):
            if not key.name.startswith(prefix) or key.name.startswith(engine.skipped):
                continue
            bare = key.name.removeprefix(prefix)
            if bare in wanted and not label(key, *engine.strange):
                columns.setdefault(bare, []).append(column)
        if columns:
            return _without_repeats(engine, series, columns)
    return {}


def find(
    meaning: Meaning, series: Sequence[SeriesKey], columns: Columns, labels: LabelsOf
) -> Found | None:
    """Return how a page serves a meaning: the first source that it has all of."""
    for place, source in enumerate(meaning.sources):
        signed = _signed(source, series, columns)
        if signed:
            return Found(source, place, _grouped(meaning, series, signed, labels))
    return None


def picked(pick: Pick, series: Sequence[SeriesKey], columns: Columns) -> list[int]:
    """Return the columns that a pick speaks of."""
    found = columns.get(pick.name) or columns.get(pick.name.removesuffix("_total")) or ()
    if not pick.label:
        return list(found)
    return [column for column in found if label(series[column], pick.label) in pick.values]


def _names_of(engine: Engine) -> frozenset[str]:
    picks = [
        pick
        for meaning in engine.meanings
        for source in meaning.sources
        for pick in (*source.add, *source.subtract)
    ]
    names = {pick.name for pick in picks} | set(engine.information)
    names |= {name for generation in engine.generations for name in generation.needs}
    return frozenset(names | {name.removesuffix("_total") for name in names})


def _without_repeats(engine: Engine, series: Sequence[SeriesKey], columns: Columns) -> Columns:
    if not engine.repeated:
        return columns
    return {name: _lowest(engine.repeated, series, found) for name, found in columns.items()}


def _lowest(
    repeated: Sequence[str], series: Sequence[SeriesKey], columns: Iterable[int]
) -> list[int]:
    lowest: dict[Labels, tuple[list[str], int]] = {}
    for column in columns:
        key = series[column]
        rest = tuple(pair for pair in key.labels if pair[0] not in repeated)
        rank = [label(key, name).zfill(8) for name in repeated]
        if rest not in lowest or rank < lowest[rest][0]:
            lowest[rest] = (rank, column)
    return [column for _, column in lowest.values()]


def _signed(
    source: Source, series: Sequence[SeriesKey], columns: Columns
) -> list[tuple[int, float]]:
    if source.given and not picked(source.given, series, columns):
        return []
    signed: list[tuple[int, float]] = []
    for picks, sign in ((source.add, 1.0), (source.subtract, -1.0)):
        for pick in picks:
            found = picked(pick, series, columns)
            if not found:
                return []
            signed += [(column, sign * source.scale) for column in found]
    return signed


def _grouped(
    meaning: Meaning,
    series: Sequence[SeriesKey],
    signed: Iterable[tuple[int, float]],
    labels: LabelsOf,
) -> Terms:
    groups: Terms = {}
    for column, weight in signed:
        own = dict((*labels(series[column]), *meaning.labels))
        if meaning.split:
            theirs, ours = meaning.split
            own[ours] = label(series[column], *theirs)
        key = labels_of(own)
        if key not in groups and len(groups) >= MOST_SAMPLES:
            key = labels_of(dict.fromkeys(own, OTHER))
        groups.setdefault(key, []).append((column, weight))
    return groups
