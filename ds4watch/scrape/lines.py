"""Reads single lines of a metrics page, in both text formats.

Lines of the usual shape are read by two expressions, in linear time; the tests hold them to
prometheus-client's parser. Whatever else a line may be is left to that parser, within a budget: on
hostile input it takes time quadratic in the line.

The formats put name, labels and value alike, so one reading serves both. A timestamp is skipped
(Prometheus' `honor_timestamps: false`: all samples of a scrape have one time), and so is an
exemplar.
"""

from __future__ import annotations

import math
import re
from sys import intern
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ParsedSample

from ds4watch.model.series import SeriesKey, labels_of

_PAIR = rb'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*"'
_HEAD = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?:(%b(?:, ?%b)*),?)?\})? +" % (_PAIR, _PAIR))
"""A name, labels, and the space before the value: the prefix that stands for a series."""
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\[\\n"]')
_ESCAPES = {r"\\": "\\", r"\n": "\n", r"\"": '"'}

_MAX_ODD_LINE_BYTES = 8192
_MAX_ODD_PAGE_BYTES = 1 << 18


class Line(NamedTuple):
    """What one line says. `key` None: a comment, a blank, or (`odd`) a line that cannot be read.

    prefix: the bytes before the value, if they stand for the series whatever the value is.
    """

    key: SeriesKey | None
    value: float = math.nan
    prefix: bytes = b""
    odd: bool = False


NOTHING = Line(key=None)
ODD = Line(key=None, odd=True)


class Budget:
    """How much of one page may still go to the library's parser."""

    def __init__(self) -> None:
        self._left_bytes = _MAX_ODD_PAGE_BYTES

    def allows(self, line: bytes) -> bool:
        """Take the line off the budget; say whether it was within."""
        if len(line) > min(self._left_bytes, _MAX_ODD_LINE_BYTES):
            return False
        self._left_bytes -= len(line)
        return True


def read_line(line: bytes, seen: dict[bytes, SeriesKey], budget: Budget) -> Line:
    """Read one line; look its prefix up in `seen`, and add it there if it is new."""
    if line.startswith(b"#"):
        return NOTHING
    cut = line.rfind(b" ") + 1
    prefix = line[:cut]
    key = seen.get(prefix)
    if key is not None and (value := value_of(line[cut:])) is not None:
        return Line(key, value, prefix)
    head = _HEAD.match(line)
    if head is None:
        return _by_library(line, budget)
    value = value_of(line[head.end() :])
    key = seen.get(head[0]) or _key_of(head)
    if value is None or key is None:
        return _by_library(line, budget)
    seen[head[0]] = key
    return Line(key, value, head[0])


def value_of(rest: bytes) -> float | None:
    """Return the value that stands after a prefix, perhaps before a timestamp or an exemplar.

    As in the library, what stands last must be a number too, and Python's 1_000 is none.
    """
    try:
        value = float(rest)
    except ValueError:
        token, space, tail = rest.partition(b" ")
        before_brace, brace, _ = (space + tail).partition(b"{")
        if brace and b" # " not in before_brace:
            return None
        return _number(token) if _number(tail.rpartition(b" ")[2]) is not None else None
    return None if b"_" in rest else value


def _number(token: bytes) -> float | None:
    try:
        return None if b"_" in token else float(token)
    except ValueError:
        return None


def _key_of(head: re.Match[bytes]) -> SeriesKey | None:
    """Return the series of a prefix, or None if its labels repeat a name or are no UTF-8."""
    name, inner = head.groups()
    if inner is None:
        return SeriesKey(intern(name.decode()))
    try:
        pairs = _LABEL.findall(inner.decode())
    except UnicodeDecodeError:
        return None
    labels = {intern(label): intern(_unescaped(value)) for label, value in pairs}
    if len(labels) < len(pairs) or any(label.startswith("__") for label in labels):
        return None
    return SeriesKey(intern(name.decode()), labels_of(labels))


def _unescaped(value: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], value) if "\\" in value else value


def _by_library(line: bytes, budget: Budget) -> Line:
    """Read a line of no usual shape."""
    if not line.strip():
        return NOTHING
    if not budget.allows(line):
        return ODD
    try:
        text = line.decode().strip()
        sample = _parse(text)
        if not text or text.startswith("#"):
            return NOTHING
        if sample is None:
            return ODD
        return Line(SeriesKey(sample.name, labels_of(sample.labels)), _as_float(sample.value))
    except (ValueError, IndexError, KeyError, OverflowError):
        return ODD


def _parse(text: str) -> ParsedSample | None:
    """Return the library's reading of one sample line, or None if there is none.

    Without the page's TYPE lines the library leaves names as they are on the page; with them it
    appends `_total` to counters that lack it, which Prometheus does not.
    """
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    return samples[0] if len(samples) == 1 else None


def _as_float(value: float) -> float:
    """Return `value`, which may be an int too large for a float."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
