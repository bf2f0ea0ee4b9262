"""Stored samples as text: OpenMetrics that promtool takes, CSV that a spreadsheet takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from ds4watch.history.frames import RollupFrame, StoredFrame
from ds4watch.history.live_labels import merged_labels, name_of, without_name
from ds4watch.model.scrape import Target
from ds4watch.model.series import FloatArray, Labels, SeriesKey, is_stale

OPENMETRICS_END = "# EOF\n"
CSV_HEAD = "time,target,name,labels,value\n"
ROLLUP_HEAD = "time,target,name,labels,minimum,maximum,mean,last,increase,samples\n"

_ODD = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_LONG_RUN = 4
"""Values in a row that are alike, from which it pays to write them together."""


def openmetrics(frame: StoredFrame) -> Iterator[str]:
    """Yield the samples of each series, with time stamps in seconds; markers are left out.

    Without TYPE lines: a page does not say what a series is once it has been taken apart.
    """
    ends = [f" {at:.3f}\n" for at in frame.times.tolist()]
    for key, column in _columns(frame):
        begin = f"{series_text(merged_labels(key.name, key.labels, frame.target.labels))} "
        yield _lines(frame.values[:, column], [""] * len(ends), begin, ends)


def csv_rows(frame: StoredFrame) -> Iterator[str]:
    """Yield the samples of each series as CSV lines, as `CSV_HEAD` names them."""
    begins = [_iso(at) for at in frame.times.tolist()]
    for key, column in _columns(frame):
        middle = f",{_fixed_cells(key, frame.target)},"
        yield _lines(frame.values[:, column], begins, middle, ["\n"] * len(begins))


def rollup_rows(frame: RollupFrame) -> Iterator[str]:
    """Yield the buckets of each series as CSV lines, as `ROLLUP_HEAD` names them."""
    times = [_iso(at) for at in frame.starts_at.tolist()]
    for key, place in _columns(frame):
        fixed = _fixed_cells(key, frame.target)
        rows = np.flatnonzero(frame.count[:, place])
        count = frame.count[rows, place]
        with np.errstate(all="ignore"):
            mean = frame.total[rows, place] / count
        cells = [
            _numbers(frame.minimum[rows, place]),
            _numbers(frame.maximum[rows, place]),
            _numbers(mean),
            _numbers(frame.last[rows, place]),
            _numbers(frame.increase[rows, place]),
            [f"{number:.0f}" for number in count.tolist()],
        ]
        yield "".join(
            f"{times[row]},{fixed},{','.join(line)}\n"
            for row, line in zip(rows.tolist(), zip(*cells, strict=True), strict=True)
        )


def series_text(labels: Labels) -> str:
    """Return a series as the text formats write it."""
    inside = labels_text(without_name(labels))
    return f"{name_of(labels)}{{{inside}}}" if inside else name_of(labels)


def labels_text(labels: Labels) -> str:
    """Return label pairs as the text formats write them between braces."""
    return ",".join(f'{label}="{_escaped(value)}"' for label, value in labels)


def _lines(values: FloatArray, begins: Sequence[str], middle: str, ends: Sequence[str]) -> str:
    """Return a line for each value but staleness markers: begin, middle, value, end."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    stale = is_stale(values)
    if stale.any():
        kept = np.flatnonzero(~stale).tolist()
        begins, ends = [begins[row] for row in kept], [ends[row] for row in kept]
        values, bits = values[kept], bits[kept]
    if not len(values):
        return ""
    edges = np.flatnonzero(bits[1:] != bits[:-1]) + 1
    if _LONG_RUN * len(edges) > len(values):
        lines = [
            f"{begin}{middle}{number}{end}"
            for begin, number, end in zip(begins, _numbers(values), ends, strict=True)
        ]
        return "".join(lines)
    # What mostly stands still, as most series of a page do, is written a run at once.
    starts = [0, *edges.tolist(), len(values)]
    numbers = _numbers(values[starts[:-1]])
    return "".join(
        _run(begins[start:end], f"{middle}{number}", ends[start:end])
        for number, (start, end) in zip(numbers, pairwise(starts), strict=True)
    )


def _run(begins: Sequence[str], same: str, ends: Sequence[str]) -> str:
    return "".join([f"{begin}{same}{end}" for begin, end in zip(begins, ends, strict=True)])


def _columns(frame: StoredFrame | RollupFrame) -> Iterator[tuple[SeriesKey, int]]:
    for place, column in enumerate(frame.columns.tolist()):
        yield frame.schema.series[column], place


def _fixed_cells(key: SeriesKey, target: Target) -> str:
    labels = without_name(merged_labels(key.name, key.labels, target.labels))
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow((target.name, key.name, labels_text(labels)))
    return text.getvalue()


def _numbers(values: FloatArray) -> list[str]:
    """Return the shortest text of each value that reads back as the same."""
    texts = list(map(repr, values.tolist()))
    if np.isfinite(values).all():
        return texts
    return [_ODD.get(text, text) for text in texts]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _escaped(value: str) -> str:
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
