"""What can be told from an expression's text alone: where strings are, where a word stands."""

from __future__ import annotations

import json
import re

from ds4watch.model.errors import QueryError

MAX_CHARACTERS = 65_536
MAX_STRUCTURE = 2_000
"""Operators and brackets in one expression; the parser's own recursion has no bound."""

_STRING_OR_COMMENT = re.compile(
    r"""(?P<raw>`[^`]*`)|(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<comment>\#[^\n]*)"""
)
_BYTE_ESCAPE = re.compile(r"\\(?:x[89a-fA-F][0-9a-fA-F]|[23][0-7]{2})")
_NEGATIVE_AT = re.compile(r"@\s*-")
_STRUCTURE = re.compile(r"[-+*/%^()<>=!]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)


def blank(text: str) -> str:
    """Return `text`, same length, with spaces for the insides of strings and for comments."""
    return _STRING_OR_COMMENT.sub(lambda match: '"' + " " * (len(match[0]) - 1), text)


def check(text: str) -> None:
    """Raise QueryError for what the parser would misread, or could not survive."""
    blanked = blank(text)
    if len(text) > MAX_CHARACTERS or len(_STRUCTURE.findall(blanked)) > MAX_STRUCTURE:
        raise QueryError("the expression is too long")
    for match in _STRING_OR_COMMENT.finditer(text):
        escape = _BYTE_ESCAPE.search(match["quoted"] or "")
        if escape:
            at = match.start() + escape.start()
            message = f"the escape {escape[0]} is not supported, write the character itself"
            raise QueryError(message, position=at)
    negative = _NEGATIVE_AT.search(blanked)
    if negative:
        raise QueryError("`@` before 1970 is not supported", position=negative.start())


def requote(text: str) -> str:
    """Return `text` with raw strings as quoted ones: the parser reads escapes in raw ones too."""

    def quoted(match: re.Match[str]) -> str:
        raw = match["raw"]
        return match[0] if raw is None else json.dumps(raw[1:-1], ensure_ascii=False)

    return _STRING_OR_COMMENT.sub(quoted, text)


def find_word(text: str, word: str) -> int | None:
    """Return where `word` first stands as a whole word outside of strings, if anywhere."""
    match = re.search(rf"(?<![\w:]){re.escape(word)}(?![\w:])", blank(text), re.IGNORECASE)
    return match.start() if match else None


def find_unclosed(text: str) -> int | None:
    """Return where the first bracket stands that is not closed, or closes none."""
    pairs = {")": "(", "]": "[", "}": "{"}
    stack: list[tuple[str, int]] = []
    for at, char in enumerate(blank(text)):
        if char in pairs.values():
            stack.append((char, at))
        elif char in pairs and (not stack or stack.pop()[0] != pairs[char]):
            return at
    return stack[-1][1] if stack else None
