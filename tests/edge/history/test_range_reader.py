"""Range queries over what is stored: chunks, raw scrapes, failures, new pages."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ds4watch.history.range_reader import ReadLimits, StoredRanges
from ds4watch.model.errors import QueryError, StoreError
from ds4watch.model.scrape import ScrapeResult
from ds4watch.model.series import NAME_LABEL, Labels, SeriesKey, is_stale
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.parse import parse
from ds4watch.promql.storage import Matcher, MatchOp
from tests.edge.history.folding import counting, open_store
from tests.edge.history.helpers import AB, NOW, W1, W2, Bases, SqliteBase, failed, scrape

A = Matcher(NAME_LABEL, MatchOp.EQUAL, "a")


async def stored(
    bases: Bases, results: Sequence[ScrapeResult], *, folded_at: float | None = None
) -> None:
    store = open_store(bases.samples.place)
    store.intern(AB)
    await store.append(results)
    if folded_at is not None:
        await store.fold(folded_at)
    await store.close()


def read(
    reader: StoredRanges, *matchers: Matcher, start: float = NOW - 1, end: float = NOW + 9999
) -> dict[Labels, dict[float, float | None]]:
    """Return values by time; None is a marker."""
    found = reader.columns(matchers, start, end)
    rows = {}
    for block in found.blocks:
        for row, values in zip(block.rows.tolist(), block.values, strict=True):
            marks = is_stale(values)
            rows[found.labels.sets[row]] = {
                at: None if mark else value
                for at, value, mark in zip(
                    (block.times - NOW).tolist(), values.tolist(), marks, strict=True
                )
            }
    return rows


async def test_chunks_and_raw_scrapes_are_one_series(bases: Bases) -> None:
    await stored(bases, counting(range(0, 1500, 15)), folded_at=NOW + 700)
    with closing(StoredRanges(bases.samples.place)) as reader:
        (points,) = read(reader, A).values()
        assert points == {float(n): float(n) for n in range(0, 1500, 15)}


async def test_what_comes_later_is_seen_by_a_reader_that_is_open(bases: Bases) -> None:
    await stored(bases, counting(range(0, 300, 15)))
    with closing(StoredRanges(bases.samples.place)) as reader:
        assert max(next(iter(read(reader, A).values()))) == 285
        await stored(bases, counting(range(300, 900, 15)), folded_at=NOW + 700)
        assert list(next(iter(read(reader, A).values()))) == list(range(0, 900, 15))
        await stored(bases, counting(range(0, 60, 15), target=W2))
        assert len(read(reader, A)) == 2


async def test_matchers_see_the_labels_of_target_and_page(bases: Bases) -> None:
    both = [*counting([0]), *counting([0], target=W2)]
    await stored(bases, both)
    with closing(StoredRanges(bases.samples.place)) as reader:
        worker = Matcher("worker", MatchOp.REGEX, "w1|w3")
        assert [dict(labels)["worker"] for labels in read(reader, A, worker)] == ["w1"]
        x = Matcher("x", MatchOp.NOT_EQUAL, "")
        assert {dict(labels)[NAME_LABEL] for labels in read(reader, x)} == {"b"}
        assert read(reader, A, Matcher("job", MatchOp.EQUAL, "other")) == {}


async def test_failed_scrapes_are_markers_and_lower_up(bases: Bases) -> None:
    results = [*counting([0, 15]), failed(NOW + 30), *counting([45])]
    for folded_at in (None, NOW + 2000):
        await stored(bases, [] if folded_at else results, folded_at=folded_at)
        with closing(StoredRanges(bases.samples.place)) as reader:
            (points,) = read(reader, A).values()
            assert points == {0: 0, 15: 15, 30: None, 45: 45}
            (up,) = read(reader, Matcher(NAME_LABEL, MatchOp.EQUAL, "up")).values()
            assert up == {0: 1, 15: 1, 30: 0, 45: 1}
            took = Matcher(NAME_LABEL, MatchOp.EQUAL, "scrape_duration_seconds")
            assert next(iter(read(reader, took).values()))[30] == 5.0


async def test_series_of_a_new_page_begin_and_those_of_the_old_end(bases: Bases) -> None:
    store = open_store(bases.samples.place)
    store.intern(AB)
    other = store.intern((SeriesKey("c"), SeriesKey("a")))
    await store.append(counting([0]))
    await store.append([scrape(NOW + 15, [7.0, 8.0], schema_id=other.id)])
    await store.close()
    with closing(StoredRanges(bases.samples.place)) as reader:
        found = read(reader, Matcher(NAME_LABEL, MatchOp.REGEX, "a|b|c"))
        by_name = {dict(labels)[NAME_LABEL]: points for labels, points in found.items()}
    assert by_name["a"] == {0: 0, 15: 8}
    assert by_name["b"] == {0: 0, 15: None}
    assert by_name["c"] == {0: None, 15: 7}


async def test_targets_of_equal_labels_are_one(bases: Bases) -> None:
    moved = replace(W1, url="http://127.0.0.1:9999/metrics")
    await stored(bases, [*counting([0, 30]), *counting([15, 45], target=moved)])
    with closing(StoredRanges(bases.samples.place)) as reader:
        (points,) = read(reader, A).values()
        assert list(points) == [0, 15, 30, 45]


async def test_too_much_is_refused(bases: Bases) -> None:
    await stored(bases, counting(range(0, 150, 15)))
    for limits, told in (
        (ReadLimits(samples=9), "a selector of over 9 samples"),
        (ReadLimits(series=1), "a selector of over 1 series"),
    ):
        with (
            closing(StoredRanges(bases.samples.place, limits)) as reader,
            pytest.raises(QueryError, match=told),
        ):
            read(reader, Matcher(NAME_LABEL, MatchOp.REGEX, "a|b"))


async def test_what_was_read_before_time_was_up_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state" / "samples.db"
    bases = Bases(SqliteBase(path), SqliteBase(path.with_name("state.db")))
    await stored(bases, [*counting([0]), *counting([0], target=W2)])
    # A second passes each time that the reader looks at its clock.
    seconds = itertools.count()
    limits = ReadLimits(seconds=1.5)
    with closing(StoredRanges(path, limits, monotonic=lambda: next(seconds))) as reader:
        with pytest.raises(QueryError, match="what was read is kept"):
            read(reader, A)
        one = Matcher("worker", MatchOp.EQUAL, "w1")
        assert len(read(reader, A, one)) == 1


async def test_damage_is_left_out_and_told(bases: Bases, caplog: pytest.LogCaptureFixture) -> None:
    await stored(bases, counting(range(0, 1300, 15)), folded_at=NOW + 1300)
    # Cut, for a chunk of several series is looked at only where it is read.
    cut = "UPDATE chunks SET payload = substr(payload, 1, payload_bytes - 90)"
    bases.samples.execute(f"{cut} WHERE start_ms % 1200000 = 0")
    with closing(StoredRanges(bases.samples.place)) as reader:
        with caplog.at_level(logging.WARNING):
            (points,) = read(reader, A).values()
        assert len(points) < len(range(0, 1300, 15))
    assert "is left out" in caplog.text


async def test_a_file_in_the_place_of_another_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "state" / "samples.db"
    bases = Bases(SqliteBase(path), SqliteBase(path.with_name("state.db")))
    await stored(bases, counting([0]))
    with closing(StoredRanges(path)) as reader:
        assert len(next(iter(read(reader, A).values()))) == 1
        for one in path.parent.glob("samples.db*"):
            one.rename(one.with_name(f"old-{one.name}"))
        with pytest.raises(StoreError, match="cannot be read"):
            read(reader, A)
        await stored(bases, counting([0, 15]))
        assert len(next(iter(read(reader, A).values()))) == 2


async def test_a_day_is_evaluated_as_from_memory(bases: Bases) -> None:
    await stored(bases, counting(range(0, 3600, 15)), folded_at=NOW + 3700)
    with closing(StoredRanges(bases.samples.place)) as reader:
        got = evaluate_range(parse("sum(rate(a[5m]))"), reader, NOW + 600.5, NOW + 3000.5, 60)
        assert np.allclose(got.values, 1.0)
