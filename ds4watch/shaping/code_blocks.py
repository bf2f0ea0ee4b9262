"""Which lines of a text are code, JSON or quoted, and so not to be cut into. Linear in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from statistics import median_low

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_BRACKETS = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|[{}\[\]]")
_PAIRS = {"}": "{", "]": "["}
_INDENT_COLUMNS = 4
_PROSE = re.compile(r"[^\W\d_]{2,}[,;:]?(?: +|\n)")
_PROSE_WORDS = 8
_CODE_SIGN = re.compile(r"[{}=<>|\\$]|\w\(|\)\s*$|;\s*$|::|->|\w\.\w+\(")


class LineKind(Enum):
    """What a line is part of."""

    BLANK = auto()
    TEXT = auto()
    KEPT = auto()


def kinds_of(lines: Sequence[str]) -> list[LineKind]:
    """Return the kind of each line: fenced, indented, JSON and `>` quoted ones are kept."""
    kinds = [LineKind.TEXT if line.strip() else LineKind.BLANK for line in lines]
    _mark_fenced(lines, kinds)
    _mark_json(lines, kinds)
    _mark_indented(lines, kinds)
    for at, line in enumerate(lines):
        if line.lstrip().startswith(">"):
            kinds[at] = LineKind.KEPT
    return kinds


def _mark_fenced(lines: Sequence[str], kinds: list[LineKind]) -> None:
    fence = ""
    for at, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            kinds[at] = LineKind.KEPT
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            kinds[at] = LineKind.KEPT
            fence = mark[1]  # never closed: code up to the end, as Markdown has it


def _mark_json(lines: Sequence[str], kinds: list[LineKind]) -> None:
    """Mark lines from a bracket that begins a line to its partner, with a `:` or `,` between."""
    open_brackets: list[tuple[str, int, bool]] = []
    for at, line in enumerate(lines):
        stripped = line.strip()
        if kinds[at] is LineKind.KEPT:
            open_brackets.clear()
        elif stripped[:1] in {"{", "["} or open_brackets:
            _close_brackets(line, at, open_brackets, kinds)


def _close_brackets(
    line: str, at: int, open_brackets: list[tuple[str, int, bool]], kinds: list[LineKind]
) -> None:
    indent = len(line) - len(line.lstrip())
    for match in _BRACKETS.finditer(line):
        mark = match[0]
        if mark in "{[":
            open_brackets.append((mark, at, match.start() == indent))
        elif mark in _PAIRS:
            if not open_brackets or open_brackets[-1][0] != _PAIRS[mark]:
                open_brackets.clear()
                return
            _, first, begins_line = open_brackets.pop()
            # Only the outermost: each line is marked once.
            if begins_line and not open_brackets and _is_data(line, single=first == at):
                kinds[first : at + 1] = [LineKind.KEPT] * (at + 1 - first)


def _is_data(line: str, *, single: bool) -> bool:
    """Return whether brackets hold data: over several lines they do, in one if it has pairs."""
    return not single or '":' in line or ('"' in line and "," in line) or line.count(",") > 2


def _mark_indented(lines: Sequence[str], kinds: list[LineKind]) -> None:
    """Mark blocks after a blank line, indented against the text around, that are not prose."""
    indents = [_columns(line) for line in lines]
    text = [columns for columns, kind in zip(indents, kinds, strict=True) if kind is LineKind.TEXT]
    least = (median_low(text) if text else 0) + _INDENT_COLUMNS
    at = 0
    while at < len(lines):
        if kinds[at] is not LineKind.TEXT or indents[at] < _INDENT_COLUMNS:
            at += 1
            continue
        end = at
        while end < len(lines) and kinds[end] is LineKind.TEXT and indents[end] >= _INDENT_COLUMNS:
            end += 1
        if (at == 0 or kinds[at - 1] is not LineKind.TEXT) and _is_code(
            lines[at:end], indented=indents[at] >= least
        ):
            kinds[at:end] = [LineKind.KEPT] * (end - at)
        at = end


def _is_code(block: Sequence[str], *, indented: bool) -> bool:
    """Return whether an indented block is code: not prose, or with signs of it in most lines."""
    signs = sum(1 for line in block if _CODE_SIGN.search(line))
    if 2 * signs > len(block):
        return True
    return indented and not any(len(_PROSE.findall(line)) >= _PROSE_WORDS for line in block)


def _columns(line: str) -> int:
    bare = line.lstrip(" \t")
    return len(line[: len(line) - len(bare)].expandtabs(4))
