"""What the worker answers: words and log probabilities that depend on the prompt alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import NamedTuple

WORDS = (
    "the",
    "worker",
    "reads",
    "a",
    "prompt",
    "and",
    "then",
    "writes",
    "one",
    "token",
    "after",
    "another",
    "until",
    "it",
    "is",
    "done",
    "while",
    "the",
    "cache",
    "keeps",
    "each",
    "block",
    "that",
    "may",
    "be",
    "of",
    "use",
    "to",
    "the",
    "next",
    "request",
    "in",
    "the",
    "queue",
)
_CONTEXT = 64
_SCALE = float(1 << 64)


def words(salt: bytes, length: int) -> str:
    """Return a text of exactly `length` ASCII characters; equal salts give equal texts."""
    parts: list[str] = []
    total, counter = 0, 0
    while total <= length:
        for value in hashlib.blake2b(salt + counter.to_bytes(4, "big")).digest():
            word = WORDS[value % len(WORDS)]
            parts.append(word)
            total += len(word) + 1
        counter += 1
    return " ".join(parts)[:length]


def natural_length(salt: bytes) -> int:
    """Return where the model would stop by itself: 32 to 543 tokens."""
    return 32 + int.from_bytes(hashlib.blake2b(salt, digest_size=4).digest(), "big") % 512


class TokenLogprob(NamedTuple):
    """One token at one position, as likely as the model thinks it."""

    token: int
    logprob: float
    rank: int


class LogprobModel:
    """Log probabilities of tokens given what comes before.

    The numbers depend on the text alone, so that two workers agree; `noise` is the standard
    deviation of what is added, drawn from the text and `seed`: the error of a quantized worker.
    The probabilities of one position never sum to more than 1.
    """

    def __init__(self, *, noise: float, seed: int) -> None:
        self._noise = noise
        self._salt = seed.to_bytes(8, "big", signed=True)

    def walk(self, tokens: bytes, *, top: int, start: int = 0) -> Iterator[list[TokenLogprob]]:
        """Yield, for each position from `start` on, the token itself and then the `top` likeliest.

        `tokens` begins at the first token of the prompt; up to 64 tokens before each count.
        """
        for position in range(start, len(tokens)):
            window = tokens[max(0, position - _CONTEXT) : position + 1]
            state = hashlib.blake2b(window, digest_size=16).digest()
            yield self._position(state, tokens[position], top)

    def _position(self, state: bytes, token: int, top: int) -> list[TokenLogprob]:
        unit = int.from_bytes(state[:8], "big") / _SCALE
        base = -6.0 * unit * unit
        logprob = min(-1e-4, base + self._noise * self._gauss(state))
        rank = max(1, math.ceil(-logprob))
        likeliest = _ranked(token, logprob, rank, top)
        return [TokenLogprob(token, logprob, rank), *likeliest]

    def _gauss(self, state: bytes) -> float:
        if not self._noise:
            return 0.0
        digest = hashlib.blake2b(state + self._salt, digest_size=16).digest()
        radius = (int.from_bytes(digest[:8], "big") + 1) / (_SCALE + 1)
        angle = int.from_bytes(digest[8:], "big") / _SCALE
        return math.sqrt(-2 * math.log(radius)) * math.cos(2 * math.pi * angle)


def _ranked(token: int, logprob: float, rank: int, top: int) -> list[TokenLogprob]:
    """Return the `top` likeliest tokens, with `token` at its rank among them."""
    above = [logprob + 0.25 * (rank - place) for place in range(1, rank)]
    left = 1.0 - math.exp(logprob) - sum(map(math.exp, above))
    rest = min(logprob, math.log(max(left, 1e-9)))
    ranked: list[TokenLogprob] = []
    other = token
    for place in range(1, top + 1):
        if place == rank:
            ranked.append(TokenLogprob(token, logprob, rank))
            continue
        other = 32 + (other - 31) % 95
        if other == token:
            other = 32 + (other - 31) % 95
        value = above[place - 1] if place < rank else rest - (place - rank)
        ranked.append(TokenLogprob(other, value, place))
    return ranked
