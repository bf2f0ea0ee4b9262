"""The text of an export, read by prometheus-client's own parser."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ds4watch.history.export import CSV_HEAD, OPENMETRICS_END, csv_rows, openmetrics, rollup_rows
from ds4watch.history.frames import FailedScrape, StoredFrame
from ds4watch.history.strands import in_order, joined, scrape_series
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import ScrapeFailure, Target
from ds4watch.model.series import STALE_NAN, FloatArray, Schema, SeriesKey, labels_of
from tests.unit.history.frames import rollup_frame
from tests.unit.history.helpers import bits, floats

AT = 1_800_000_000.0
W1 = Target("w1", "http://w1", (("worker", "w1"),))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
labels = st.dictionaries(st.sampled_from(["le", "model_name", "x"]), texts, max_size=3)


def frame(
    values: FloatArray,
    *,
    keys: Sequence[SeriesKey] = (SeriesKey("a"),),
    target: Target = W1,
    times: Sequence[float] | None = None,
    failures: tuple[FailedScrape, ...] = (),
) -> StoredFrame:
    count = len(values)
    return StoredFrame(
        target=target,
        schema=Schema(1, tuple(keys)),
        columns=np.arange(len(keys)),
        times=np.array([AT + at for at in (times or range(count))][:count]),
        values=values,
        took_seconds=np.full(count, 0.25),
        page_samples=np.full(count, -1),
        failures=failures,
    )


def parsed(text: str) -> list[tuple[str, dict[str, str], float, float]]:
    return [
        (sample.name, sample.labels, sample.value, float(sample.timestamp))
        for family in text_string_to_metric_families(text + OPENMETRICS_END)  # type: ignore[no-untyped-call] # theirs
        for sample in family.samples
    ]


@given(labels, labels, st.lists(bits, min_size=1, max_size=12))
def test_a_parser_reads_back_every_label_and_every_bit(
    own: dict[str, str], of_target: dict[str, str], column: list[int]
) -> None:
    values = floats(column)
    target = Target(
        "w1", "http://w1", labels_of({f"t_{name}": it for name, it in of_target.items()})
    )
    key = SeriesKey("vllm:a_total", labels_of(own))
    found = parsed("".join(openmetrics(frame(values[:, None], keys=[key], target=target))))
    kept = [(at, it) for at, it in enumerate(values) if it.view("u8") != 0x7FF0000000000002]
    assert [(name, tags) for name, tags, _value, _at in found] == [
        ("vllm:a_total", dict(key.labels) | dict(target.labels))
    ] * len(kept)
    assert [at for *_, at in found] == [AT + at for at, _ in kept]
    for (_, _, value, _), (_, want) in zip(found, kept, strict=True):
        assert (math.isnan(value) and math.isnan(want)) or (
            value == want and math.copysign(1, value) == math.copysign(1, want)
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (123456789012345678.0, "1.2345678901234568e+17"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    assert "".join(openmetrics(frame(np.array([[value]])))) == f'a{{worker="w1"}} {text} {AT:.3f}\n'


def test_a_label_that_page_and_target_have_is_the_targets() -> None:
    key = SeriesKey("a", (("worker", "mine"),))
    [(_, tags, _, _)] = parsed("".join(openmetrics(frame(np.array([[1.0]]), keys=[key]))))
    assert tags == {"worker": "w1", "exported_worker": "mine"}


def test_standing_and_moving_series_are_written_alike() -> None:
    values = np.array([7.0] * 20 + [STALE_NAN] + [8.0] * 9 + [STALE_NAN, 1.0, 2.0, 3.0, 3.0])
    found = parsed("".join(openmetrics(frame(values[:, None]))))
    assert [(at - AT, value) for *_, value, at in found] == [
        (at, value)
        for at, value in enumerate(values.tolist())
        if value == value  # noqa: PLR0124
    ]
    rows = list(csv.DictReader(io.StringIO(CSV_HEAD + "".join(csv_rows(frame(values[:, None]))))))
    assert [float(row["value"]) for row in rows] == [value for *_, value, _ in found]
    assert rows[0]["time"] == "2027-01-15T08:00:00.000+00:00"


@given(labels)
def test_a_spreadsheet_reads_back_the_labels(own: dict[str, str]) -> None:
    key = SeriesKey("a", labels_of(own))
    text = CSV_HEAD + "".join(csv_rows(frame(np.array([[1.5]]), keys=[key])))
    [row] = csv.DictReader(io.StringIO(text, newline=""))
    [(_, tags, _, _)] = parsed(f"a{{{row['labels']}}} 1\n".replace(" 1\n", f" 1 {AT}\n"))
    assert tags == dict(key.labels) | {"worker": "w1"}
    assert (row["target"], row["name"], row["value"]) == ("w1", "a", "1.5")


def test_failed_scrapes_are_up_0() -> None:
    failure = FailedScrape(AT + 0.5, 5.0, ScrapeFailure(EdgeReason.TIMEOUT, "no answer"))
    one = scrape_series(frame(np.array([[1.0], [2.0]]), failures=(failure,)), lambda _key: True)
    table = dict(zip([key.name for key in one.schema.series], one.values.T.tolist(), strict=True))
    assert one.times.tolist() == [AT, AT + 0.5, AT + 1]
    assert table == {
        "up": [1, 0, 1],
        "scrape_duration_seconds": [0.25, 5.0, 0.25],
        "scrape_samples_scraped": [1, 0, 1],
    }
    chosen = scrape_series(frame(np.array([[1.0]])), lambda key: key.name == "up")
    assert (chosen.columns.tolist(), chosen.values.tolist()) == ([0], [[1.0]])


times = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), min_size=1, max_size=4)


@given(times)
def test_after_a_clock_was_set_back_times_rise_all_the_same(parts: list[list[int]]) -> None:
    frames = [
        frame(np.array(part, dtype=np.float64)[:, None], times=[float(at) for at in part])
        for part in parts
    ]
    found = list(in_order(frames))
    back = np.concatenate([one.times for one in found])
    assert back.tolist() == sorted({AT + at for part in parts for at in part})
    assert np.concatenate([one.values[:, 0] for one in found]).tolist() == (back - AT).tolist()


def test_a_minute_in_which_the_page_changed_is_one_line_of_a_series() -> None:
    before = rollup_frame(["a", "gone"], {0: [1, 9], 60: [2, 9]})
    after = rollup_frame(["new", "a"], {60: [5, 7], 120: [6, 8]})
    text = "".join("".join(rollup_rows(one)) for one in joined([after, before], 60))
    rows = [line.split(",") for line in text.splitlines()]
    # (bucket's minute, series): minimum, maximum, mean, last, increase, samples
    found = {(row[0][14:16], row[2]): [float(it) for it in row[4:]] for row in rows}
    assert len(found) == len(rows)
    assert found == {
        ("00", "a"): [1, 1, 1, 1, 0, 1],
        ("00", "gone"): [9, 9, 9, 9, 0, 1],
        ("01", "a"): [2, 7, 4.5, 7, 0, 2],
        ("01", "gone"): [9, 9, 9, 9, 0, 1],
        ("01", "new"): [5, 5, 5, 5, 0, 1],
        ("02", "new"): [6, 6, 6, 6, 0, 1],
        ("02", "a"): [8, 8, 8, 8, 0, 1],
    }
