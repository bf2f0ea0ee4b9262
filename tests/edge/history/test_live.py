from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ds4watch.history.live import LiveBuffer
from ds4watch.history.samples import SampleStore
from ds4watch.model.errors import QueryError
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import STALE_NAN, Schema, SeriesKey
from ds4watch.promql.storage import Matcher, MatchOp
from tests.edge.history.helpers import W1, W2, FixedClock, failed, scrape
from tests.edge.history.live_support import (
    FULL,
    SCHEMAS,
    UP,
    column,
    frames,
    held,
    live,
    name,
    show,
    take,
)


@pytest.fixture
def buffer() -> LiveBuffer:
    return LiveBuffer(window_seconds=100, windows={"a": 100.0, "ALERTS": 100.0, **UP})


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
    assert held(buffer, "a") == {
        "1": [(10, 1), (11, 4), (16, 9)],
        "2": [(10, 2), (11, 5), (12, 7), (13, 8), (16, 10)],
    }
    assert held(buffer, "up") == {
        "": [(10, 1), (11, 1), (12, 1), (13, 1), (14, 0), (15, 0), (16, 1)]
    }
    assert held(buffer, "scrape_samples_scraped", 13, 16) == {"": [(14, 0), (15, 0), (16, 3)]}
    assert held(buffer, "scrape_duration_seconds", 13, 14) == {"": [(14, 5.0)]}
    assert next(iter(buffer.windows([name("a")], 0, 100).labels)) == (
        ("__name__", "a"),
        ("job", "vllm"),
        ("worker", "w1"),
        ("x", "1"),
    )


def test_a_series_that_left_a_page_is_hidden_from_the_next_scrape_on(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(11, [7], schema_id=2))
    assert live(buffer, "a", 10.5) == {"1": 1, "2": 2}
    assert live(buffer, "a", 11) == {"2": 7}
    take(buffer, scrape(12, [8], schema_id=2))
    assert live(buffer, "a", 12) == {"2": 8}
    take(buffer, failed(13))
    assert live(buffer, "a", 13) == {}
    assert live(buffer, "a", 12.5) == {"2": 8}


def test_a_page_that_says_the_staleness_marker_itself_has_no_sample(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [STALE_NAN, 2, 3]), scrape(11, [1, STALE_NAN, 3]))
    assert held(buffer, "a") == {"1": [(11, 1)], "2": [(10, 2)]}
    assert live(buffer, "a", 11) == {"1": 1}
    take(buffer, scrape(12, [math.nan, 3, 3]))
    assert math.isnan(live(buffer, "a", 12)["1"])


def test_the_window_is_open_on_the_left_and_closed_on_the_right(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(11, [4, 5, 6]), scrape(12, [7, 8, 9]))
    assert held(buffer, "a", 10, 12)["1"] == [(11, 4), (12, 7)]
    assert held(buffer, "a", 12, 20) == {}
    assert len(buffer.ends([name("a")], 12, 20).labels) == 0


def test_names_that_no_rule_selects_are_not_kept(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(11, [5, 9], schema_id=4, target=W2))
    assert live(buffer, "other", 11) == {}
    assert live(buffer, "ds4_own", 11) == {"": 5}
    assert buffer.newest("up") == [
        ((("job", "vllm"), ("worker", "w1")), 1.0),
        ((("job", "vllm"), ("worker", "w2")), 1.0),
    ]


def test_targets_whose_pages_had_different_series_come_in_one_wave(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(10, [4, 1], schema_id=4, target=W2))
    wave = [scrape(11, [5, 6], schema_id=4), scrape(11, [7, 8], schema_id=4, target=W2)]
    buffer.append(wave, SCHEMAS.__getitem__)
    assert held(buffer, "a") == {"1": [(10, 1)], "2": [(10, 2)]}
    assert live(buffer, "a", 11) == {}


def test_a_failed_target_shows_in_every_series_of_its_last_good_scrape(buffer: LiveBuffer) -> None:
    def of(x: str, worker: str = "w1") -> bool:
        matchers = [name("a"), Matcher("x", MatchOp.EQUAL, x)]
        matchers.append(Matcher("worker", MatchOp.EQUAL, worker))
        found = {
            buffer.latest(matchers, 50, 60).failed,
            buffer.ends(matchers, 50, 60).failed,
            buffer.windows(matchers, 50, 60).failed,
        }
        assert len(found) == 1
        return found.pop()

    take(
        buffer,
        scrape(10, [1, 2, 3]),
        scrape(10, [1, 2, 3], target=W2),
        scrape(11, [7], schema_id=2),
        failed(12),
        failed(13),
    )
    assert (of("1"), of("2"), of("1", "w2")) == (False, True, False)
    # A series of whose end a good scrape told is not awaited, but was not seen to be over before.
    matchers = [name("a"), Matcher("x", MatchOp.EQUAL, "1")]
    assert buffer.latest(matchers, 0, 60).failed
    assert not buffer.latest([name("up")], 0, 60).failed
    take(buffer, scrape(61, [1, 2, 3]))
    assert not buffer.latest([name("a")], 0, 70).failed


def test_case_26_a_page_without_engine_metrics_leaves_them_in_doubt_and_the_target_up(
    buffer: LiveBuffer,
) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    take(buffer, replace(scrape(11, [9, 9], schema_id=4), blind=True))
    assert live(buffer, "a", 11) == {}
    assert buffer.latest([name("a")], 0, 11).failed
    assert live(buffer, "up", 11) == {"": 1}
    assert not buffer.latest([name("up")], 0, 11).failed
    take(buffer, scrape(12, [4, 5, 6]))
    assert live(buffer, "a", 12) == {"1": 4, "2": 5}


def test_a_removed_target_ends_at_once_and_is_not_failed(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), failed(11), scrape(12, [4, 5, 6]))
    buffer.remove_target("w1", 12.5)
    assert held(buffer, "a", 11)["1"] == [(12, 4)]
    assert live(buffer, "a", 12.4) == {"1": 4, "2": 5}
    assert live(buffer, "a", 12.5) == {}
    assert live(buffer, "up", 13) == {}
    assert not buffer.latest([name("a")], 0, 20).failed


def test_targets_that_come_and_go_take_no_more_room_than_those_there_are() -> None:
    buffer = LiveBuffer(window_seconds=100, windows={"a": 100.0})
    sizes = []
    for number in range(3000):
        target = Target(f"w{number}", "", (("worker", f"w{number}"),))
        take(buffer, scrape(number, [1, 2, 3], target=target))
        buffer.remove_target(target.name, number + 0.5)
        sizes.append(buffer.size_bytes)
    assert max(sizes[500:]) < 4 * sizes[200]


def test_a_target_with_new_labels_ends_the_old_series(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    moved = Target("w1", W1.url, (("job", "vllm"), ("worker", "w1"), ("zone", "b")))
    take(buffer, scrape(11, [4, 5, 6], target=moved))
    assert held(buffer, "up", label="zone") == {"": [(10, 1)], "b": [(11, 1)]}
    assert live(buffer, "up", 11, "zone") == {"b": 1}


def test_a_label_that_the_page_and_the_target_share_is_exported(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1], schema_id=3))
    (labels,) = buffer.latest([name("a")], 0, 100).labels
    found = dict(labels)
    assert found["job"] == "vllm"
    assert found["exported_exported_job"] == "page"
    assert found["exported_job"] == "e"


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
    windows = buffer.windows([name("a"), Matcher("x", op, value)], 0, 20)
    assert list(show(windows)) == found


def test_an_absent_label_is_empty_and_a_name_may_be_a_regex(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    matchers = [Matcher("__name__", MatchOp.REGEX, "up|a"), Matcher("x", MatchOp.EQUAL, "")]
    found = buffer.latest(matchers, 0, 20)
    assert [dict(one)["__name__"] for one in found.labels] == ["up"]


def test_a_bad_regex_is_a_query_error(buffer: LiveBuffer) -> None:
    with pytest.raises(QueryError, match="bad regex"):
        buffer.latest([Matcher("x", MatchOp.REGEX, "(")], 0, 1)


def test_a_series_that_comes_later_is_found_by_a_selector_used_before(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [7], schema_id=2))
    assert live(buffer, "a", 10) == {"2": 7}
    take(buffer, scrape(11, [1, 2, 3]))
    assert live(buffer, "a", 11) == {"1": 1, "2": 2}
    assert held(buffer, "a") == {"1": [(11, 1)], "2": [(10, 7), (11, 2)]}


def test_the_same_series_keep_the_same_column_of_labels(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]))
    before = buffer.latest([name("a")], 0, 10).labels
    take(buffer, scrape(11, [4, 5, 6]))
    assert buffer.latest([name("a")], 0, 11).labels is before
    assert buffer.ends([name("a")], 0, 11).labels is before


def test_series_made_here_go_stale_when_their_producer_stops_making_them(
    buffer: LiveBuffer,
) -> None:
    def write(producer: str, at: float, *alerts: str) -> None:
        labels = column(*((("__name__", "ALERTS"), ("x", x)) for x in alerts))
        buffer.write(producer, labels, np.ones(len(alerts)), at)

    write("group-1", 10, "1", "2")
    write("group-2", 10, "3")
    write("group-1", 11, "2")
    assert live(buffer, "ALERTS", 11) == {"2": 1, "3": 1}
    write("group-1", 12)
    write("group-1", 13, "1")
    assert held(buffer, "ALERTS") == {
        "1": [(10, 1), (13, 1)],
        "2": [(10, 1), (11, 1)],
        "3": [(10, 1)],
    }
    assert [labels for labels, _ in buffer.newest("ALERTS")] == [(("x", "1"),), (("x", "3"),)]


def test_samples_that_come_late_are_dropped_and_counted(buffer: LiveBuffer) -> None:
    take(buffer, scrape(10, [1, 2, 3]), scrape(10, [4, 5, 6]), scrape(9, [4, 5, 6]), failed(8))
    assert buffer.out_of_order == 3
    assert held(buffer, "a")["1"] == [(10, 1)]


def test_memory_stays_bounded_by_the_window_and_the_newest_samples_are_there(
    buffer: LiveBuffer,
) -> None:
    for at in range(5000):
        take(buffer, scrape(at, [at, at, at]))
    assert held(buffer, "a", 4899, 5000)["2"] == [(at, at) for at in range(4900, 5000)]
    assert buffer.size_bytes < 200 * 1000 * 8


def test_a_target_scraped_faster_than_said_has_its_whole_window_all_the_same() -> None:
    buffer = LiveBuffer(window_seconds=100, windows={"a": 60.0}, interval_of={"fleet": 15.0})
    for at in range(200):
        take(buffer, scrape(at, [at, at, at]))
    assert held(buffer, "a", 139, 200)["1"] == [(at, at) for at in range(140, 200)]
    assert buffer.dropped_columns == 0


def test_label_churn_does_not_fill_the_memory(buffer: LiveBuffer) -> None:
    for at in range(3000):
        labels = column([("__name__", "ALERTS"), ("x", str(at))])
        buffer.write("group", labels, np.ones(1), at)
    assert len(held(buffer, "ALERTS", 2989, 3000)) == 10
    assert buffer.size_bytes < 1000 * 200 * 8


def test_over_budget_the_oldest_go_and_the_newest_stay(caplog: pytest.LogCaptureFixture) -> None:
    buffer = LiveBuffer(
        window_seconds=900, budget_bytes=40_000, windows={"a": 900.0, "ALERTS": 900.0}
    )
    for at in range(1000):
        take(buffer, scrape(at, [at, at, at]), scrape(at, [at, at, at], target=W2))
    assert buffer.size_bytes <= 40_000
    assert buffer.dropped_columns > 0
    assert held(buffer, "a", 900, 1000)["1"] == [(at, at) for at in range(901, 1000)]
    assert caplog.text.count("samples in memory would take") == 1


def test_beyond_the_full_window_a_sample_every_15_seconds_is_kept() -> None:
    buffer = LiveBuffer(window_seconds=100, windows={"a": 2000.0})
    for at in range(3000):
        take(buffer, scrape(at, [at, at, at]))
    assert held(buffer, "a", 2899, 3000)["1"] == [(at, at) for at in range(2900, 3000)]
    coarse = held(buffer, "a", 1000, 3000)["1"]
    assert coarse == [(at, at) for at in range(1005, 3000, 15)]
    assert len(held(buffer, "up", 0, 3000)[""]) < 20


@pytest.mark.parametrize("reloaded", [False, True])
def test_an_outage_leaves_what_rules_look_far_back_on(*, reloaded: bool) -> None:
    buffer = LiveBuffer(window_seconds=60, windows={"a": 3600.0})
    good = [scrape(at, [at, at, at]) for at in range(1000, 2000)]
    bad = [failed(at) for at in range(2000, 2400)]
    if reloaded:
        buffer.fill(frames([*good, *bad]))
    else:
        take(buffer, *good, *bad)
    take(buffer, scrape(2400, [7, 7, 7]))
    before = [(at, at) for at in range(1000, 2000, 15)]
    assert held(buffer, "a", 0, 2400)["1"] == [*before, (2400, 7)]
    assert held(buffer, "a", 2000, 2400)["1"] == [(2400, 7)]


def test_a_start_in_the_midst_of_an_outage_knows_who_is_missing(
    buffer: LiveBuffer,
) -> None:
    buffer.fill(frames([scrape(1000, [1, 2, 3]), *(failed(at) for at in range(1001, 1090))]))
    assert live(buffer, "a", 1090) == {}
    assert len(buffer.latest([name("a")], 1000, 1090).missing) == 2
    assert held(buffer, "a", 0, 1090)["1"] == [(1000, 1)]
    assert [value for _, value in held(buffer, "up", 900, 1090)[""]] == [1] + 89 * [0]


async def test_it_is_filled_from_the_store_at_a_start(tmp_path: Path) -> None:
    store = SampleStore.open(tmp_path / "samples.db", FixedClock())
    schema = store.intern(FULL.series)
    good = [scrape(at, [at, 0, 0], schema_id=schema.id) for at in range(1000, 2000, 5)]
    long_down = [
        scrape(1500, [1, 2, 3], schema_id=schema.id, target=W2),
        *(failed(at, target=W2) for at in range(1505, 2000, 5)),
    ]
    await store.append([*good, *long_down])
    buffer = LiveBuffer(window_seconds=900, windows={"a": 60.0})
    await buffer.reload(store, 2000)
    expected = [(at, at) for at in range(1940, 2000, 5)]
    assert held(buffer, "a", 1935, 2000)["1"] == expected
    down = [name("a"), Matcher("worker", MatchOp.EQUAL, "w2")]
    assert len(buffer.latest(down, 1700, 2000).missing) == 2
    await store.close()


def test_appending_a_page_costs_no_work_for_each_sample() -> None:
    keys = tuple(SeriesKey(f"n{number}") for number in range(435))
    schema = Schema(1, keys)
    calls = 0

    def schema_of(_: int) -> Schema:
        nonlocal calls
        calls += 1
        return schema

    buffer = LiveBuffer(window_seconds=60, windows={key.name: 60.0 for key in keys})
    for at in range(50):
        buffer.append([ScrapeResult(W1, at, 1, np.full(435, at, dtype=np.float64))], schema_of)
    assert calls == 1
    assert buffer.newest("n434") == [(W1.labels, 49.0)]


def test_a_series_that_comes_back_after_long_while_many_others_come_is_kept(
    buffer: LiveBuffer,
) -> None:
    """What is gone for long makes room for new series, also what is about to come back."""

    pages = {0: range(40), 1: range(40, 60), 500: (0, *range(60, 95))}
    for at, numbers in pages.items():
        schema = Schema(10 + at, tuple(SeriesKey("a", (("x", str(it)),)) for it in numbers))
        values = [float(at)] * len(numbers)
        buffer.append([scrape(at, values, schema_id=schema.id)], {schema.id: schema}.__getitem__)
    shown = live(buffer, "a", 500)
    assert shown == {str(it): 500.0 for it in (0, *range(60, 95))}
