"""Compiles the tables against a page's series, once for each schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ds4watch.model.series import Labels, Schema, SeriesKey, labels_of
from ds4watch.vocabulary import draft as parts
from ds4watch.vocabulary.columns import (
    Columns,
    Found,
    LabelsOf,
    by_name,
    engine_columns,
    find,
    label,
    picked,
)
from ds4watch.vocabulary.compile_devices import add_devices
from ds4watch.vocabulary.draft import Draft, Reading, compiled, derivable
from ds4watch.vocabulary.engines import (
    BLOCK_TOKENS,
    CACHE_CONFIG,
    ENGINES,
    LORA_INFO,
    MEMORY_GRANTED,
    MISS_RATIO,
    MODEL_LABEL,
)
from ds4watch.vocabulary.names import WORKER_SIGNALS
from ds4watch.vocabulary.plan import Adapters, PagePlan
from ds4watch.vocabulary.routers import MODEL_LABELS, ROUTER_MEANINGS
from ds4watch.vocabulary.table import Combine, Engine, Meaning, Pick

_REPORTED = "ds4_engine_reported"
_REPLICA_LABELS = ("ReplicaId", "WorkerId")
"""Of Ray: each replica counts its engines from 0, and replicas come and go."""

_OF_WORKERS = {signal.name: signal for signal in WORKER_SIGNALS}


@dataclass(frozen=True, slots=True)
class Origin:
    """What series need to know of their target, on pages that are not an engine's.

    router, host: names for these labels. is_worker: an engine should be there.
    """

    router: str = ""
    host: str = ""
    is_worker: bool = False


ANYWHERE = Origin()


def plan_for(schema: Schema, origin: Origin = ANYWHERE) -> PagePlan:
    """Compile the plan of a schema. Costs milliseconds: keep it by schema and origin."""
    draft = Draft(schema.series)
    _add_engine(draft)
    columns = by_name(schema.series)
    add_devices(draft, columns, origin.host)
    _add_router(draft, columns, origin.router)
    if not draft.engine and origin.is_worker:
        draft.constant(_REPORTED, (), 0.0)
    return compiled(draft)


def _add_engine(draft: Draft) -> None:
    given = draft.given & _OF_WORKERS.keys()
    for name in sorted(given):
        _take_at_its_word(draft, name)
    for engine in ENGINES:
        columns = engine_columns(engine, draft.series)
        if columns and _add_meanings(draft, engine, columns):
            break
    if not draft.engine and given:
        draft.engine = "ds4"
    if not draft.engine:
        return
    _add_derived(draft)
    _add_states(draft)
    for signal, why in draft.missing:
        draft.constant("ds4_vocabulary_missing", labels_of({"signal": signal, "why": why}))


def _take_at_its_word(draft: Draft, name: str) -> None:
    """Read a signal that the page has by our own name, for loads and ratios; add nothing."""
    columns = [column for column, key in enumerate(draft.series) if key.name == name]
    combine = Combine.MAX if name.endswith("_ratio") else Combine.SUM
    reading = Reading([(column, 1.0) for column in columns], combine)
    draft.hidden.append(reading)
    draft.totals[name] = reading
    draft.models += [label(draft.series[column], "model", MODEL_LABEL) for column in columns]


def _add_meanings(draft: Draft, engine: Engine, columns: Columns) -> bool:
    engines = _engines(engine, draft.series, columns)
    any_found = False
    for meaning in engine.meanings:
        if meaning.signal == MISS_RATIO:
            continue
        has_model = "model" in _OF_WORKERS[meaning.signal].labels
        found = find(meaning, draft.series, columns, _model if has_model else _nothing)
        if found is None:
            if meaning.why and meaning.signal not in draft.given:
                draft.missing.append((meaning.signal, meaning.why))
            continue
        any_found = True
        if meaning.signal not in draft.given:
            _add_found(draft, meaning, found)
        if len(engines) > 1 and meaning.signal in engine.by_engine:
            _add_by_engine(draft, engine, meaning, columns)
    if not any_found:
        draft.missing.clear()
        return False
    draft.engine, draft.engines = engine.name, engines
    _add_hit_rate(draft, engine, columns)
    _add_information(draft, engine, columns)
    return True


def _model(key: SeriesKey) -> Labels:
    return (("model", label(key, MODEL_LABEL)),)


def _nothing(_key: SeriesKey) -> Labels:
    return ()


def _add_found(draft: Draft, meaning: Meaning, found: Found) -> None:
    whole = meaning.combine is Combine.SUM or meaning.upper == 1.0
    readings = []
    for labels, terms in found.terms.items():
        own = dict(labels)
        reading = Reading(
            terms,
            meaning.combine,
            found.source.offset,
            meaning.upper,
            no_zero=(own.get(meaning.split[1], "") if meaning.split else "") in meaning.no_zero,
        )
        readings.append(reading)
        draft.add(meaning.signal, labels, reading, whole=whole)
        draft.models.append(own.get("model", ""))
    draft.sources[meaning.signal] = found.place
    draft.totals[meaning.signal] = _total(draft, meaning, found, readings)


def _total(draft: Draft, meaning: Meaning, found: Found, readings: Sequence[Reading]) -> Reading:
    """Return the reading over all models and engines."""
    if len(readings) == 1:
        return readings[0]
    terms = [term for terms in found.terms.values() for term in terms]
    total = Reading(terms, meaning.combine, found.source.offset, meaning.upper)
    draft.hidden.append(total)
    return total


def _add_by_engine(draft: Draft, engine: Engine, meaning: Meaning, columns: Columns) -> None:
    def labels(key: SeriesKey) -> Labels:
        return (*_model(key), ("engine", label(key, engine.engine_label)))

    apart = replace(meaning, signal=engine.by_engine[meaning.signal])
    if apart.signal in draft.given:
        return
    found = find(apart, draft.series, columns, labels)
    for own, terms in (found.terms if found else {}).items():
        draft.add(apart.signal, own, Reading(terms, apart.combine, 0.0, apart.upper))


def _engines(engine: Engine, series: Sequence[SeriesKey], columns: Columns) -> tuple[str, ...]:
    keys = [series[column] for found in columns.values() for column in found]
    if any(label(key, *_REPLICA_LABELS) for key in keys):
        return ()
    return tuple(sorted({label(key, engine.engine_label) for key in keys} - {""}))


def _add_hit_rate(draft: Draft, engine: Engine, columns: Columns) -> None:
    """Use the engine's own gauge for the miss ratio where there are no counters for it."""
    if any(name == MISS_RATIO for name, _, _ in derivable(draft)) or MISS_RATIO in draft.given:
        return
    for meaning in engine.meanings:
        found = find(meaning, draft.series, columns, _model)
        if meaning.signal == MISS_RATIO and found is not None:
            _add_found(draft, meaning, found)


def _add_cache_config(draft: Draft, found: Sequence[SeriesKey]) -> None:
    for name, said in ((BLOCK_TOKENS, "block_size"), (MEMORY_GRANTED, "gpu_memory_utilization")):
        texts = [label(series, said) for series in found]
        numbers = [float(text) for text in texts if text.replace(".", "", 1).isdecimal()]
        if numbers and name not in draft.given:
            draft.constant(name, (), max(numbers))


def _add_information(draft: Draft, engine: Engine, columns: Columns) -> None:
    generation = _generation(engine, columns)
    draft.constant(
        "ds4_vocabulary_info", labels_of({"engine": engine.name, "generation": generation})
    )
    if draft.engines:
        draft.constant("ds4_engines", (), float(len(draft.engines)))
    _add_cache_config(draft, [draft.series[at] for at in columns.get(CACHE_CONFIG, ())])
    lora = picked(Pick(LORA_INFO), draft.series, columns)
    if lora:
        draft.adapters = Adapters(np.array(lora, dtype=np.intp), _adapter_counts(draft, lora))


def _generation(engine: Engine, columns: Columns) -> str:
    def has(name: str) -> bool:
        return name in columns or name.removesuffix("_total") in columns

    for generation in engine.generations:
        if all(map(has, generation.needs)) and not any(map(has, generation.lacks)):
            return generation.name
    return "unknown"


def _adapter_counts(draft: Draft, columns: Sequence[int]) -> np.ndarray:
    names = ("running_lora_adapters", "waiting_lora_adapters")
    return np.array(
        [
            [
                sum(bool(it.strip()) for it in label(draft.series[column], name).split(","))
                for name in names
            ]
            for column in columns
        ],
        dtype=np.float64,
    )


def _add_derived(draft: Draft) -> None:
    model = next((model for model in draft.models if model), "")
    for name, kind, place in derivable(draft):
        labels = labels_of({"model": model, "kind": kind})
        draft.derived.append((SeriesKey(name, labels), place))


def _add_states(draft: Draft) -> None:
    draft.constant(_REPORTED, ())
    if draft.engines:
        draft.states[parts.MISSING] = SeriesKey(parts.MISSING)
    if parts.STALE not in draft.given and any(name in draft.totals for name in parts.MOVING):
        draft.states[parts.STALE] = SeriesKey(parts.STALE)


def _add_router(draft: Draft, columns: Columns, router: str) -> None:
    def labels(key: SeriesKey) -> Labels:
        return (("router", router), ("model", label(key, *MODEL_LABELS)))

    for meaning, found in _router_meanings(draft, columns, labels):
        draft.local = True
        for own, terms in found.terms.items():
            draft.add(meaning.signal, own, Reading(terms, meaning.combine))


def _router_meanings(
    draft: Draft, columns: Columns, labels: LabelsOf
) -> Iterator[tuple[Meaning, Found]]:
    for meaning in ROUTER_MEANINGS:
        found = find(meaning, draft.series, columns, labels)
        if found is not None and meaning.signal not in draft.given:
            yield meaning, found
