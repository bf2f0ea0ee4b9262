from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ds4watch.history.live import LiveBuffer
from ds4watch.history.samples import SampleStore
from ds4watch.model.errors import QueryError
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Sample, Schema, SeriesKey, is_stale
from ds4watch.promql.storage import Matcher, MatchOp, SeriesWindow
from tests.edge.history.helpers import W1, W2, FixedClock, failed, scrape

FULL = Schema(1, (SeriesKey("a", (("x", "1"),)), SeriesKey("a", (("x", "2"),)), SeriesKey("other")))
LESS = Schema(2, (SeriesKey("a", (("x", "2"),)),))
CLASH = Schema(3, (SeriesKey("a", (("exported_job", "e"), ("job", "page"))),))
OWN = Schema(4, (SeriesKey("ds4_own"), SeriesKey("up")))
SCHEMAS = {schema.id: schema for schema in (FULL, LESS, CLASH, OWN)}
S = "stale"


@pytest.fixture
def buffer() -> LiveBuffer:
    return LiveBuffer(window_seconds=100, names=["a"])


def name(value: str) -> Matcher:
    return Matcher("__name__", MatchOp.EQUAL, value)


def show(
    windows: Sequence[SeriesWindow], label: str = "x"
) -> dict[str, list[tuple[float, object]]]:
    """Return {label value: [(time, value or "stale")]}."""
    table = {}
    for window in windows:
        stale = is_stale(window.values)
        table[dict(window.labels).get(label, "")] = [
            (at, S if is_it else value)
            for at, value, is_it in zip(
                window.times.tolist(), window.values.tolist(), stale, strict=True
            )
        ]
    return table


def take(buffer: LiveBuffer, *results: ScrapeResult) -> None:
    for result in results:
        buffer.append([result], SCHEMAS.__getitem__)


def test_it_holds_what_a_hand_made_table_holds(buffer: LiveBuffer) -> None:
    take(
        buffer,
        scrape(10, [1, 2, 3]),
        scrape(11, [4, 5, 6]),
        scrape(12, [7], schema_id=2),
        scrape(13, [8], schema_id=2),
        failed(14),
        failed(15),
        scrape(16, [9, 10, 11]),
    )
    everything = buffer.select([name("a")], 0, 100)
    assert show(everything) == {
        "1": [(10, 1), (11, 4), (12, S), (16, 9)],
        "2": [(10, 2), (11, 5), (12, 7), (13, 8), (14, S), (16, 10)],
    }
    assert show(buffer.select([name("up")], 0, 100)) == {
        "": [(10, 1), (11, 1), (12, 1), (13, 1), (14, 0), (15, 0), (16, 1)]
    }
    assert show(buffer.select([name("scrape_samples_scraped")], 13, 16)) == {
        "": [(14, 0), (15, 0), (16, 3)]
    }
    assert show(buffer.select([name("scrape_duration_seconds")], 13, 14)) == {"": [(14, 5.0)]}
    assert everything[0].labels == (
        ("__name__", "a"),
        ("job", "vllm"),
        ("worker", "w1"),
        ("x", "1"),
    )


def test_the_window_is_open_on_the_left_and_closed_on_the_right(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(11, [4, 5, 6]), scrape(12, [7, 8, 9]))
    assert show(buffer.select([name("a")], 10, 12))["1"] == [(11, 4), (12, 7)]
    assert buffer.select([name("a")], 12, 20) == []


def test_names_that_no_rule_selects_are_not_kept(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(11, [5, 9], schema_id=4, target=W2))
    assert buffer.select([name("other")], 0, 100) == []
    assert show(buffer.select([name("ds4_own")], 0, 100)) == {"": [(11, 5)]}
    assert buffer.latest("up") == [
        ((("job", "vllm"), ("worker", "w1")), 1.0),
        ((("job", "vllm"), ("worker", "w2")), 1.0),
    ]


def test_a_failed_target_shows_in_every_series_of_its_last_good_scrape(buffer: LiveBuffer) -> None:
    take(
        buffer,
        scrape(10, [1, 2, 3]),
        scrape(10, [1, 2, 3], target=W2),
        scrape(11, [7], schema_id=2),
        failed(12),
    )
    later = buffer.select([name("a")], 50, 60)
    assert [(dict(one.labels)["x"], one.failed, len(one.times)) for one in later] == [
        ("2", True, 0)
    ]
    assert [one.failed for one in buffer.select([name("a")], 0, 60)] == [True, True, False, False]
    assert [one.failed for one in buffer.select([name("up")], 0, 60)] == [False, False]
    assert [labels for labels, _ in buffer.latest("a")] == [
        (("job", "vllm"), ("worker", "w2"), ("x", "1")),
        (("job", "vllm"), ("worker", "w2"), ("x", "2")),
    ]
    take(buffer, scrape(61, [1, 2, 3]))
    assert not any(one.failed for one in buffer.select([name("a")], 0, 70))


def test_a_removed_target_ends_at_once_and_is_not_failed(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), failed(11), scrape(12, [4, 5, 6]))
    buffer.remove_target("w1", 12.5)
    assert show(buffer.select([name("a")], 11, 100))["1"] == [(12, 4), (12.5, S)]
    assert show(buffer.select([name("up")], 11, 100)) == {"": [(11 + 1, 1), (12.5, S)]}
    assert buffer.latest("a") == []
    take(buffer, scrape(200, [1, 2, 3], target=W2))
    assert [dict(one.labels)["worker"] for one in buffer.select([name("a")], 0, 300)] == ["w2"] * 2


def test_a_target_with_new_labels_ends_the_old_series(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    moved = Target("w1", W1.url, (("job", "vllm"), ("worker", "w1"), ("zone", "b")))
    take(buffer, scrape(11, [4, 5, 6], target=moved))
    table = show(buffer.select([name("up")], 0, 100), "zone")
    assert table == {"": [(10, 1), (11, S)], "b": [(11, 1)]}


def test_a_label_that_the_page_and_the_target_share_is_exported(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1], schema_id=3))
    (window,) = buffer.select([name("a")], 0, 100)
    labels = dict(window.labels)
    assert labels["job"] == "vllm"
    assert labels["exported_exported_job"] == "page"
    assert labels["exported_job"] == "e"


@pytest.mark.parametrize(
    ("op", "value", "found"),
    [
        (MatchOp.EQUAL, "1", ["1"]),
        (MatchOp.NOT_EQUAL, "1", ["2"]),
        (MatchOp.REGEX, "1|2", ["1", "2"]),
        (MatchOp.REGEX, "[12]3?", ["1", "2"]),
        (MatchOp.REGEX, "", []),
        (MatchOp.NOT_REGEX, "1.*", ["2"]),
        (MatchOp.EQUAL, "", []),
    ],
)
def test_matchers_are_anchored(
    buffer: LiveBuffer, op: MatchOp, value: str, found: list[str]
) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    assert list(show(buffer.select([name("a"), Matcher("x", op, value)], 0, 20))) == found


def test_an_absent_label_is_empty_and_a_name_may_be_a_regex(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    matchers = [Matcher("__name__", MatchOp.REGEX, "up|a"), Matcher("x", MatchOp.EQUAL, "")]
    assert [dict(one.labels)["__name__"] for one in buffer.select(matchers, 0, 20)] == ["up"]


def test_a_bad_regex_is_a_query_error(buffer: LiveBuffer) -> None:
    with pytest.raises(QueryError, match="bad regex"):
        buffer.select([Matcher("x", MatchOp.REGEX, "(")], 0, 1)


def test_series_made_here_go_stale_when_their_producer_stops_making_them(
    buffer: LiveBuffer,
) -> None:
    def alert(x: str) -> Sample:
        return Sample("ALERTS", (("x", x),), 1.0)

    buffer.write("group-1", [alert("1"), alert("2")], 10)
    buffer.write("group-2", [alert("3")], 10)
    buffer.write("group-1", [alert("2")], 11)
    buffer.write("group-1", [], 12)
    buffer.write("group-1", [alert("1")], 13)
    assert show(buffer.select([name("ALERTS")], 0, 100)) == {
        "1": [(10, 1), (11, S), (13, 1)],
        "2": [(10, 1), (11, 1), (12, S)],
        "3": [(10, 1)],
    }
    assert [labels for labels, _ in buffer.latest("ALERTS")] == [(("x", "1"),), (("x", "3"),)]


def test_samples_that_come_late_are_dropped_and_counted(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(10, [4, 5, 6]), scrape(9, [4, 5, 6]))
    assert buffer.out_of_order == 2
    assert show(buffer.select([name("a")], 0, 100))["1"] == [(10, 1)]


def test_memory_stays_bounded_by_the_window_and_the_newest_samples_are_there(
    buffer: LiveBuffer,
) -> None:
    for at in range(5000):
        take(buffer, scrape(at, [at, at, at]))
    assert show(buffer.select([name("a")], 4899, 5000))["2"] == [
        (at, at) for at in range(4900, 5000)
    ]
    assert buffer.size_bytes < 6 * 512 * 8


def test_label_churn_does_not_fill_the_memory(buffer: LiveBuffer) -> None:
    for at in range(1000):
        buffer.write("group", [Sample("ALERTS", (("x", str(at)),), 1.0)], at)
    assert len(buffer.select([name("ALERTS")], 990, 1000)) <= 11
    assert buffer.size_bytes < 600 * 512 * 8


def test_over_budget_the_oldest_go_and_the_newest_stay(caplog: pytest.LogCaptureFixture) -> None:
    buffer = LiveBuffer(window_seconds=10_000, budget_bytes=20_000, names=["a"])
    for at in range(1000):
        take(buffer, scrape(at, [at, at, at]), scrape(at, [at, at, at], target=W2))
    assert buffer.size_bytes <= 20_000
    assert buffer.dropped_columns > 0
    for window in buffer.select([name("a")], 900, 1000):
        assert window.values.tolist() == list(range(901, 1000))
    assert caplog.text.count("samples in memory take") == 1


async def test_it_is_filled_from_the_store_at_a_start(tmp_path: Path) -> None:
    store = SampleStore.open(tmp_path / "samples.db", FixedClock())
    schema = store.intern(FULL.series)
    results = [scrape(at, [at, 0, 0], schema_id=schema.id) for at in range(100, 200)]
    await store.append([*results, failed(200), scrape(150, [1, 2, 3], target=W2)])
    buffer = LiveBuffer(window_seconds=60, names=["a"])
    await buffer.reload(store, 190)
    expected: list[tuple[float, object]] = [(at, at) for at in range(190, 200)]
    assert show(buffer.select([name("a")], 0, 300))["1"] == [*expected, (200, S)]
    assert buffer.select([name("a")], 250, 300)[0].failed
    await store.close()


def test_appending_a_page_costs_no_work_for_each_sample() -> None:
    keys = tuple(SeriesKey(f"n{number}") for number in range(435))
    schema = Schema(1, keys)
    calls = 0

    def schema_of(_: int) -> Schema:
        nonlocal calls
        calls += 1
        return schema

    buffer = LiveBuffer(window_seconds=60, names=[key.name for key in keys])
    for at in range(50):
        buffer.append([ScrapeResult(W1, at, 1, np.full(435, at, dtype=np.float64))], schema_of)
    assert calls == 1
    assert buffer.latest("n434") == [(W1.labels, 49.0)]
