"""Pages for tests: as text or as {series: value}, and what is read from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ds4watch.model.series import STALE_NAN, FloatArray, Schema, SeriesKey, labels_of
from ds4watch.model.worker import WorkerLoad
from ds4watch.vocabulary.compile import ANYWHERE, Origin, plan_for
from ds4watch.vocabulary.names import EXPOSED
from ds4watch.vocabulary.plan import PagePlan, read, write
from ds4watch.vocabulary.windows import RATIOS

DATA = Path(__file__).resolve().parents[2] / "data" / "metrics"
SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "metrics"

Page: TypeAlias = dict[str, float]
Found: TypeAlias = dict[tuple[str, ...], float]

_LINE = re.compile(r"(?P<series>[^{\s]+(?:\{.*\})?)\s+(?P<value>\S+)\s*$")


def page_of(lines: Page | str) -> tuple[Schema, FloatArray]:
    """Make a page from {series as written: value}, or from well-formed text."""
    if isinstance(lines, str):
        found = [_LINE.match(line) for line in lines.splitlines() if line[:1] not in ("#", "")]
        lines = {match["series"]: float(match["value"]) for match in found if match}
    series = tuple(
        SeriesKey(
            written.partition("{")[0], labels_of(dict(re.findall(r'(\w+)="([^"]*)"', written)))
        )
        for written in lines
    )
    return Schema(1, series), np.array([*lines.values()], dtype=np.float64)


def plan_of(lines: Page | str, origin: Origin = ANYWHERE) -> PagePlan:
    """Compile the plan of a page."""
    return plan_for(page_of(lines)[0], origin)


def everything(lines: Page | str, origin: Origin = ANYWHERE) -> Found:
    """Return all that is read from a page: {(signal, label value…): value}, absent ones left out.

    Label values come in the order model, then by label name.
    """
    schema, values = page_of(lines)
    plan = plan_for(schema, origin)
    rows = np.full((1, len(values) + len(plan.own)), np.nan)
    rows[0, : len(values)] = values
    pages = rows[:, : len(values)]
    nothing = np.full((1, len(RATIOS)), STALE_NAN)
    write(plan, rows, read(plan, pages), nothing, (np.zeros(1), np.zeros(1)))
    own = zip(plan.own, rows[0, len(values) :].tolist(), strict=True)
    return {_short(key): value for key, value in own if value == value}  # noqa: PLR0124 - NaN


def signals(lines: Page | str, origin: Origin = ANYWHERE) -> Found:
    """Return what is read from a page's numbers: without what only describes it."""
    told = ("ds4_vocabulary_", "ds4_engines", "ds4_engine_reported", "ds4_gauges_stale")
    settings = ("ds4_cache_block_tokens", "ds4_gpu_memory_granted_ratio")
    return {
        key: value
        for key, value in everything(lines, origin).items()
        if not key[0].startswith(told) and key[0] not in settings
    }


def missing(lines: Page | str) -> dict[str, str]:
    """Return {signal: why} of what a page's engine does not report."""
    found = everything(lines)
    return {key[1]: key[2] for key in found if key[0] == "ds4_vocabulary_missing"}


def load(lines: Page | str) -> WorkerLoad:
    """Return the load that a page tells of."""
    schema, values = page_of(lines)
    plan = plan_for(schema)
    found = read(plan, values[None, :]).take(plan.loads, axis=1)[0].tolist()
    return WorkerLoad(*[None if value != value else value for value in found])  # noqa: PLR0124 - NaN


def totals(lines: Page | str) -> list[float]:
    """Return the counters behind ratios, NaN where one is not reported."""
    schema, values = page_of(lines)
    plan = plan_for(schema)
    found: list[float] = read(plan, values[None, :]).take(plan.counters, axis=1)[0].tolist()
    return found


def _short(key: SeriesKey) -> tuple[str, ...]:
    labels = dict(key.labels)
    has_model = "model" in EXPOSED[key.name].labels
    model = (labels.pop("model", ""),) if has_model else ()
    return (key.name, *model, *labels.values())
