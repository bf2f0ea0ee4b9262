"""Segments judged by a small worker: what its `prompt_logprobs` say of each."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ds4watch.gateway.asking import Asking
from ds4watch.gateway.state import GatewayState
from ds4watch.model.errors import Ds4watchError
from ds4watch.routing.choice import Ask, NoRoute

_MAX_ANSWER_BYTES = 64 << 20

log = logging.getLogger(__name__)

Post = Callable[[Mapping[str, Any]], Awaitable[bytes | None]]
"""Sends a body to /v1/completions of the scorer's worker; None if nobody could answer."""


class WorkerPost:
    """Sends bodies to a ready worker of the scorer's model."""

    def __init__(self, model: str, state: GatewayState, asking: Asking) -> None:
        self._model = model
        self._state = state
        self._asking = asking
        self._is_failing = False

    async def __call__(self, body: Mapping[str, Any]) -> bytes | None:
        """Return the answer, None if there is none."""
        route = self._state.chooser.choose(Ask(self._model))
        if isinstance(route, NoRoute):
            self._failed(route.reason)
            return None
        worker = route.worker
        data = json.dumps(dict(body)).encode()
        try:
            self._state.inflight.begin_attempt(worker.id)
            try:
                answer = await self._asking.posted(
                    worker, b"/v1/completions", data, max_bytes=_MAX_ANSWER_BYTES
                )
            finally:
                self._state.inflight.end_attempt(worker.id)
        except (Ds4watchError, OSError) as error:
            self._failed(error)
            return None
        if answer is None:
            self._failed("it refuses")
            return None
        self._is_failing = False
        return answer

    def _failed(self, why: object) -> None:
        if not self._is_failing:
            log.warning("the scorer %s cannot be asked: %s", self._model, why)
        self._is_failing = True


class LogprobScorer:
    """Asks a worker for the log probability of every token of a prompt."""

    def __init__(self, model: str, post: Post) -> None:
        self._model = model
        self._post = post

    async def surprise(self, texts: Sequence[str], model: str) -> Sequence[float] | None:
        """Return the mean bits a token of each text after those before it; None if it cannot.

        The segments' order and text are the prompt, so each is judged after what comes before.
        """
        answer = await self._post(
            {
                "model": self._model,
                "prompt": "\n".join(texts),
                "max_tokens": 1,
                "temperature": 0,
                "prompt_logprobs": 0,
            }
        )
        if answer is None:
            return None
        try:
            tokens = _tokens(answer)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            log.warning("the scorer %s gave no logprobs for %s: %r", self._model, model, error)
            return None
        return mean_bits(texts, tokens)


def mean_bits(texts: Sequence[str], tokens: Sequence[tuple[str, float]]) -> list[float]:
    """Return the mean bits of the tokens that begin in each text; tokens are (text, logprob).

    A tokenizer may show a broken letter as another sign: places are scaled to the whole length.
    """
    length = sum(len(text) + 1 for text in texts) - 1
    told = sum(len(text) for text, _ in tokens)
    scale = length / told if told else 1.0
    bits, counts = [0.0] * len(texts), [0] * len(texts)
    at, index, end = 0.0, 0, len(texts[0]) + 1 if texts else 0
    for text, logprob in tokens:
        while at * scale >= end and index + 1 < len(texts):
            index += 1
            end += len(texts[index]) + 1
        bits[index] -= logprob / math.log(2)
        counts[index] += 1
        at += len(text)
    # A text in which no token begins is judged surprising: it is short, and stays.
    return [total / count if count else math.inf for total, count in zip(bits, counts, strict=True)]


def _tokens(answer: bytes) -> list[tuple[str, float]]:
    rows = json.loads(answer)["choices"][0]["prompt_logprobs"]
    found = []
    for row in rows:
        if row is not None:  # the first token has nothing before it
            token = next(iter(row.values()))  # vLLM puts the prompt's own token first
            found.append((str(token["decoded_token"]), float(token["logprob"])))
    return found
