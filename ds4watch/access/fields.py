"""Checks of single fields: each takes the field's name and value, returns what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a request is turned away with 400: the field, and what is wrong with it."""

    field: str
    reason: str


Check = Callable[[str, Any], Invalid | None]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TEMPLATE_RESERVED: Final = frozenset(
    {"chat_template", "conversation", "messages", "tokenize", "tools", "documents", "padding"}
)


def name(field: str, value: Any, *, chars: int) -> Invalid | None:
    """Check a name: a text of bounded length without control characters."""
    if not isinstance(value, str) or not value:
        return Invalid(field, f"must be the name of a {field}")
    if len(value) > chars:
        return Invalid(field, f"must have at most {chars} characters")
    if not value.isprintable() and _CONTROL.search(value):
        return Invalid(field, "must not hold control characters")
    return None


def text(field: str, value: Any, *, chars: int) -> Invalid | None:
    """Check a text of bounded length."""
    if not isinstance(value, str) or len(value) > chars:
        return Invalid(field, f"must be a text of at most {chars} characters")
    return None


def texts(field: str, value: Any, *, count: int, chars: int) -> Invalid | None:
    """Check a list of texts."""
    if not isinstance(value, list) or len(value) > count:
        return Invalid(field, f"must be a list of at most {count} texts")
    if not all(isinstance(one, str) and len(one) <= chars for one in value):
        return Invalid(field, f"must hold texts of at most {chars} characters")
    return None


def text_or_texts(field: str, value: Any, *, count: int, chars: int) -> Invalid | None:
    """Check a text, or a list of them."""
    if isinstance(value, str):
        return text(field, value, chars=chars)
    return texts(field, value, count=count, chars=chars)


def flag(field: str, value: Any) -> Invalid | None:
    """Check true or false."""
    return None if isinstance(value, bool) else Invalid(field, "must be true or false")


def whole(field: str, value: Any, *, low: int, high: int) -> Invalid | None:
    """Check a whole number; 16.0 is one."""
    if _is_whole(value) and low <= value <= high:
        return None
    return Invalid(field, f"must be a whole number from {low} to {high}")


def wholes(field: str, value: Any, *, count: int) -> Invalid | None:
    """Check a list of token ids."""
    if not isinstance(value, list) or len(value) > count:
        return Invalid(field, f"must be a list of at most {count} token ids")
    if not all(_is_whole(one) and 0 <= one < 2**31 for one in value):
        return Invalid(field, "must hold token ids")
    return None


def number(field: str, value: Any, *, low: float, high: float) -> Invalid | None:
    """Check a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and low <= value <= high:
        return None
    return Invalid(field, f"must be a number from {low:g} to {high:g}")


def numbers_by_name(field: str, value: Any, *, count: int) -> Invalid | None:
    """Check an object of numbers."""
    if not isinstance(value, dict) or len(value) > count:
        return Invalid(field, f"must be an object of at most {count} numbers")
    for key, one in value.items():
        fault = number(f"{field}.{key[:64]}", one, low=-1e6, high=1e6)
        if fault is not None:
            return fault
    return None


def small_object(field: str, value: Any, *, count: int) -> Invalid | None:
    """Check an object of few fields."""
    if isinstance(value, dict) and len(value) <= count:
        return None
    return Invalid(field, f"must be an object of at most {count} fields")


def template_arguments(field: str, value: Any) -> Invalid | None:
    """Check what is given to the chat template: few, flat, and none that steers the tokenizer."""
    fault = small_object(field, value, count=32)
    if fault is not None:
        return fault
    for key, one in value.items():
        if key in _TEMPLATE_RESERVED:
            return Invalid(f"{field}.{key}", "is not the client's to set")
        if isinstance(one, dict | list) or (isinstance(one, str) and len(one) > 4096):
            return Invalid(f"{field}.{key[:64]}", "must be a short text, a number, true or false")
    return None


def prompt(field: str, value: Any, *, count: int) -> Invalid | None:
    """Check a prompt: a text, token ids, or a list of either."""
    if isinstance(value, str):
        return None
    if not isinstance(value, list) or not value:
        return Invalid(field, "must be a text, a list of texts, or token ids")
    if _is_whole(value[0]):
        return None  # ids; the worker knows its vocabulary
    if len(value) > count:
        return Invalid(field, f"must have at most {count} prompts")
    if not all(isinstance(one, str | list) for one in value):
        return Invalid(field, "must hold texts or lists of token ids")
    return None


def refused(field: str, value: Any, *, why: str) -> Invalid | None:
    """Refuse a field that the operator has not allowed."""
    del value
    return Invalid(field, f"is not allowed here: it {why}")


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or value.is_integer()
