"""Stored samples as text: OpenMetrics that promtool takes, CSV that a spreadsheet takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from ds4watch.history.frames import RollupFrame, StoredFrame
from ds4watch.history.live_labels import merged_labels
from ds4watch.model.scrape import Target
from ds4watch.model.series import NAME_LABEL, Labels, SeriesKey, is_stale

OPENMETRICS_END = "# EOF\n"
CSV_HEAD = "time,target,name,labels,value\n"
ROLLUP_HEAD = "time,target,name,labels,minimum,maximum,mean,last,increase,samples\n"


def openmetrics(frame: StoredFrame) -> Iterator[str]:
    """Yield the samples of each series, with time stamps in seconds; markers are left out.

    Without TYPE lines: a page does not say what a series is once it has been taken apart.
    """
    times = [f"{at:.3f}" for at in frame.times.tolist()]
    for key, column in _columns(frame):
        values = frame.values[:, column]
        prefix = series_text(merged_labels(key.name, key.labels, frame.target.labels))
        yield "".join(
            f"{prefix} {_number(value)} {at}\n"
            for value, at, stale in zip(
                values.tolist(), times, is_stale(values).tolist(), strict=True
            )
            if not stale
        )


def csv_rows(frame: StoredFrame) -> Iterator[str]:
    """Yield the samples of each series as CSV lines, as `CSV_HEAD` names them."""
    times = [_iso(at) for at in frame.times.tolist()]
    for key, column in _columns(frame):
        values = frame.values[:, column]
        fixed = (frame.target.name, key.name, _labels_text(key, frame.target))
        rows = (
            (at, *fixed, _number(value))
            for value, at, stale in zip(
                values.tolist(), times, is_stale(values).tolist(), strict=True
            )
            if not stale
        )
        yield _csv(rows)


def rollup_rows(frame: RollupFrame) -> Iterator[str]:
    """Yield the buckets of each series as CSV lines, as `ROLLUP_HEAD` names them."""
    times = [_iso(at) for at in frame.starts_at.tolist()]
    for place, column in enumerate(frame.columns.tolist()):
        key = frame.schema.series[column]
        fixed = (frame.target.name, key.name, _labels_text(key, frame.target))
        count = frame.count[:, place]
        mean = np.divide(frame.total[:, place], count, where=count > 0, out=np.zeros(len(count)))
        numbers = (
            frame.minimum[:, place],
            frame.maximum[:, place],
            mean,
            frame.last[:, place],
            frame.increase[:, place],
        )
        rows = (
            (times[row], *fixed, *(_number(float(it[row])) for it in numbers), int(count[row]))
            for row in np.flatnonzero(count).tolist()
        )
        yield _csv(rows)


def series_text(labels: Labels) -> str:
    """Return a series as the text formats write it."""
    name = dict(labels)[NAME_LABEL]
    inside = ",".join(
        f'{label}="{_escaped(value)}"' for label, value in labels if label != NAME_LABEL
    )
    return f"{name}{{{inside}}}" if inside else name


def _columns(frame: StoredFrame) -> Iterator[tuple[SeriesKey, int]]:
    for place, column in enumerate(frame.columns.tolist()):
        yield frame.schema.series[column], place


def _labels_text(key: SeriesKey, target: Target) -> str:
    whole = series_text(merged_labels(key.name, key.labels, target.labels))
    return whole.removeprefix(key.name).strip("{}")


def _csv(rows: Iterator[tuple[object, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    text = repr(value)
    return {"inf": "+Inf", "-inf": "-Inf"}.get(text, text)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
