"""What a started worker is asked, so that it can be told from another model."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ds4watch.quality.fingerprint import Fingerprint, Step

PROMPTS = (
    "The capital of France is a city on the river",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 3))  # prints",
)
TOKENS = 8
LIKELIEST = 5


class Answers(Protocol):
    """Who answers."""

    async def greedy(self, model: str, prompt: str, *, tokens: int, top: int) -> tuple[Step, ...]:
        """Return what is generated greedily, with the likeliest tokens of each step."""
        ...


async def start_answers(answers: Answers, model: str) -> Fingerprint:
    """Return the answers to the fixed prompts. Raises WorkerError."""
    asked = [answers.greedy(model, it, tokens=TOKENS, top=LIKELIEST) for it in PROMPTS]
    return tuple(await asyncio.gather(*asked))
