"""Reads metrics pages: every line once in full, then by comparison with the page before.

From one scrape to the next only the numbers change. So what stands before them, line by line, is
kept as the page's layout, which targets with equal pages share; and a page of known layout is read
by comparing its lines with the last page's and calling float() on what those that differ end in.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import compress, count
from operator import ne
from typing import NamedTuple, Protocol

import numpy as np

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.series import FloatArray, Schema, SeriesKey
from ds4watch.scrape.lines import Budget, Line, read_line, value_of

_OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF"
_CREATED = "_created"
_SUFFIXES_BESIDE_CREATED = ("_total", "_count", "_sum", "_bucket")
_NO_COLUMN = -1
"""The last place of a row of values, one past the page's own: for lines that are not kept."""
_MAX_SEEN_LINES = 50_000
"""Prefixes kept over all targets; past it all are read anew: passing labels must not pile up."""
_MAX_LAYOUTS = 512


class SchemaInterner(Protocol):
    """Gives equal lists of series one Schema, hence one id. History implements it."""

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        """Return the schema of these series, made on first sight."""
        ...


class Limits(NamedTuple):
    """What a page may hold (see ScrapeOptions); 0 is no limit."""

    series_limit: int = 0
    label_limit: int = 0
    label_value_bytes: int = 0


NO_LIMITS = Limits()


class Page(NamedTuple):
    """One page. `values` is float64, shape (series,), aligned with `schema.series`.

    odd_lines: lines that could not be read and were left out.
    duplicates: lines that repeat a series of the page; the first one counts, as in Prometheus.
    mislabelled: the Content-Type claims the other text format.
    """

    schema: Schema
    values: FloatArray
    odd_lines: int = 0
    duplicates: int = 0
    mislabelled: bool = False


@dataclass(frozen=True, slots=True)
class _Layout:
    """A page but for its numbers, line by line.

    marks: what a line must come to, for the layout to hold (see `_mark`).
    prefixes: the bytes before the value; empty where a changed line has to be read in full.
    columns: the value's place in a row of values, or _NO_COLUMN.
    """

    marks: Sequence[Hashable]
    prefixes: Sequence[bytes]
    columns: Sequence[int]
    schema: Schema
    odd_lines: int
    duplicates: int


@dataclass(slots=True)
class _Known:
    """The last page of a target: its lines, and its values with one place more (_NO_COLUMN)."""

    layout: _Layout
    body: bytes
    row: FloatArray
    limits: Limits


class PageReader:
    """Turns page bytes into (schema, values); keeps the last page of each target."""

    def __init__(self, schemas: SchemaInterner) -> None:
        self._schemas = schemas
        self._known: dict[str, _Known] = {}
        self._seen: dict[bytes, SeriesKey] = {}
        self._layouts: dict[tuple[Hashable, ...], _Layout] = {}
        self._newest: _Known | None = None

    def read(self, body: bytes, content_type: str, target: str, limits: Limits = NO_LIMITS) -> Page:
        """Read a page of `target`. Lines that cannot be read are counted and left out.

        Raises ScrapeError: PARSE if there is text but no line of it can be read, or if an
        OpenMetrics page was cut off; TOO_LARGE if the page is over a limit. An empty page is a
        page without series, not a failure.
        """
        mislabelled = self._is_mislabelled(body, content_type)
        known = self._known.get(target)
        if known is not None and known.limits == limits and self._read_again(known, body):
            known.body = body
        else:
            known = self._like_the_newest(body, limits) or self._read_anew(body, limits)
            self._known[target] = self._newest = known
        layout = known.layout
        values = known.row[:_NO_COLUMN].copy()
        return Page(layout.schema, values, layout.odd_lines, layout.duplicates, mislabelled)

    def forget(self, target: str) -> None:
        """Drop what is kept about a target that is no longer watched."""
        self._known.pop(target, None)

    def _is_mislabelled(self, body: bytes, content_type: str) -> bool:
        """Say whether the page is of the other format than its Content-Type claims.

        Both formats put name, labels and value alike, so such a page is read all the same. Only a
        page that claims OpenMetrics and ends in the middle of a line was cut off.
        """
        claims = content_type.lstrip()[: len(_OPENMETRICS)].lower() == _OPENMETRICS
        ended = body[-64:].rstrip().endswith(_EOF)
        if claims and not ended and body and not body.endswith(b"\n"):
            message = "the page was cut off: an OpenMetrics page ends with # EOF"
            raise ScrapeError(message, reason=EdgeReason.PARSE, retryable=True)
        return claims != ended

    def _read_again(self, known: _Known, body: bytes) -> bool:
        """Take over the values of a page whose lines stand where they stood; say if they do."""
        if body == known.body:
            return True
        lines = _lines_of(body)
        if len(lines) != len(known.layout.marks):
            return False
        changed = [*compress(count(), map(ne, lines, BytesIO(known.body)))]
        if changed:
            values = _plain_numbers(known.layout, lines, changed)
            if values is None:
                values = self._numbers(known.layout, lines, changed)
            if values is None:
                return False
            columns = known.layout.columns
            known.row[[columns[index] for index in changed]] = values
        return True

    def _like_the_newest(self, body: bytes, limits: Limits) -> _Known | None:
        """Read a target's first page by another's: workers of one kind differ in numbers only."""
        other = self._newest
        if other is None or other.limits != limits:
            return None
        known = _Known(other.layout, other.body, other.row.copy(), limits)
        if not self._read_again(known, body):
            return None
        known.body = body
        return known

    def _numbers(
        self, layout: _Layout, lines: Sequence[bytes], changed: Sequence[int]
    ) -> list[float] | None:
        """Return the values of the changed lines, or None if one is not what it was."""
        budget = Budget()
        values = []
        for index in changed:
            line, prefix = lines[index], layout.prefixes[index]
            value = value_of(line[len(prefix) :]) if prefix and line.startswith(prefix) else None
            if value is None:
                read = read_line(line, self._seen, budget)
                if _mark(read) != layout.marks[index]:
                    return None
                value = read.value
            values.append(value)
        return values

    def _read_anew(self, body: bytes, limits: Limits) -> _Known:
        """Read every line; raises ScrapeError(TOO_LARGE) if the page is over a limit."""
        lines = _lines_of(body)
        _check_size(lines, limits)
        if len(self._seen) > _MAX_SEEN_LINES:
            self._seen.clear()
        budget = Budget()
        read = [read_line(line, self._seen, budget) for line in lines]
        layout = self._layout_of(read)
        _check_labels(layout.schema.series, limits)
        row = np.zeros(len(layout.schema.series) + 1)
        row[layout.columns] = [line.value for line in read]
        return _Known(layout, body, row, limits)

    def _layout_of(self, read: Sequence[Line]) -> _Layout:
        marks = tuple(map(_mark, read))
        layout = self._layouts.get(marks)
        if layout is not None:
            return layout
        odd = sum(line.odd for line in read)
        if odd and not any(line.key for line in read):
            message = f"not a metrics page: none of its {odd} lines can be read"
            raise ScrapeError(message, reason=EdgeReason.PARSE)
        columns, series, duplicates = _columns_of(read)
        layout = _Layout(
            marks,
            [line.prefix for line in read],
            columns,
            self._schemas.intern(series),
            odd,
            duplicates,
        )
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[marks] = layout
        return layout


def _lines_of(body: bytes) -> list[bytes]:
    """Return the lines with their ends: in a third of the time of bytes.split."""
    return BytesIO(body).readlines()


def _plain_numbers(
    layout: _Layout, lines: Sequence[bytes], changed: Sequence[int]
) -> list[float] | None:
    """Return the values of the changed lines if all of them are their prefix and a number."""
    texts = [lines[index] for index in changed]
    prefixes = [layout.prefixes[index] for index in changed]
    if not all(prefixes):
        return None
    tokens = [*map(bytes.removeprefix, texts, prefixes)]
    # Where a prefix stood on every line, that much is gone.
    if sum(map(len, tokens)) + sum(map(len, prefixes)) != sum(map(len, texts)):
        return None
    if b"_" in b" ".join(tokens):
        return None
    try:
        return [*map(float, tokens)]
    except ValueError:
        return None


def _mark(line: Line) -> Hashable:
    """Return what two lines have in common when they say the same but for the value."""
    return line.prefix or line.key or line.odd


def _check_size(lines: Sequence[bytes], limits: Limits) -> None:
    """Refuse a page that has more samples than allowed before the time to read it is spent."""
    if not limits.series_limit or len(lines) <= limits.series_limit:
        return
    samples = sum(not line.startswith(b"#") and bool(line.strip()) for line in lines)
    if samples > limits.series_limit:
        raise _over(f"{samples} samples", "sample_limit", limits.series_limit)


def _check_labels(series: Sequence[SeriesKey], limits: Limits) -> None:
    for key in series:
        if limits.label_limit and len(key.labels) > limits.label_limit:
            what = f"{len(key.labels)} labels on {key.name}"
            raise _over(what, "label_limit", limits.label_limit)
        for name, value in key.labels if limits.label_value_bytes else ():
            length = len(value.encode())
            if length > limits.label_value_bytes:
                what = f"{length} bytes in label {name} of {key.name}"
                raise _over(what, "label_value_length_limit", limits.label_value_bytes)


def _over(what: str, option: str, limit: int) -> ScrapeError:
    message = f"{what[:200]}, over {option} ({limit}): raise it, or have the target show less"
    return ScrapeError(message, reason=EdgeReason.TOO_LARGE)


def _columns_of(read: Sequence[Line]) -> tuple[list[int], tuple[SeriesKey, ...], int]:
    """Give each first line of a series, but for `_created` ones, its column in page order.

    Returns the columns, the series, and how many lines repeat one.
    """
    names = {line.key.name for line in read if line.key}
    places: dict[SeriesKey, int] = {}
    repeated = 0
    columns = []
    for line in read:
        column = _NO_COLUMN
        if line.key in places:
            repeated += 1
        elif line.key is not None and not _is_created(line.key.name, names):
            column = places[line.key] = len(places)
        columns.append(column)
    return columns, tuple(places), repeated


def _is_created(name: str, names: set[str]) -> bool:
    """Say whether `name` is the birth time that belongs to a counter, histogram or summary."""
    if not name.endswith(_CREATED):
        return False
    base = name.removesuffix(_CREATED)
    return base in names or any(base + suffix in names for suffix in _SUFFIXES_BESIDE_CREATED)
