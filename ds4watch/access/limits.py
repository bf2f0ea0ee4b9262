"""What a request may ask for at most. The worker checks the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of one request's fields."""

    max_tokens: int = 1_000_000
    n: int = 128
    messages: int = 4096
    prompts: int = 1024
    model_name_length: int = 256


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a request is turned away with 400: the field, and what is wrong with it."""

    field: str
    reason: str


def check_request(
    body: Mapping[str, Any], *, chat: bool, limits: RequestLimits | None = None
) -> Invalid | None:
    """Return the first fault of a completion request's body, None if there is none."""
    bounds = limits or RequestLimits()
    return (
        _check_model(body.get("model"), bounds)
        or (_check_messages(body, bounds) if chat else _check_prompt(body, bounds))
        or _check_numbers(body, bounds)
        or _check_stream(body)
    )


def check_other(body: Mapping[str, Any], limits: RequestLimits | None = None) -> Invalid | None:
    """Return the first fault of what is asked of a model other than a completion."""
    bounds = limits or RequestLimits()
    return (
        _check_model(body.get("model"), bounds)
        or _check_number(body, "max_output_tokens", 0, bounds.max_tokens)
        or _check_stream(body)
    )


def _check_model(model: Any, limits: RequestLimits) -> Invalid | None:
    if not isinstance(model, str) or not model:
        return Invalid("model", "must be the name of a model")
    if len(model) > limits.model_name_length:
        return Invalid("model", f"must have at most {limits.model_name_length} characters")
    return None


def _check_messages(body: Mapping[str, Any], limits: RequestLimits) -> Invalid | None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return Invalid("messages", "must be a list with at least one message")
    if len(messages) > limits.messages:
        return Invalid("messages", f"must have at most {limits.messages} messages")
    if not all(isinstance(message, dict) for message in messages):
        return Invalid("messages", "must hold objects only")
    return None


def _check_prompt(body: Mapping[str, Any], limits: RequestLimits) -> Invalid | None:
    prompt = body.get("prompt")
    if prompt is None:
        # vLLM's extension: a prompt as embeddings.
        missing = body.get("prompt_embeds") is None
        return Invalid("prompt", "is missing") if missing else None
    if not isinstance(prompt, str | list) or prompt == []:
        return Invalid("prompt", "must be a text, a list of texts, or token ids")
    is_batch = isinstance(prompt, list) and not isinstance(prompt[0], int)
    if is_batch and len(prompt) > limits.prompts:
        return Invalid("prompt", f"must have at most {limits.prompts} prompts")
    return None


def _check_numbers(body: Mapping[str, Any], limits: RequestLimits) -> Invalid | None:
    bounds = (
        ("max_tokens", 0, limits.max_tokens),
        ("max_completion_tokens", 0, limits.max_tokens),
        ("min_tokens", 0, limits.max_tokens),
        ("n", 1, limits.n),
        ("best_of", 1, limits.n),
    )
    for field, low, high in bounds:
        fault = _check_number(body, field, low, high)
        if fault is not None:
            return fault
    return None


def _check_number(body: Mapping[str, Any], field: str, low: int, high: int) -> Invalid | None:
    value = body.get(field)
    if value is not None and not _is_whole(value, low, high):
        return Invalid(field, f"must be a whole number from {low} to {high}")
    return None


def _is_whole(value: Any, low: int, high: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return low <= value <= high and value == int(value)


def _check_stream(body: Mapping[str, Any]) -> Invalid | None:
    if not isinstance(body.get("stream"), bool | None):
        return Invalid("stream", "must be true or false")
    if not isinstance(body.get("stream_options"), dict | None):
        return Invalid("stream_options", "must be an object")
    return None
