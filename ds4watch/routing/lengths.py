"""Long prompts told from short ones: estimated from bytes, counted only where that may err."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ds4watch.config.routing import RoutingSettings

_FIRST_BYTES_PER_TOKEN = 3.5
_MIN_LEARNED_BYTES = 512
"""Shorter bodies are mostly what is around the prompt."""
_MAX_LEARNED_BYTES = 256 << 10
"""In longer ones are images, as a rule."""
_LEAST, _MOST = 0.5, 16.0
_SLOWEST = 0.05
_MAX_MODELS = 256
_FOR_THE_TEMPLATE = (
    *("tools", "chat_template", "chat_template_kwargs", "documents"),
    *("add_generation_prompt", "continue_final_message", "add_special_tokens"),
    *("mm_processor_kwargs", "media_io_kwargs"),
)


class Length(StrEnum):
    """What is known of a prompt's length."""

    SHORT = "short"
    LONG = "long"
    DOUBTFUL = "doubtful"


@dataclass(slots=True)
class _Ratio:
    bytes_per_token: float = _FIRST_BYTES_PER_TOKEN
    seen: int = 0


@dataclass(slots=True)
class Lengths:
    """Bytes of a body for each token of its prompt, by model, as answers tell it."""

    settings: RoutingSettings
    _by_model: dict[str, _Ratio] = field(default_factory=dict)

    def estimate(self, model: str, size: int, body: Mapping[str, Any]) -> int:
        """Return the tokens of a body's prompt: listed, or else by its bytes."""
        listed = _listed_tokens(body)
        return int(size / self._bytes_per_token(model)) if listed is None else listed

    def tell(self, model: str, size: int, body: Mapping[str, Any]) -> Length:
        """Return what a body of `size` bytes is."""
        limit = self.settings.long_tokens
        if limit is None:
            return Length.SHORT
        tokens = size / self._bytes_per_token(model)
        doubt = self.settings.long_doubt_ratio
        if tokens < limit * (1 - doubt):
            return Length.SHORT
        listed = _listed_tokens(body)
        if listed is not None:
            return Length.LONG if listed > limit else Length.SHORT
        return Length.LONG if tokens > limit * (1 + doubt) else Length.DOUBTFUL

    def is_long(self, tokens: int) -> bool:
        """Return whether so many tokens, counted, are a long prompt."""
        return self.settings.long_tokens is not None and tokens > self.settings.long_tokens

    def learn(self, model: str, size: int, prompt_tokens: int) -> None:
        """Take in what an answer says of its prompt."""
        if not (_MIN_LEARNED_BYTES <= size <= _MAX_LEARNED_BYTES) or prompt_tokens <= 0:
            return
        ratio = size / prompt_tokens
        if not _LEAST <= ratio <= _MOST:
            return
        known = self._by_model.get(model)
        if known is None:
            if len(self._by_model) >= _MAX_MODELS:
                return
            known = self._by_model[model] = _Ratio()
        known.seen += 1
        weight = max(_SLOWEST, 1 / known.seen)
        known.bytes_per_token += weight * (ratio - known.bytes_per_token)

    def _bytes_per_token(self, model: str) -> float:
        known = self._by_model.get(model)
        return known.bytes_per_token if known else _FIRST_BYTES_PER_TOKEN


def tokenize_body(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what to ask a worker's /tokenize; None if it cannot count such a prompt.

    Chat template and tools add tokens: what bears on them goes along.
    """
    asked = {"model": body.get("model")}
    if isinstance(body.get("messages"), list):
        asked |= {name: body[name] for name in _FOR_THE_TEMPLATE if name in body}
        return asked | {"messages": body["messages"]}
    if isinstance(body.get("prompt"), str):
        return asked | {"prompt": body["prompt"]}
    return None


def _listed_tokens(body: Mapping[str, Any]) -> int | None:
    """Return the length of a prompt that is given as token ids."""
    prompt = body.get("prompt")
    if not isinstance(prompt, list) or not prompt:
        return None
    if isinstance(prompt[0], int):
        return len(prompt)
    if isinstance(prompt[0], list):
        return sum([len(it) for it in prompt if isinstance(it, list)])
    return None
