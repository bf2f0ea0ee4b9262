"""Whatever comes in, the live buffer holds what a plain definition says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.history.live import LiveBuffer
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import STALE_NAN, is_stale
from ds4watch.promql.storage import Ends, Windows
from tests.edge.history.helpers import W1, W2, failed, scrape
from tests.edge.history.live_support import (
    SCHEMAS,
    frames,
    name,
    take,
)

number = st.one_of(
    st.integers(0, 5).map(float), st.sampled_from([math.nan, math.inf, STALE_NAN, -1.5])
)
one_scrape: st.SearchStrategy[tuple[int, list[float]]] = st.one_of(
    st.tuples(st.just(1), st.lists(number, min_size=3, max_size=3)),
    st.tuples(st.just(2), st.lists(number, min_size=1, max_size=1)),
    st.just((0, [])),
)
story = st.lists(st.tuples(st.sampled_from([W1, W2]), st.integers(1, 4), one_scrape), max_size=60)


def told(moves: list[tuple[Target, int, tuple[int, list[float]]]]) -> list[ScrapeResult]:
    at = 1000.0
    results = []
    for target, step, (schema_id, values) in moves:
        at += step
        result = scrape(at, values, schema_id=schema_id, target=target)
        results.append(result if schema_id else failed(at, target=target))
    return results


def plainly(results: Sequence[ScrapeResult], start: float, end: float) -> dict[Any, list[Any]]:
    """All samples of "a" in the window, by the definition."""
    found: dict[Any, list[Any]] = {}
    for result in results:
        if result.failure is None and start < result.at <= end:
            for key, value in zip(SCHEMAS[result.schema_id].series, result.values, strict=True):
                if key.name == "a" and not is_stale(np.array([value]))[0]:
                    found.setdefault((result.target.name, key.labels[0][1]), []).append(
                        (result.at, repr(float(value)))
                    )
    return found


def seen(windows: Windows) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for row, labels in enumerate(windows.labels):
        its = dict(labels)
        count = windows.counts[row]
        pairs = zip(windows.times[row, :count], windows.values[row, :count], strict=True)
        found[its["worker"], its["x"]] = [(float(at), repr(float(it))) for at, it in pairs]
    return found


def ends_of_windows(windows: Windows) -> list[tuple[Any, ...]]:
    rows = []
    for row, labels in enumerate(windows.labels):
        count = int(windows.counts[row])
        times, values = windows.times[row, :count], windows.values[row, :count]
        drops = float(sum(a for a, b in pairwise(values) if b < a))
        rows.append(
            (labels, times[0], repr(values[0]), times[-1], repr(values[-1]), count, repr(drops))
        )
    return rows


def as_rows(ends: Ends) -> list[tuple[Any, ...]]:
    return [
        (
            labels,
            ends.first_times[row],
            repr(ends.first_values[row]),
            ends.last_times[row],
            repr(ends.last_values[row]),
            int(ends.counts[row]),
            repr(float(ends.drops[row])),
        )
        for row, labels in enumerate(ends.labels)
    ]


@given(story, st.integers(0, 100), st.integers(1, 60), st.booleans())
def test_whatever_comes_in_windows_and_their_ends_are_as_defined(
    moves: list[Any],
    back: int,
    length: int,
    reloaded: bool,
) -> None:
    results = told(moves)
    buffer = LiveBuffer(window_seconds=900, windows={"a": 900.0})
    if reloaded:
        half = len(results) // 2
        for target in (W1, W2):
            mine = [one for one in results[:half] if one.target is target]
            if mine:
                buffer.fill(frames(mine))
        take(buffer, *results[half:])
    else:
        take(buffer, *results)
    end = (results[-1].at if results else 1000.0) - back
    windows = buffer.windows([name("a")], end - length, end)
    assert seen(windows) == plainly(results, end - length, end)
    assert as_rows(buffer.ends([name("a")], end - length, end)) == ends_of_windows(windows)
    newest: dict[Any, Any] = {}
    for target in (W1, W2):
        until = [one for one in results if one.target is target and one.at <= end]
        for key, samples in plainly(until, end - 300, end).items():
            if until[-1].failure is None and samples[-1][0] == until[-1].at:
                newest[key] = samples[-1]
    latest = buffer.latest([name("a")], end - 300, end)
    shown = {
        (dict(labels)["worker"], dict(labels)["x"]): (float(at), repr(float(value)))
        for labels, at, value in zip(latest.labels, latest.times, latest.values, strict=True)
    }
    assert shown == newest
    if back == 0 and results:
        down = {
            target.name
            for target in (W1, W2)
            if any(one.target is target for one in results)
            and [one for one in results if one.target is target][-1].failure
        }
        ever = {worker for worker, _ in plainly(results, 0, end)}
        assert buffer.latest([name("a")], 0, end).failed == bool(down & ever)
