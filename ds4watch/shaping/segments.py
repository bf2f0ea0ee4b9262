"""A text cut into segments: sentences, lines, and blocks that must not be cut into.

Segments and the white space between them are slices of the text: joined again they are the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low

from ds4watch.shaping.code_blocks import LineKind, kinds_of

_LONG_CHARS = 240
"""A sentence over this (some forty words) is cut at line ends and clauses too."""
_SHORTEST_CLAUSE_CHARS = 60

_SENTENCE_END = re.compile(
    r"[.!?](?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)(?<!\bNo\.)(?<!\bMr\.)(?<!\bMs\.)"
    r"(?<!\bDr\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)(?<!\s.)[\"')\]”’»]*\s+|[。！？][」』”]*\s*"  # noqa: RUF001
)
_CLAUSE_END = re.compile(r"[;:,]\s+|\s*\n\s*|\s+[-–—]+\s+")  # noqa: RUF001 - dashes of all lengths
_NEW_LINE_OF_ITS_OWN = re.compile(r"\s*(?:[-*+•|#]|\(?\w{1,3}[.)]\s|\d|[A-Z][^.!?]*[.!?]\s*$)")
_QUOTATION = re.compile(r"\"([^\"\n]{12,})\"|“([^”]{12,})”|«([^»]{12,})»|「([^」]{6,})」")
_QUOTED_WORDS = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """`text[start:end]`, without the white space around it; `kept`: not to be removed."""

    start: int
    end: int
    kept: bool = False


def segments_of(text: str) -> list[Segment]:
    """Return the segments in order: code, JSON and quotations are marked as kept."""
    found: list[Segment] = []
    for start, end, kind in _runs(text):
        if kind is LineKind.KEPT:
            found += _trimmed(text, start, end, kept=True)
        else:
            found += _sentences(text, start, end)
    return found


def _runs(text: str) -> Iterator[tuple[int, int, LineKind]]:
    """Yield stretches of lines that belong together: a kept block, or a paragraph."""
    lines = text.splitlines(keepends=True)
    kinds = kinds_of(lines)
    width = median_low([len(line) for line in lines]) if lines else 0
    start = at = 0
    before: LineKind = LineKind.BLANK
    previous = ""
    for line, kind in zip(lines, kinds, strict=True):
        if kind is not before or (kind is LineKind.TEXT and _is_break(previous, line, width)):
            if before is not LineKind.BLANK and at > start:
                yield start, at, before
            start = at
        before, previous = kind, line
        at += len(line)
    if before is not LineKind.BLANK and at > start:
        yield start, at, before


def _is_break(previous: str, line: str, width: int) -> bool:
    """Return whether `line` does not go on with the sentence of the line before."""
    if _NEW_LINE_OF_ITS_OWN.match(line):
        return True
    # Text that is not wrapped has one thought a line.
    return len(previous) < width // 2


def _sentences(text: str, start: int, end: int) -> Iterator[Segment]:
    at = start
    for match in _SENTENCE_END.finditer(text, start, end):
        yield from _clauses(text, at, match.end())
        at = match.end()
    yield from _clauses(text, at, end)


def _clauses(text: str, start: int, end: int) -> Iterator[Segment]:
    """Yield a sentence, an overlong one in parts, one with a quotation whole and kept."""
    if _has_quotation(text[start:end]):
        yield from _trimmed(text, start, end, kept=True)
        return
    at = start
    while end - at > _LONG_CHARS:
        cut = _CLAUSE_END.search(text, at + _SHORTEST_CLAUSE_CHARS, end)
        if cut is None or end - cut.end() < _SHORTEST_CLAUSE_CHARS:
            break
        yield from _trimmed(text, at, cut.end(), kept=False)
        at = cut.end()
    yield from _trimmed(text, at, end, kept=False)


def _has_quotation(sentence: str) -> bool:
    if '"' not in sentence and sentence.isascii():
        return False
    return any(
        len("".join(filter(None, match.groups())).split()) >= _QUOTED_WORDS or match[4]
        for match in _QUOTATION.finditer(sentence)
    )


def _trimmed(text: str, start: int, end: int, *, kept: bool) -> Iterator[Segment]:
    piece = text[start:end]
    first = len(piece) - len(piece.lstrip())
    last = len(piece.rstrip())
    if last > first:
        yield Segment(start + first, start + last, kept)


def join(text: str, segments: Sequence[Segment], removed: Collection[int]) -> str:
    """Return `text` without the segments of those indices; the wider gap stays where two meet."""
    if not removed:
        return text
    parts: list[str] = []
    gap, at = "", 0
    for index, segment in enumerate(segments):
        gap = max(gap, text[at : segment.start], key=_width)
        at = segment.end
        if index not in removed:
            parts += (gap, text[segment.start : segment.end])
            gap = ""
    parts.append(max(gap, text[at:], key=_width))
    return "".join(parts)


def _width(gap: str) -> tuple[int, int]:
    return gap.count("\n"), len(gap)
