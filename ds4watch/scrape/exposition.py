"""Reads metrics pages: every line once with prometheus-client's parser, then by comparison.

From one scrape to the next only the number at a line's end changes. So what the library made of a
line is kept under the line's bytes up to the last space, for all targets together since workers of
one kind show the same lines; and a page whose lines have not moved is read by comparing lines and
calling float() on the ends of those that differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from operator import ne
from typing import NamedTuple, Protocol

import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ParsedSample

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.series import FloatArray, Schema, SeriesKey, labels_of

_OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF"
_CREATED = "_created"
_SUFFIXES_BESIDE_CREATED = ("_total", "_count", "_sum", "_bucket")
_NO_COLUMN = -1
_MAX_SEEN_LINES = 50_000
"""Lines kept over all targets; past it all are read anew: passing labels must not pile up."""


class SchemaInterner(Protocol):
    """Gives equal lists of series one Schema, hence one id. History implements it."""

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        """Return the schema of these series, made on first sight."""
        ...


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
class _Line:
    """What one line says. `key` None: a comment, a blank or an odd line.

    plain: the line is the series, one space, and the value; so its prefix stands for the series.
    """

    key: SeriesKey | None
    value: float = math.nan
    plain: bool = False
    odd: bool = False


_NOTHING = _Line(key=None)
_ODD = _Line(key=None, odd=True)


@dataclass(frozen=True, slots=True)
class _Known:
    """The last page of a target, split, and what its lines are.

    plain: for each line whether its prefix stands for its series (see _Line).
    columns: for each line its place in `page.values`, or _NO_COLUMN.
    """

    lines: Sequence[bytes]
    plain: Sequence[bool]
    columns: Sequence[int]
    page: Page


class PageReader:
    """Turns page bytes into (schema, values); keeps the last page of each target."""

    def __init__(self, schemas: SchemaInterner) -> None:
        self._schemas = schemas
        self._known: dict[str, _Known] = {}
        self._seen: dict[bytes, SeriesKey] = {}

    def read(self, body: bytes, content_type: str, target: str) -> Page:
        """Read a page of `target`. Lines that cannot be read are counted and left out.

        Raises ScrapeError(PARSE) if there is text but no line of it can be read, or if an
        OpenMetrics page was cut off. An empty page is a page without series, not a failure.
        """
        lines = body.split(b"\n")
        mislabelled = _is_mislabelled(body, content_type)
        known = self._known.get(target)
        values = _read_again(known, lines) if known else None
        if known is not None and values is not None:
            page = known.page._replace(values=values, mislabelled=mislabelled)
            self._known[target] = _Known(lines, known.plain, known.columns, page)
        else:
            known = self._read_anew(known, lines)
            page = known.page._replace(mislabelled=mislabelled)
            self._known[target] = known
        return page._replace(values=page.values.copy())

    def targets(self) -> set[str]:
        """Return the targets of which something is kept."""
        return set(self._known)

    def forget(self, target: str) -> None:
        """Drop what is kept about a target that is no longer watched."""
        self._known.pop(target, None)

    def _read_anew(self, known: _Known | None, lines: Sequence[bytes]) -> _Known:
        if len(self._seen) > _MAX_SEEN_LINES:
            self._seen.clear()
        read = [_read_line(line, self._seen) for line in lines]
        columns, series = _columns_of(read)
        odd = sum(line.odd for line in read)
        if odd and not any(line.key for line in read):
            message = f"not a metrics page: none of its {odd} lines can be read"
            raise ScrapeError(message, reason=EdgeReason.PARSE)
        schema = known.page.schema if known and known.page.schema.series == series else None
        schema = schema or self._schemas.intern(series)
        used = [column != _NO_COLUMN for column in columns]
        values = np.array([line.value for line in compress(read, used)], dtype=np.float64)
        keys = [line.key for line in read if line.key]
        page = Page(schema, values, odd, duplicates=len(keys) - len(set(keys)))
        return _Known(lines, [line.plain for line in read], columns, page)


def _is_mislabelled(body: bytes, content_type: str) -> bool:
    """Say whether the page is of the other format than its Content-Type claims.

    Both formats put name, labels and value alike, so such a page is read all the same. Only a page
    that claims OpenMetrics and ends in the middle of a line was cut off.
    """
    claims = content_type.strip().lower().startswith(_OPENMETRICS)
    ended = body.rstrip().endswith(_EOF)
    if claims and not ended and body and not body.endswith(b"\n"):
        message = "the page was cut off: an OpenMetrics page ends with # EOF"
        raise ScrapeError(message, reason=EdgeReason.PARSE, retryable=True)
    return claims != ended


def _read_again(known: _Known, lines: Sequence[bytes]) -> FloatArray | None:
    """Return the values of a page whose lines stand where they stood, else None."""
    if len(lines) != len(known.lines):
        return None
    values = known.page.values.copy()
    for index in compress(range(len(lines)), map(ne, lines, known.lines)):
        prefix, _, token = lines[index].rpartition(b" ")
        if not known.plain[index] or prefix != known.lines[index].rpartition(b" ")[0]:
            return None
        value = _number(token)
        if value is None:
            return None
        if known.columns[index] != _NO_COLUMN:
            values[known.columns[index]] = value
    return values


def _read_line(line: bytes, seen: dict[bytes, SeriesKey]) -> _Line:
    """Read one line, from `seen` if it can be; add it to `seen` if it is plain."""
    text = line.strip()
    if not text or text.startswith(b"#"):
        return _NOTHING
    prefix, _, token = line.rpartition(b" ")
    key = seen.get(prefix)
    value = _number(token)
    if key is not None and value is not None:
        return _Line(key, value, plain=True)
    sample = _parse(text)
    if sample is None:
        return _ODD
    alone = sample.timestamp is None and sample.exemplar is None
    plain = alone and value is not None and _same(value, sample.value) and bool(prefix)
    key = SeriesKey(sample.name, labels_of(sample.labels))
    if plain:
        seen[prefix] = key
    return _Line(key, float(sample.value), plain)


def _parse(text: bytes) -> ParsedSample | None:
    """Return the library's reading of one sample line, or None if it cannot read it.

    Without the page's TYPE lines the library leaves names as they are on the page; with them it
    appends `_total` to counters that lack it, which Prometheus does not.
    """
    try:
        families = list(text_string_to_metric_families(text.decode()))
    except (ValueError, IndexError, KeyError, OverflowError):
        return None
    samples = [sample for family in families for sample in family.samples]
    return samples[0] if len(samples) == 1 else None


def _number(token: bytes) -> float | None:
    """Return the number that `token` is; None also for Python's 1_000, which is none to others."""
    if b"_" in token:
        return None
    try:
        return float(token)
    except ValueError:
        return None


def _same(one: float, other: float) -> bool:
    return float(one) == float(other) or (math.isnan(one) and math.isnan(other))


def _columns_of(read: Sequence[_Line]) -> tuple[list[int], tuple[SeriesKey, ...]]:
    """Give each first line of a series, but for `_created` ones, its column in page order."""
    names = {line.key.name for line in read if line.key}
    places: dict[SeriesKey, int] = {}
    columns = []
    for line in read:
        if line.key is None or line.key in places or _is_created(line.key.name, names):
            columns.append(_NO_COLUMN)
        else:
            columns.append(len(places))
            places[line.key] = len(places)
    return columns, tuple(places)


def _is_created(name: str, names: set[str]) -> bool:
    """Say whether `name` is the birth time that belongs to a counter, histogram or summary."""
    if not name.endswith(_CREATED):
        return False
    base = name.removesuffix(_CREATED)
    return base in names or any(base + suffix in names for suffix in _SUFFIXES_BESIDE_CREATED)
