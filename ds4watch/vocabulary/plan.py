"""Compiles the table against a page's series once; reads each scrape with a few array sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, Labels, Sample, Schema, SeriesKey, labels_of
from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary import table
from ds4watch.vocabulary.table import Combine, Meaning, Pick, Source
from ds4watch.vocabulary.windows import CounterPoint

_NO_ENGINE = "the page has no vLLM metrics"
_NOT_REPORTED = "this engine does not report it"

_Columns: TypeAlias = Mapping[str, Sequence[int]]
"""Series of the engine: name without prefix → columns."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample that a page gives: a signal for one model (and, where split, one label value)."""

    signal: str
    model: str
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Gather:
    """Columns to take, the sign of each, and where each reading's run of columns starts."""

    readings: tuple[Reading, ...]
    columns: NDArray[np.intp]
    signs: FloatArray
    starts: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SignalPlan:
    """How to read scrapes of one schema.

    models: the model names on the page, the first served name first.
    missing: (signal, why) of what the page cannot give.
    """

    sums: _Gather
    maxima: _Gather
    models: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def has_engine(self) -> bool:
        """Whether the page has engine metrics at all; without them a worker is not idle."""
        return bool(self.sums.readings or self.maxima.readings)

    @property
    def model(self) -> str:
        """The first model name on the page, or ""."""
        return self.models[0] if self.models else ""


def plan_for(schema: Schema) -> SignalPlan:
    """Compile the plan of a schema. Costs milliseconds: keep it by `schema.id`."""
    columns = _engine_columns(schema.series)
    found: dict[Combine, list[tuple[Reading, list[int], list[float]]]] = {
        Combine.SUM: [],
        Combine.MAX: [],
    }
    missing = []
    for meaning in table.MEANINGS:
        terms = _terms_of(meaning, schema.series, columns)
        if not terms:
            missing.append((meaning.signal, _NOT_REPORTED if columns else _NO_ENGINE))
        for reading, signed in terms.items():
            taken, signs = [column for column, _ in signed], [sign for _, sign in signed]
            found[meaning.combine].append((reading, taken, signs))
    sums, maxima = _gather(found[Combine.SUM]), _gather(found[Combine.MAX])
    models = dict.fromkeys(reading.model for reading in (*sums.readings, *maxima.readings))
    return SignalPlan(sums, maxima, tuple(model for model in models if model), tuple(missing))


def missing(plan: SignalPlan) -> tuple[tuple[str, str], ...]:
    """Return (signal, why) of what the page cannot give; told, because absent is not zero."""
    return plan.missing


def signals_of(plan: SignalPlan, values: FloatArray, labels: Labels) -> list[Sample]:
    """Return the ds4_* signals of one scrape, with the worker's `labels` and the model's name."""
    fixed = dict(labels)
    return [
        Sample(
            reading.signal,
            labels_of({**fixed, "model": reading.model, **dict(reading.extra)}),
            value,
        )
        for reading, value in _readings(plan, values)
    ]


def load_of(plan: SignalPlan, values: FloatArray) -> WorkerLoad:
    """Return what the scrape says of the worker's load, over all its models and engines."""
    found = _by_signal(plan, values)
    return WorkerLoad(
        running=_total(found.get(table.RUNNING)),
        waiting=_total(found.get(table.QUEUE)),
        kv_usage_ratio=max(found[table.KV_USAGE]) if table.KV_USAGE in found else None,
    )


def point_of(plan: SignalPlan, values: FloatArray, at: UnixSeconds) -> CounterPoint:
    """Return the counters that ratios over time are derived from, over all models and engines."""
    found = _by_signal(plan, values)
    return CounterPoint(
        at,
        prompt=_total(found.get(table.PROMPT)),
        prefill=_total(found.get(table.PREFILL)),
        cached=_total(found.get(table.CACHED)),
        generated=_total(found.get(table.GENERATED)),
        prefill_seconds=_total(found.get(table.PREFILL_SECONDS)),
        decode_seconds=_total(found.get(table.DECODE_SECONDS)),
    )


def _readings(plan: SignalPlan, values: FloatArray) -> Iterator[tuple[Reading, float]]:
    """Yield what a scrape gives. NaN and less than nothing are no readings of these signals."""
    for gather, combine in ((plan.sums, np.add), (plan.maxima, np.maximum)):
        if not gather.readings:
            continue
        numbers = combine.reduceat(values[gather.columns] * gather.signs, gather.starts)
        for reading, value in zip(gather.readings, numbers.tolist(), strict=True):
            if not math.isnan(value) and value >= 0:
                yield reading, value


def _by_signal(plan: SignalPlan, values: FloatArray) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for reading, value in _readings(plan, values):
        found.setdefault(reading.signal, []).append(value)
    return found


def _total(values: Sequence[float] | None) -> float | None:
    return None if values is None else sum(values)


def _engine_columns(series: Sequence[SeriesKey]) -> dict[str, list[int]]:
    """Return the engine's columns by bare name, under the first prefix that the page uses."""
    for prefix in table.ENGINE_PREFIXES:
        columns: dict[str, list[int]] = {}
        for column, key in enumerate(series):
            if key.name.startswith(prefix):
                columns.setdefault(key.name.removeprefix(prefix), []).append(column)
        if columns:
            return columns
    return {}


def _terms_of(
    meaning: Meaning, series: Sequence[SeriesKey], columns: _Columns
) -> dict[Reading, list[tuple[int, float]]]:
    """Return, by reading, the signed columns of the first source that the page can serve."""
    for source in meaning.sources:
        signed = _signed_columns(source, series, columns)
        if signed:
            return _grouped(meaning, series, signed)
    return {}


def _signed_columns(
    source: Source, series: Sequence[SeriesKey], columns: _Columns
) -> list[tuple[int, float]]:
    if source.given and not _picked(source.given, series, columns):
        return []
    signed: list[tuple[int, float]] = []
    for picks, sign in ((source.add, 1.0), (source.subtract, -1.0)):
        for pick in picks:
            picked = _picked(pick, series, columns)
            if not picked:
                return []
            signed += [(column, sign) for column in picked]
    return signed


def _picked(pick: Pick, series: Sequence[SeriesKey], columns: _Columns) -> list[int]:
    found = columns.get(pick.name) or columns.get(pick.name.removesuffix("_total")) or ()
    if not pick.label:
        return list(found)
    return [column for column in found if _label(series[column], pick.label) in pick.values]


def _label(key: SeriesKey, name: str) -> str:
    return dict(key.labels).get(name, "")


def _grouped(
    meaning: Meaning, series: Sequence[SeriesKey], signed: Iterable[tuple[int, float]]
) -> dict[Reading, list[tuple[int, float]]]:
    groups: dict[Reading, list[tuple[int, float]]] = {}
    for column, sign in signed:
        extra: tuple[tuple[str, str], ...] = ()
        if meaning.split:
            theirs, ours = meaning.split
            extra = ((ours, _label(series[column], theirs)),)
        model = _label(series[column], table.MODEL_LABEL)
        reading = Reading(meaning.signal, model, extra)
        groups.setdefault(reading, []).append((column, sign))
    return groups


def _gather(found: Sequence[tuple[Reading, list[int], list[float]]]) -> _Gather:
    lengths = [len(columns) for _, columns, _ in found]
    return _Gather(
        readings=tuple(reading for reading, _, _ in found),
        columns=np.array([c for _, columns, _ in found for c in columns], dtype=np.intp),
        signs=np.array([s for _, _, signs in found for s in signs], dtype=np.float64),
        starts=np.cumsum([0, *lengths[:-1]], dtype=np.intp),
    )
