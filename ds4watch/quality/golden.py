"""Golden questions: a prompt, the class of work that it stands for, and who judges the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ds4watch.model.errors import ConfigError, Located
from ds4watch.quality.judges import Judge, judge_of

MAX_QUESTIONS = 20_000
_MOST_TOKENS = 4096
_ANSWER_TOKENS = 256
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_FIELDS = frozenset({"id", "class", "prompt", "judge", "max_tokens"})


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `id` is the same for ever: answers are kept by it. line: of its file."""

    id: str
    work_class: str
    prompt: str
    judge: Judge
    max_tokens: int = _ANSWER_TOKENS
    file: str | None = field(default=None, compare=False)
    line: int | None = field(default=None, compare=False)


def questions_of(text: str, *, file: str) -> tuple[Question, ...]:
    """Read a set, one JSON object a line. Raises ConfigError that names every bad line."""
    found: list[Question] = []
    faults: list[Located] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(replace(_question(json.loads(line)), file=file, line=number))
        except (ValueError, RecursionError) as error:
            faults.append(Located(str(error), file=file, line=number))
    faults += _of_the_whole(found)
    if faults:
        raise ConfigError(*faults[:20])
    return tuple(found)


def together(sets: Iterable[tuple[Question, ...]]) -> tuple[Question, ...]:
    """Return the questions of several sets. Raises ConfigError if two have one id."""
    found = tuple(question for questions in sets for question in questions)
    faults = _of_the_whole(found)
    if faults:
        raise ConfigError(*faults)
    return found


def _of_the_whole(found: Iterable[Question]) -> list[Located]:
    seen: dict[str, Question] = {}
    faults = []
    for it in found:
        first = seen.setdefault(it.id, it)
        if first is not it:
            told = f"the id {it.id!r} is there twice, first in {first.file}:{first.line}"
            faults.append(Located(told, file=it.file, line=it.line))
    if len(seen) > MAX_QUESTIONS:
        faults.append(Located(f"there are more than {MAX_QUESTIONS} questions"))
    return faults[:20]


def _question(document: Any) -> Question:
    if not isinstance(document, Mapping):
        message = "must be a JSON object"
        raise ValueError(message)  # noqa: TRY004 - bad input of a file, not of a caller
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        message = f"there is no field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}"
        raise ValueError(message)
    tokens = document.get("max_tokens", _ANSWER_TOKENS)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= _MOST_TOKENS:
        message = f"`max_tokens` must be a whole number from 1 to {_MOST_TOKENS}"
        raise ValueError(message)
    prompt = document.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        message = "`prompt` must be a text that is not empty"
        raise ValueError(message)
    return Question(
        id=_name(document, "id"),
        work_class=_name(document, "class"),
        prompt=prompt,
        judge=judge_of(document.get("judge")),
        max_tokens=tokens,
    )


def _name(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        message = f"`{field}` must be a name such as {field}-1: a-z, 0-9, _ . -, at most 63"
        raise ValueError(message)
    return value
