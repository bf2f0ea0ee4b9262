"""What a started worker is asked, so that it can be told from another model."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.quality.fingerprint import Fingerprint, Step

PROMPTS = (
    "The capital of France is a city on the river",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 3))  # prints",
)
TOKENS = 8
LIKELIEST = 5
_ATTEMPTS = 6


class Answers(Protocol):
    """Who answers."""

    async def greedy(self, model: str, prompt: str, *, tokens: int, top: int) -> tuple[Step, ...]:
        """Return what is generated greedily, with the likeliest tokens of each step."""
        ...


async def start_answers(answers: Answers, model: str) -> Fingerprint:
    """Return the answers to the fixed prompts. Raises WorkerError.

    A prompt that fails is asked again: a worker that fails now and then is for those to judge who
    watch its errors, not to be kept out by never getting through all prompts at once.
    """
    return tuple(await asyncio.gather(*(_answer(answers, model, it) for it in PROMPTS)))


async def answers_apart(answers: Answers, model: str) -> Fingerprint:
    """Return the same asked one after the other, in other batches. Raises WorkerError."""
    return tuple([await _answer(answers, model, it) for it in PROMPTS])


async def _answer(answers: Answers, model: str, prompt: str) -> tuple[Step, ...]:
    for _ in range(_ATTEMPTS - 1):
        try:
            return await answers.greedy(model, prompt, tokens=TOKENS, top=LIKELIEST)
        except WorkerError as error:
            if not error.retryable or error.reason is not EdgeReason.STATUS:
                raise
    return await answers.greedy(model, prompt, tokens=TOKENS, top=LIKELIEST)
