"""A light score of generated text, from 0 (broken) to 1: the signs of a model gone wrong.

A broken quantization repeats itself, mixes scripts, throws in odd characters and half words, or
says nothing. Each sign takes its share; good prose, code and tables in any language stay near 1.
It tells nothing of whether an answer is right.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_CHARS: Final = 4096
MAX_BYTES: Final = 64 << 10
_SHORT_CHARS: Final = 24
"""A text shorter than this says too little about how it was made."""
_GRAM_WORDS: Final = 3
_WORD = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"\S+")
_DATA_LINE = re.compile(rb"^data:[ ]?(\{.*\})\r?$", re.MULTILINE)
_ODD = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]")
_BROKEN_CASE = re.compile(r"[a-z][A-Z]+[a-z]+[A-Z]")
_LATIN: Final = "latin"
_ONLY_LATIN: Final = frozenset({_LATIN})
_SCRIPTS: Final = (
    (0x0041, 0x024F, "latin"), (0x0370, 0x03FF, "greek"), (0x0400, 0x052F, "cyrillic"),
    (0x0530, 0x058F, "armenian"), (0x0590, 0x05FF, "hebrew"), (0x0600, 0x06FF, "arabic"),
    (0x0900, 0x0DFF, "indic"), (0x0E00, 0x0EFF, "thai"), (0x1E00, 0x1EFF, "latin"),
    (0x3040, 0x30FF, "east"), (0x3400, 0x9FFF, "east"), (0xAC00, 0xD7AF, "hangul"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextScore:
    """The signs, each from 0 (none) to 1, and the score made of them."""

    repetition: float = 0.0
    mixing: float = 0.0
    oddness: float = 0.0
    is_empty: bool = False
    is_truncated: bool = False
    """It ended at the limit of tokens: told, and not held against it; but loops end so."""

    @property
    def value(self) -> float:
        """The score, 0 to 1."""
        if self.is_empty:
            return 0.0
        good = (1 - self.repetition) * (1 - self.mixing) * (1 - self.oddness)
        return good * (0.9 if self.is_truncated and self.repetition > 0.2 else 1.0)


def score_of(text: str, finish_reason: str | None = None, *, has_tools: bool = False) -> TextScore:
    """Return the score of a text, of its first 4096 characters. A call of a tool needs no text."""
    text = text[:MAX_CHARS]
    is_truncated = finish_reason == "length"
    stripped = text.strip()
    if not stripped:
        return TextScore(is_empty=not has_tools, is_truncated=is_truncated)
    if len(stripped) < _SHORT_CHARS:
        return TextScore(oddness=_oddness(stripped), is_truncated=is_truncated)
    return TextScore(
        _repetition(stripped), _mixing(stripped), _oddness(stripped), is_truncated=is_truncated
    )


def _repetition(text: str) -> float:
    """Return how much of a text was there before: by packing it, and by its runs of words."""
    raw = text.encode("utf-8", "replace")
    ratio = len(zlib.compress(raw, 6)) / len(raw)
    # Prose of 4 KB packs to 0.45, code to 0.3; a loop to 0.02.
    packed = _scaled(0.28 - ratio, 0.22) if len(raw) >= 200 else 0.0
    words = _TOKEN.findall(text)
    grams = Counter(tuple(words[at : at + _GRAM_WORDS]) for at in range(len(words) - 2))
    total = sum(grams.values())
    if total < 8:
        return max(packed, _same_character(text))
    again = (total - len(grams)) / total
    return max(packed, _scaled(again - 0.3, 0.5), _same_character(text))


def _same_character(text: str) -> float:
    most = max(Counter(text).values())
    return _scaled(most / len(text) - 0.4, 0.4)


def _mixing(text: str) -> float:
    """Return how much of a text is in scripts that do not belong: neither Latin nor the main one.

    Names in Latin letters stand in texts of every script, and in Chinese without a space.
    """
    words = [found for word in _WORD.findall(text) if (found := _scripts_of(word))]
    if len(words) < 4:
        return 0.0
    counts = Counter(script for found in words for script in found if script != _LATIN)
    main = counts.most_common(1)[0][0] if counts else _LATIN
    expected = {_LATIN, main}
    strange = sum(not found <= expected for found in words)
    within = sum(len(found - {"east"}) > 1 for found in words)
    return _scaled((strange + within) / len(words) - 0.05, 0.35)


def _oddness(text: str) -> float:
    """Return how many characters and words are none that people write."""
    odd = len(_ODD.findall(text)) / len(text)
    words = _WORD.findall(text)
    broken = sum(_BROKEN_CASE.search(word) is not None or len(word) > 40 for word in words)
    return max(
        _scaled(odd, 0.05),
        _scaled(broken / len(words) - 0.3, 0.5) if len(words) >= 5 else 0.0,
        _scaled(_punctuation(text) - 0.5, 0.3),
    )


def _punctuation(text: str) -> float:
    visible = [one for one in text if not one.isspace()]
    return sum(not one.isalnum() for one in visible) / max(1, len(visible))


def _scripts_of(word: str) -> frozenset[str]:
    if word.isascii():
        return _ONLY_LATIN
    return frozenset(script for one in word if (script := _script(ord(one))) is not None)


def _script(code: int) -> str | None:
    return next((name for low, high, name in _SCRIPTS if low <= code <= high), None)


def _scaled(value: float, full: float) -> float:
    return min(1.0, max(0.0, value / full))


def score_of_answer(body: bytes, *, stream: bool) -> TextScore | None:
    """Return the score of the first choice of an answer as the worker sent it, None: no such."""
    texts: list[str] = []
    reason: str | None = None
    has_tools = seen = False
    for choice in _first_choices(body, stream=stream):
        seen = True
        inner = choice.get("delta") or choice.get("message") or choice
        if not isinstance(inner, dict):
            continue
        found = (inner.get(name) for name in ("reasoning_content", "reasoning", "content", "text"))
        texts += [text for text in found if isinstance(text, str)]
        has_tools |= bool(inner.get("tool_calls"))
        reason = choice.get("finish_reason") or reason
    if not seen:
        return None
    return score_of("".join(texts), reason, has_tools=has_tools)


def _first_choices(body: bytes, *, stream: bool) -> Iterator[dict[str, Any]]:
    for raw in _DATA_LINE.findall(body) if stream else (body,):
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        choices = answer.get("choices") if isinstance(answer, dict) else None
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                yield choice
