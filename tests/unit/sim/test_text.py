from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.sim.text import LogprobModel, words
from ds4watch.sim.tokens import decode, encode, render_chat

TEXT = b"The same text, read by two workers of one model."


def _values(noise: float, seed: int = 1) -> list[float]:
    model = LogprobModel(noise=noise, seed=seed)
    return [own.logprob for own, *_ in model.walk(TEXT, top=0)]


def test_full_precision_workers_agree_whatever_their_seed() -> None:
    assert _values(0.0, seed=1) == _values(0.0, seed=2)


def test_a_quantized_sibling_is_off_by_about_its_noise_and_always_the_same() -> None:
    deltas = [abs(a - b) for a, b in zip(_values(0.0), _values(0.05), strict=True)]
    assert 0.01 < sum(deltas) / len(deltas) < 0.1
    assert _values(0.05) == _values(0.05)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 20), st.floats(0, 2))
def test_probabilities_of_a_position_are_ranked_and_sum_to_one_at_most(
    tokens: bytes, top: int, noise: float
) -> None:
    for own, *likeliest in LogprobModel(noise=noise, seed=1).walk(tokens, top=top):
        assert own.logprob < 0
        assert [entry.rank for entry in likeliest] == list(range(1, top + 1))
        assert len({entry.token for entry in likeliest}) == top
        values = [entry.logprob for entry in likeliest]
        assert values == sorted(values, reverse=True)
        assert (own in likeliest) == (own.rank <= top)
        assert sum(map(math.exp, values)) <= 1 + 1e-6


@given(st.binary(min_size=1, max_size=20), st.integers(0, 600))
def test_words_are_exactly_as_long_as_asked_for_and_one_byte_a_character(
    salt: bytes, length: int
) -> None:
    text = words(salt, length)
    assert len(text) == len(encode(text)) == length
    assert text == words(salt, length)


@given(st.text())
def test_what_is_encoded_decodes_to_itself(text: str) -> None:
    assert decode(encode(text)) == text


def test_a_chat_is_rendered_as_chatml() -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": parts},
    ]
    assert render_chat(messages) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n"
        "<|im_start|>user\nHi\nthere<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
