"""What is found once for several metrics or targets is true of each of them."""

from __future__ import annotations

import numpy as np

from ds4watch.history.live import LiveBuffer
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Schema, SeriesKey
from tests.edge.history.helpers import W1, W2, failed, scrape
from tests.edge.history.live_support import name

PAIR = Schema(9, (SeriesKey("a"), SeriesKey("b")))
W3 = Target("w3", "http://127.0.0.1:8103/metrics", (("job", "vllm"), ("worker", "w3")))


def buffer_of(*results: ScrapeResult, seconds: float = 100.0) -> LiveBuffer:
    buffer = LiveBuffer(window_seconds=seconds, windows={"a": seconds, "b": seconds})
    for result in results:
        buffer.append([result], {9: PAIR}.__getitem__)
    return buffer


def pair(at: float, a: float, b: float, target: Target = W1) -> ScrapeResult:
    return scrape(at, [a, b], schema_id=9, target=target)


def ends(buffer: LiveBuffer, metric: str, start: float, end: float) -> dict[str, tuple[float, ...]]:
    """Return {worker: (first, last, samples, what was lost in resets)}."""
    found = buffer.ends([name(metric)], start, end)
    columns = (found.first_values, found.last_values, found.counts, found.drops)
    return {
        dict(labels)["worker"]: tuple(float(it[row]) for it in columns)
        for row, labels in enumerate(found.labels)
    }


def test_a_reset_or_a_gap_in_one_metric_is_none_in_the_next() -> None:
    gone = Schema(10, (SeriesKey("b"),))
    buffer = buffer_of(pair(10, 5, 1), pair(11, 2, 2))
    buffer.append([scrape(12, [3], schema_id=10)], {10: gone}.__getitem__)
    buffer.append([pair(13, 4, 4)], {9: PAIR}.__getitem__)
    for _ in range(2):
        assert ends(buffer, "a", 0, 20) == {"w1": (5, 4, 3, 5)}
        assert ends(buffer, "b", 0, 20) == {"w1": (1, 4, 4, 0)}


def test_a_worker_that_comes_or_goes_is_seen_in_the_very_next_question() -> None:
    buffer = buffer_of(pair(10, 1, 1), pair(10, 1, 1, W2), pair(11, 2, 2), pair(11, 2, 2, W2))
    assert set(ends(buffer, "a", 0, 20)) == {"w1", "w2"}
    buffer.append([pair(12, 7, 7, W3)], {9: PAIR}.__getitem__)
    assert ends(buffer, "a", 0, 20)["w3"] == (7, 7, 1, 0)
    assert ends(buffer, "b", 0, 20)["w1"] == (1, 2, 2, 0)
    buffer.append([pair(13, 3, 3), failed(13, target=W2)], {9: PAIR}.__getitem__)
    buffer.remove_target("w3", 14)
    assert ends(buffer, "a", 12, 20) == {"w1": (3, 3, 1, 0)}
    buffer.append([pair(15, 4, 4), pair(15, 9, 9, W2)], {9: PAIR}.__getitem__)
    assert ends(buffer, "a", 0, 20) == {
        "w1": (1, 4, 4, 0),
        "w2": (1, 9, 3, 0),
        "w3": (7, 7, 1, 0),
    }


def test_windows_are_whole_wherever_the_ring_begins() -> None:
    buffer = buffer_of(seconds=20.0)
    for at in range(1, 100):
        wave = [pair(at, at, 0), pair(at, -at, 0, W2)]
        buffer.append(wave, {9: PAIR}.__getitem__)
        found = buffer.windows([name("a")], at - 15, at)
        wanted = np.arange(max(1, at - 14), at + 1, dtype=np.float64)
        assert found.counts.tolist() == [len(wanted)] * 2
        assert np.array_equal(found.values, [wanted, -wanted])
        assert np.array_equal(found.times, [wanted, wanted])


def test_windows_of_targets_that_began_apart_are_packed_to_the_left() -> None:
    buffer = buffer_of(*(pair(at, at, 0) for at in range(1, 60)), seconds=20.0)
    for at in range(60, 100):
        buffer.append([pair(at, at, 0), pair(at, -at, 0, W2)], {9: PAIR}.__getitem__)
    found = buffer.windows([name("a")], 84, 99)
    wanted = np.arange(85, 100, dtype=np.float64)
    assert np.array_equal(found.values, [wanted, -wanted])
    late = buffer_of(*(pair(at, at, 0) for at in range(1, 6)), pair(5, 9, 0, W2))
    found = late.windows([name("a")], 0, 10)
    assert found.counts.tolist() == [5, 1]
    assert np.isnan(found.values[1, 1:]).all()
    assert np.isnan(found.times[1, 1:]).all()
