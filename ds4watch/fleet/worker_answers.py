"""What a worker's answers say, or WorkerError if they do not."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.model.errors import EdgeReason, NoNumberError, WorkerError
from ds4watch.model.usage import Usage
from ds4watch.quality.distributions import Position
from ds4watch.quality.fingerprint import Step
from ds4watch.shaping.usage import usage_of


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's answer to a question. first_token_seconds: None if it said nothing."""

    text: str
    usage: Usage
    first_token_seconds: float | None
    took_seconds: float


class Streamed:
    """Gathers a stream of server-sent events, chat or not."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._first: float | None = None
        self._is_whole = False
        self.usage: Any = None

    def take(self, line: bytes, after_seconds: float) -> None:
        """Take in a line that came so long after the request. Raises WorkerError."""
        data = line.strip()
        if not data.startswith(b"data:"):
            return
        data = data[5:].strip()
        if data == b"[DONE]":
            self._is_whole = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            message = "an event of the worker's stream is not JSON"
            raise WorkerError(message, reason=EdgeReason.PARSE) from error
        if not isinstance(event, Mapping) or "error" in event:
            message = f"the worker's stream ended with an error: {str(event)[:200]}"
            raise WorkerError(message, reason=EdgeReason.STATUS, retryable=True)
        self.usage = event.get("usage") or self.usage
        text = _text_of(event)
        if text and self._first is None:
            self._first = after_seconds
        self._parts.append(text)

    def answer(self, took_seconds: float) -> Answer:
        """Return the whole. Raises WorkerError if it broke off."""
        if not self._is_whole:
            raise WorkerError("the stream broke off", reason=EdgeReason.BODY, retryable=True)
        usage = usage_of(self.usage) or Usage()
        return Answer("".join(self._parts), usage, self._first, took_seconds)


def _text_of(event: Mapping[str, Any]) -> str:
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    if not isinstance(choice, Mapping):
        return ""
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, Mapping) else choice.get("text")
    return text if isinstance(text, str) else ""


def greedy_steps(logprobs: Any) -> tuple[Step, ...]:
    """Return the steps of a completion's `logprobs`."""
    tokens, tops = listed(logprobs, "tokens"), listed(logprobs, "top_logprobs")
    if len(tokens) != len(tops):
        raise unusable("tokens and their log-probabilities are not as many")
    return tuple(
        Step(str(token), {str(name): _finite(value) for name, value in (top or {}).items()})
        for token, top in zip(tokens, tops, strict=True)
    )


def position_of(position: Any) -> Position:
    """Return what is said of a token of the prompt: its own entry is the first."""
    actual = actual_logprob(position)
    return Position(
        actual, {str(token): _finite(at(it, "logprob")) for token, it in position.items()}
    )


def _finite(value: Any) -> float:
    if isinstance(value, float) and math.isnan(value):
        raise NoNumberError("a log-probability is not a number", reason=EdgeReason.PARSE)
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise unusable("a log-probability is not a finite number")
    return float(value)


def unusable(what: str) -> WorkerError:
    """Return the error for an answer that says too little."""
    return WorkerError(what, reason=EdgeReason.PARSE)


def at(value: Any, key: str) -> Any:
    """Return what stands under a name."""
    if not isinstance(value, Mapping) or value.get(key) is None:
        raise unusable(f"the worker's answer has no {key!r}")
    return value[key]


def listed(value: Any, key: str) -> Sequence[Any]:
    """Return the list under a name."""
    found = at(value, key)
    if not isinstance(found, list):
        raise unusable(f"{key!r} in the worker's answer is not a list")
    return found


def whole(value: Any, key: str) -> int:
    """Return the whole number under a name."""
    found = at(value, key)
    if not isinstance(found, int) or isinstance(found, bool):
        raise unusable(f"{key!r} in the worker's answer is not a whole number")
    return found


def first_choice(answer: Any) -> Any:
    """Return the first choice."""
    choices = listed(answer, "choices")
    if not choices:
        raise unusable("the worker's answer has no choice")
    return choices[0]


def actual_logprob(position: Any) -> float:
    """Return the log-probability of the prompt's own token: its entry is the only one, or first."""
    if not isinstance(position, Mapping) or not position:
        raise unusable("a prompt token has no log-probability")
    logprob = at(next(iter(position.values())), "logprob")
    if not isinstance(logprob, int | float) or not math.isfinite(logprob):
        raise unusable("a prompt token's log-probability is not a finite number")
    return float(logprob)
