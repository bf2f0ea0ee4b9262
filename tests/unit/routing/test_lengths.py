from __future__ import annotations

from typing import Any

import pytest

from ds4watch.config.routing import RoutingSettings
from ds4watch.routing.lengths import Length, Lengths, tokenize_body

SETTINGS = RoutingSettings()


def calibrated(bytes_per_token: int) -> Lengths:
    lengths = Lengths(SETTINGS)
    lengths.learn("m", 1000 * bytes_per_token, 1000)
    return lengths


@pytest.mark.parametrize("ratio", [1, 4])
@pytest.mark.parametrize(
    ("tokens", "length"),
    [
        (100, Length.SHORT),
        (1535, Length.SHORT),
        (1536, Length.DOUBTFUL),
        (2048, Length.DOUBTFUL),
        (2560, Length.DOUBTFUL),
        (2561, Length.LONG),
    ],
)
def test_only_within_a_quarter_of_the_limit_is_the_length_in_doubt(
    ratio: int, tokens: int, length: Length
) -> None:
    assert calibrated(ratio).tell("m", tokens * ratio, {}) is length


def test_the_ratio_follows_what_answers_say_by_model() -> None:
    lengths = calibrated(4)
    for _ in range(100):
        lengths.learn("m", 2000, 1000)
    assert lengths.tell("m", 6000, {}) is Length.LONG
    assert lengths.tell("other", 5000, {}) is Length.SHORT


@pytest.mark.parametrize(("size", "tokens"), [(100, 5), (1 << 20, 1000), (5000, 10), (900, 9000)])
def test_bodies_that_say_nothing_of_the_ratio_are_not_learned_from(size: int, tokens: int) -> None:
    lengths = calibrated(4)
    for _ in range(100):
        lengths.learn("m", size, tokens)
    lengths.learn("m", 600, 0)
    assert lengths.tell("m", 4 * 1535, {}) is Length.SHORT
    assert lengths.tell("m", 4 * 2561, {}) is Length.LONG


@pytest.mark.parametrize(
    ("prompt", "length"),
    [
        ([7] * 2048, Length.SHORT),
        ([7] * 2049, Length.LONG),
        ([[7] * 1024] * 2, Length.SHORT),
        ([[7] * 1024] * 3, Length.LONG),
        (["x"], Length.DOUBTFUL),
    ],
)
def test_token_ids_are_counted_here(prompt: Any, length: Length) -> None:
    assert calibrated(4).tell("m", 8192, {"prompt": prompt}) is length


def test_without_a_limit_nothing_is_long() -> None:
    lengths = Lengths(RoutingSettings(long_tokens=None))
    assert lengths.tell("m", 1 << 30, {}) is Length.SHORT
    assert not lengths.is_long(1 << 30)


def test_the_tokenizer_is_told_all_that_the_template_makes_tokens_of() -> None:
    messages = [{"role": "user", "content": "x"}]
    body = {"model": "m", "messages": messages, "tools": [1], "temperature": 0.1, "stream": True}
    body["chat_template_kwargs"] = {"enable_thinking": True}
    assert tokenize_body(body) == {
        "model": "m",
        "messages": messages,
        "tools": [1],
        "chat_template_kwargs": {"enable_thinking": True},
    }
    assert tokenize_body({"model": "m", "prompt": "x", "n": 2}) == {"model": "m", "prompt": "x"}
    assert tokenize_body({"model": "m", "prompt": ["x", "y"]}) is None


def test_the_estimate_is_by_what_answers_said_of_the_model_or_by_what_is_listed() -> None:
    lengths = calibrated(10)
    assert lengths.estimate("m", 10_000, {}) == 1000
    assert lengths.estimate("other", 7000, {}) == 2000
    assert lengths.estimate("m", 10_000, {"prompt": [1, 2, 3]}) == 3
