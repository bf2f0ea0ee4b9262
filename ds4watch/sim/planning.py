"""From what is asked for to the sequences that the engine runs."""

from __future__ import annotations

import hashlib

from ds4watch.sim.asks import Ask
from ds4watch.sim.generation import Finish, Generation
from ds4watch.sim.text import natural_length, words
from ds4watch.sim.tokens import encode


def plan(ask: Ask, *, seed: int, arrived_at: float, garbled: bool = False) -> list[Generation]:
    """Return the sequences of a request, prompt by prompt, each with its whole answer.

    garbled: the weights are lost (a wake from sleep level 2 without a reload).
    """
    return [
        _generation(ask, prompt_index, choice, seed=seed, arrived_at=arrived_at, garbled=garbled)
        for prompt_index in range(len(ask.prompts))
        for choice in range(ask.n)
    ]


def _generation(
    ask: Ask, prompt_index: int, choice: int, *, seed: int, arrived_at: float, garbled: bool
) -> Generation:
    prompt, limit = ask.prompts[prompt_index], ask.max_tokens[prompt_index]
    salt = _salt(prompt, seed, ask.seed if ask.seed is not None else 0, choice)
    answer, finish = _answer(ask, salt, limit)
    if garbled:
        answer = "".join(chr(33 + byte % 15) for byte in encode(answer))
    return Generation(
        prompt=prompt,
        answer=encode(answer),
        finish=finish,
        arrived_at=arrived_at,
        max_tokens=limit,
        params_n=ask.n,
        is_first_of_request=choice == 0,
        reads_cache=ask.prompt_logprobs is None,
    )


def _salt(prompt: bytes, *numbers: int) -> bytes:
    digest = hashlib.blake2b(prompt, digest_size=16)
    digest.update(repr(numbers).encode())
    return digest.digest()


def _answer(ask: Ask, salt: bytes, limit: int) -> tuple[str, Finish]:
    natural = max(natural_length(salt), ask.min_tokens)
    stops_by_itself = natural <= limit and not ask.ignore_eos
    text = words(salt, natural if stops_by_itself else limit)
    for stop in ask.stop:
        place = text.find(stop, max(0, ask.min_tokens - len(stop))) if stop else -1
        if place >= 0:
            # The tokens of the stop string are generated, and cut off the text by the answerer.
            text, stops_by_itself = text[: place + len(stop)], True
    return text, Finish.STOP if stops_by_itself else Finish.LENGTH
