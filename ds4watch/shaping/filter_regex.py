"""RE2 expressions that are asked of text that is still coming.

Beside an expression stands that of its beginnings: what a match may look like so far. Where the
text at hand ends with such a beginning, more text could make a match of it, and nowhere else.
The beginnings of `ab` are ``, `a` and `ab`; those of `x*` are `x*` with a beginning of `x`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import re2

_ATOM = re.compile(
    r"\\(?:x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP](?:\{\^?\w+\}|[A-Z])|[0-7]{3}|.)"
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|[^\\\[\]()|*+?{}]|\]|\}|\{(?!\d)",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d{1,4})(?:(,)(\d{1,4})?)?\})(\?)?")
_GROUP = re.compile(r"\((?:\?(?:P?<\w+>|([a-zA-Z]*(?:-[a-zA-Z]+)?):))?")
_EDGES: Final = frozenset({r"\b", r"\B"})
_OUTER: Final = frozenset({"^", "$", r"\A", r"\z", r"\Z", r"\C", r"\Q", r"\E", r"\G"})
_MAX_DEPTH: Final = 20
_MEMORY_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of an expression: itself, its beginnings, and the least characters it takes."""

    text: str
    begun: str
    least: int


_NOTHING = _Part("", "", 0)


def compile_re2(text: str) -> Any:
    """Compile an expression, `.` matching newlines too. Raises ValueError."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(f"(?s:{text})", options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"is not a regular expression of RE2: {told}"
        raise ValueError(message) from error


def has_edges(text: str) -> bool:
    """Return whether an expression looks at what stands beside a match."""
    return any(edge in text for edge in _EDGES)


def beginnings(text: str) -> str:
    """Return the expression of all beginnings of what `text` matches, the empty one included.

    Raises ValueError if it is malformed, can match nothing at all, or asks for the text's ends,
    which a stream has not.
    """
    compile_re2(text)
    part = _Reader(text).whole()
    if part.least == 0:
        message = "must not match the empty text"
        raise ValueError(message)
    return part.begun


class _Reader:
    """Takes an expression apart."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> _Part:
        part = self._choice(0)
        if self._at < len(self._text):
            raise self._odd()
        return part

    def _choice(self, depth: int) -> _Part:
        if depth > _MAX_DEPTH:
            message = f"is nested deeper than {_MAX_DEPTH} levels"
            raise ValueError(message)
        found = [self._row(depth)]
        while self._next() == "|":
            self._at += 1
            found.append(self._row(depth))
        if len(found) == 1:
            return found[0]
        return _Part(
            f"(?:{'|'.join(part.text for part in found)})",
            f"(?:{'|'.join(part.begun for part in found)})",
            min(part.least for part in found),
        )

    def _row(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated(self._single(depth)))
        if not parts:
            return _NOTHING
        begun = parts[-1].begun
        for part in reversed(parts[:-1]):
            begun = f"(?:{part.begun}|{part.text}{begun})"
        return _Part("".join(part.text for part in parts), begun, sum(part.least for part in parts))

    def _single(self, depth: int) -> _Part:
        if self._next() == "(":
            return self._group(depth)
        match = _ATOM.match(self._text, self._at)
        if match is None:
            raise self._odd()
        atom = match[0]
        self._at = match.end()
        if atom in _OUTER:
            message = f"must not ask for the ends of a text, which a stream has not ({atom})"
            raise ValueError(message)
        return _Part(atom, "", 0) if atom in _EDGES else _Part(atom, f"(?:{atom})?", 1)

    def _group(self, depth: int) -> _Part:
        match = _GROUP.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        if self._next() == "?":
            raise self._odd()  # (?i) without a colon would hold for what follows
        inner = self._choice(depth + 1)
        if self._next() != ")":
            raise self._odd()
        self._at += 1
        flags = match[1] or ""
        return _Part(f"(?{flags}:{inner.text})", f"(?{flags}:{inner.begun})", inner.least)

    def _repeated(self, part: _Part) -> _Part:
        match = _QUANTIFIER.match(self._text, self._at)
        if match is None:
            return part
        self._at = match.end()
        if _QUANTIFIER.match(self._text, self._at):
            raise self._odd()
        low, high = _bounds(match)
        text = f"(?:{part.text}){match[0]}"
        if high == 0:
            return _NOTHING
        before = "*" if high is None else f"{{0,{high - 1}}}"
        return _Part(text, f"(?:{part.text}){before}{part.begun}", low * part.least)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _odd(self) -> ValueError:
        return ValueError(f"is not understood from {self._text[self._at : self._at + 20]!r} on")


def _bounds(match: re.Match[str]) -> tuple[int, int | None]:
    if match[1]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[match[1]]
    low = int(match[2])
    if not match[3]:
        return low, low
    return low, int(match[4]) if match[4] else None
