"""A plan in the making: readings and own series, gathered while tables are gone through."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ds4watch.model.series import FloatArray, Labels, SeriesKey
from ds4watch.vocabulary.names import PAGE_SIGNALS
from ds4watch.vocabulary.plan import (
    NOT_ON_PAGE,
    Adapters,
    Bounds,
    Gather,
    IntArray,
    PagePlan,
    Shown,
    limits_of,
)
from ds4watch.vocabulary.table import Combine
from ds4watch.vocabulary.windows import COUNTERS, RATIOS

_OVER_ZERO = math.nextafter(0.0, 1.0)


@dataclass(slots=True, eq=False)
class Reading:
    """One number to read: columns and weights, how they combine, what is believed of it."""

    terms: Sequence[tuple[int, float]]
    combine: Combine = Combine.SUM
    offset: float = 0.0
    upper: float = math.inf
    no_zero: bool = False
    guard: Reading | None = None
    veto: Reading | None = None


@dataclass(slots=True)
class Draft:
    """What is known so far of the plan of a page."""

    series: Sequence[SeriesKey]
    readings: list[tuple[SeriesKey, Reading, bool]] = field(default_factory=list)
    hidden: list[Reading] = field(default_factory=list)
    totals: dict[str, Reading] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    derived: list[tuple[SeriesKey, int]] = field(default_factory=list)
    states: dict[str, SeriesKey] = field(default_factory=dict)
    adapters: Adapters | None = None
    constants: list[tuple[SeriesKey, float]] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    engine: str = ""
    models: list[str] = field(default_factory=list)
    engines: tuple[str, ...] = ()
    local: bool = False

    @property
    def given(self) -> frozenset[str]:
        """Signals that the page has by our own name, and that we leave to it."""
        return frozenset(key.name for key in self.series if key.name in PAGE_SIGNALS)

    def add(self, name: str, labels: Labels, reading: Reading, *, whole: bool = False) -> None:
        """Add a series that is read. `whole`: it adds up engines."""
        self.readings.append((SeriesKey(name, labels), reading, whole))

    def constant(self, name: str, labels: Labels, value: float = 1.0) -> None:
        """Add a series that says the same at each scrape."""
        self.constants.append((SeriesKey(name, labels), value))


def compiled(draft: Draft) -> PagePlan:
    """Make the plan: every list becomes an array."""
    ordered = _ordered(draft)
    place = {id(reading): index for index, reading in enumerate(ordered)}
    own = _own(draft)
    sums = [it for it in ordered if it.combine is Combine.SUM]
    maxima = [it for it in ordered if it.combine is Combine.MAX]

    def totals(names: Iterable[str]) -> IntArray:
        found = [draft.totals.get(name) for name in names]
        return _indices([NOT_ON_PAGE if it is None else place[id(it)] for it in found])

    return PagePlan(
        own=own,
        shown=_shown(draft, own),
        page_columns=len(draft.series),
        sums=_gather(sums),
        maxima=_gather(maxima),
        bounds=_bounds(ordered, place),
        readings=_indices([place[id(reading)] for _, reading, _ in draft.readings]),
        whole=_indices(sorted({place[id(it)] for it in _whole(draft)})),
        derived=_indices([ratio for _, ratio in draft.derived]),
        has_missing=MISSING in draft.states,
        has_stale=STALE in draft.states,
        adapters=draft.adapters,
        constants=np.array([value for _, value in draft.constants], dtype=np.float64),
        counters=totals(COUNTERS),
        sources=_indices([draft.sources.get(name, NOT_ON_PAGE) for name in COUNTERS]),
        loads=totals(LOADS),
        progress=np.array(
            [place[id(draft.totals[n])] for n in MOVING if n in draft.totals], np.intp
        ),
        engine=draft.engine,
        model=next((model for model in draft.models if model), ""),
        engines=draft.engines,
        local=draft.local,
    )


MISSING = "ds4_engines_missing"
STALE = "ds4_gauges_stale"
LOADS = ("ds4_running_requests", "ds4_queue_depth", "ds4_kv_usage_ratio")
"""In the order of `PagePlan.loads`."""
MOVING = (
    "ds4_engine_steps_total",
    "ds4_generated_tokens_total",
    "ds4_prompt_tokens_total",
    "ds4_prefill_tokens_total",
)
"""Counters any of which rises while an engine does something."""


def derivable(draft: Draft) -> list[tuple[str, str, int]]:
    """Return the ratios that the page's counters allow: signal, kind, place."""
    return [
        (name, kind, place)
        for place, (name, kind, needed) in enumerate(RATIOS)
        if name not in draft.given and all(it in draft.totals for it in needed)
    ]


def _ordered(draft: Draft) -> list[Reading]:
    """Return each reading once, sums before maxima."""
    found = [*(reading for _, reading, _ in draft.readings), *draft.hidden]
    unique = list({id(reading): reading for reading in found}.values())
    return sorted(unique, key=lambda it: it.combine is Combine.MAX)


def _whole(draft: Draft) -> list[Reading]:
    flagged = [reading for _, reading, whole in draft.readings if whole]
    return [*flagged, *draft.totals.values()]


def _own(draft: Draft) -> tuple[SeriesKey, ...]:
    states = [draft.states[name] for name in (MISSING, STALE) if name in draft.states]
    adapters = (
        [SeriesKey("ds4_lora_running_adapters"), SeriesKey("ds4_lora_waiting_adapters")]
        if draft.adapters
        else []
    )
    return (
        *(key for key, _, _ in draft.readings),
        *(key for key, _ in draft.derived),
        *states,
        *adapters,
        *(key for key, _ in draft.constants),
    )


def _shown(draft: Draft, own: Sequence[SeriesKey]) -> tuple[Shown, ...]:
    page = len(draft.series)
    theirs = [
        Shown(key.name, key.labels, column)
        for column, key in enumerate(draft.series)
        if key.name in PAGE_SIGNALS
    ]
    ours = [Shown(key.name, key.labels, page + place) for place, key in enumerate(own)]
    return (*theirs, *ours)


def _gather(readings: Sequence[Reading]) -> Gather:
    lengths = [len(reading.terms) for reading in readings]
    weights = np.array([w for it in readings for _, w in it.terms], dtype=np.float64)
    return Gather(
        columns=_indices([column for it in readings for column, _ in it.terms]),
        starts=np.cumsum([0, *lengths[:-1]], dtype=np.intp) if lengths else _indices([]),
        weights=weights if (weights != 1.0).any() else None,
    )


def _bounds(readings: Sequence[Reading], place: dict[int, int]) -> Bounds:
    limits, tops = limits_of([reading.upper for reading in readings])
    offsets: FloatArray = np.array([reading.offset for reading in readings], dtype=np.float64)

    def pairs(others: Iterable[Reading | None]) -> tuple[IntArray, IntArray]:
        found = [(n, place[id(it)]) for n, it in enumerate(others) if it is not None]
        return _indices([n for n, _ in found]), _indices([other for _, other in found])

    return Bounds(
        floors=np.array([_OVER_ZERO if reading.no_zero else 0.0 for reading in readings]),
        limits=limits,
        tops=tops,
        offsets=offsets if offsets.any() else None,
        guarded=pairs(reading.guard for reading in readings),
        vetoed=pairs(reading.veto for reading in readings),
    )


def _indices(numbers: Sequence[int]) -> IntArray:
    return np.array(numbers, dtype=np.intp)
