"""A live buffer's contents as tables that tests can compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ds4watch.history.frames import NO_SCHEMA, FailedScrape, StoredFrame
from ds4watch.history.live import LiveBuffer
from ds4watch.model.scrape import ScrapeResult
from ds4watch.model.series import Schema, SeriesKey
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Matcher, MatchOp, Windows

FULL = Schema(1, (SeriesKey("a", (("x", "1"),)), SeriesKey("a", (("x", "2"),)), SeriesKey("other")))
LESS = Schema(2, (SeriesKey("a", (("x", "2"),)),))
CLASH = Schema(3, (SeriesKey("a", (("exported_job", "e"), ("job", "page"))),))
OWN = Schema(4, (SeriesKey("ds4_own"), SeriesKey("up")))
SCHEMAS = {schema.id: schema for schema in (FULL, LESS, CLASH, OWN)}
UP = {"up": 100.0, "scrape_samples_scraped": 100.0, "scrape_duration_seconds": 100.0}
Table = dict[str, list[tuple[float, float]]]


def name(value: str) -> Matcher:
    return Matcher("__name__", MatchOp.EQUAL, value)


def column(*sets: Sequence[tuple[str, str]]) -> LabelColumn:
    return LabelColumn(tuple(tuple(sorted(one)) for one in sets))


def show(windows: Windows, label: str = "x") -> Table:
    """Return {label value: [(time, value)]}."""
    table: Table = {}
    for row, labels in enumerate(windows.labels):
        count = windows.counts[row]
        pairs = zip(windows.times[row, :count], windows.values[row, :count], strict=True)
        table[dict(labels).get(label, "")] = [(float(at), float(value)) for at, value in pairs]
    return table


def held(
    buffer: LiveBuffer, metric: str, start: float = 0, end: float = 100, label: str = "x"
) -> Table:
    return show(buffer.windows([name(metric)], start, end), label)


def live(buffer: LiveBuffer, metric: str, at: float, label: str = "x") -> dict[str, float]:
    """What an instant selector sees at `at`."""
    found = buffer.latest([name(metric)], at - 300, at)
    values = found.values.tolist()
    return {dict(one).get(label, ""): it for one, it in zip(found.labels, values, strict=True)}


def take(buffer: LiveBuffer, *results: ScrapeResult) -> None:
    for result in results:
        buffer.append([result], SCHEMAS.__getitem__)


def frames(results: Sequence[ScrapeResult]) -> list[StoredFrame]:
    """What the store makes of scrapes of one target."""
    runs: list[list[ScrapeResult]] = []
    for result in results:
        ids = {one.schema_id for one in runs[-1] if one.failure is None} if runs else set()
        if runs and (result.failure or not ids or ids == {result.schema_id}):
            runs[-1].append(result)
        else:
            runs.append([result])
    return [_frame(run) for run in runs]


def _frame(run: Sequence[ScrapeResult]) -> StoredFrame:
    good = [one for one in run if one.failure is None]
    schema = SCHEMAS[good[0].schema_id] if good else NO_SCHEMA
    kept = [place for place, key in enumerate(schema.series) if key.name == "a"]
    values = np.array([one.values for one in good], dtype=np.float64)
    return StoredFrame(
        target=run[0].target,
        schema=schema,
        columns=np.array(kept, dtype=np.intp),
        times=np.array([one.at for one in good], dtype=np.float64),
        values=values.reshape(len(good), len(schema.series))[:, kept],
        took_seconds=np.array([one.took_seconds for one in good], dtype=np.float64),
        page_samples=np.full(len(good), -1),
        failures=tuple(
            FailedScrape(one.at, one.took_seconds, one.failure) for one in run if one.failure
        ),
    )
