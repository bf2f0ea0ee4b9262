"""Usage as answers report it, read without trust."""

from __future__ import annotations

import json
import re
from typing import Any

from ds4watch.model.usage import Usage

_DECODER = json.JSONDecoder()
_FIELDS = (
    rb'\{"prompt_tokens":([0-9]{1,9}),"total_tokens":[0-9]{1,9},"completion_tokens":([0-9]{1,9})'
    rb'(?:,"prompt_tokens_details":(?:null|\{"cached_tokens":([0-9]{1,9})\}))?\}'
)
_USUAL = re.compile(_FIELDS)
"""As vLLM writes it."""
_USUAL_AT_THE_END = re.compile(rb'"usage":%b(?:,"[a-z_]{1,40}":null){0,8}\}\Z' % _FIELDS)


def usage_of(reported: Any) -> Usage | None:
    """Return the usage that an answer's `usage` field tells, None if it tells none."""
    if not isinstance(reported, dict):
        return None
    prompt = _count(reported.get("prompt_tokens"))
    if prompt is None:
        return _usage_of_responses(reported)
    details = reported.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(
        prompt=prompt,
        cached=min(cached or 0, prompt),
        completion=_count(reported.get("completion_tokens")) or 0,
    )


def _usage_of_responses(reported: dict[str, Any]) -> Usage | None:
    """Return the usage in the words of the responses API."""
    prompt = _count(reported.get("input_tokens"))
    if prompt is None:
        return None
    details = reported.get("input_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    completion = _count(reported.get("output_tokens")) or 0
    return Usage(prompt=prompt, cached=min(cached or 0, prompt), completion=completion)


def usage_at_the_end(answer: bytes) -> Usage | None:
    """Return the usage of a whole answer, a JSON object, reading no more of it than needed.

    Workers tell it behind the text. What follows the last mention is an object's rest only if
    the mention is a field of the answer itself; of an inner one, a brace too many follows.
    """
    at = answer.rfind(b'"usage"')
    if at < 0:
        return None
    usual = _USUAL_AT_THE_END.match(answer, at)
    if usual is not None:
        return _usage_matched(usual)
    told = _rest_of_object(answer[at:])
    if not isinstance(told, dict):
        told = _loads(answer)
    return usage_of(told.get("usage")) if isinstance(told, dict) else None


def usage_told(text: bytes) -> Usage | None:
    """Return the usage that the JSON of a `usage` field tells."""
    usual = _USUAL.fullmatch(text)
    return usage_of(_loads(text)) if usual is None else _usage_matched(usual)


def _usage_matched(usual: re.Match[bytes]) -> Usage:
    prompt, cached = int(usual[1]), int(usual[3] or 0)
    return Usage(prompt, min(cached, prompt), int(usual[2]))


def _rest_of_object(rest: bytes) -> Any:
    """Return the object that ends with `rest`; None if there is more, or less, than that."""
    try:
        text = f"{{{rest.decode()}"
        told, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return _loads(b"{" + rest)
    return told if end == len(text) else _loads(b"{" + rest)


def _loads(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def sum_of_choices(parts: list[Usage]) -> Usage | None:
    """Return one answer's usage from the running usage of each of its choices.

    vLLM counts completion tokens by choice until the last chunk; the prompt is shared.
    """
    if not parts:
        return None
    return Usage(
        prompt=max(part.prompt for part in parts),
        cached=max(part.cached for part in parts),
        completion=sum(part.completion for part in parts),
    )


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
