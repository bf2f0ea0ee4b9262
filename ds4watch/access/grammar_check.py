"""Structured output: expressions, grammars and schemas small enough to be compiled.

A worker compiles them before it generates, in the process that serves everybody. Repetitions
such as `(a{1000}){1000}` make them explode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ds4watch.access.fields import Invalid, small_object, texts

_REPEAT = re.compile(r"(\))?\{(\d*)(?:,(\d*))?\}")
_MAX_REPEAT: Final = 1000
_MAX_GROUP_REPEAT: Final = 100
_MAX_SIZE: Final = 65_536
_CHOICES: Final = 1024
_CHOICE_CHARS: Final = 4096
_SIZES: Final = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties"})


@dataclass(frozen=True, slots=True)
class GrammarLimits:
    """Bounds of what a worker is made to compile. `nodes`: values in all schemas together."""

    regex_chars: int
    grammar_chars: int
    nodes: int


def check_regex(field: str, value: Any, *, limits: GrammarLimits) -> Invalid | None:
    """Check a regular expression's length and its repetitions."""
    if not isinstance(value, str) or len(value) > limits.regex_chars:
        message = f"must be an expression of at most {limits.regex_chars} characters"
        return Invalid(field, message)
    for match in _REPEAT.finditer(value):
        most = max((int(count[:9]) for count in match.group(2, 3) if count), default=0)
        if most > (_MAX_GROUP_REPEAT if match[1] else _MAX_REPEAT):
            return Invalid(field, f"must not repeat so often ({match[0][:24]})")
    return None


def check_grammar(field: str, value: Any, *, limits: GrammarLimits) -> Invalid | None:
    """Check a grammar's length."""
    if not isinstance(value, str) or len(value) > limits.grammar_chars:
        return Invalid(field, f"must be a grammar of at most {limits.grammar_chars} characters")
    return None


def check_choices(field: str, value: Any) -> Invalid | None:
    """Check a list of possible answers."""
    return texts(field, value, count=_CHOICES, chars=_CHOICE_CHARS)


def check_schema(field: str, value: Any, *, limits: GrammarLimits) -> Invalid | None:
    """Check a JSON schema: its size, the expressions in it, and what it lets repeat."""
    if isinstance(value, str):
        return check_grammar(field, value, limits=limits)
    for seen, (key, one) in enumerate(_nodes(value), start=1):
        if seen > limits.nodes:
            return Invalid(field, f"must hold at most {limits.nodes} values")
        fault = _node_fault(field, key, one, limits)
        if fault is not None:
            return fault
    return None


def check_structured(field: str, value: Any, *, limits: GrammarLimits) -> Invalid | None:
    """Check `structured_outputs`."""
    fault = small_object(field, value, count=16)
    if fault is not None:
        return fault
    for name, one in value.items():
        fault = None if one is None else _structured_fault(f"{field}.{name[:64]}", one, limits)
        if fault is not None:
            return fault
    return None


def check_response_format(field: str, value: Any, *, limits: GrammarLimits) -> Invalid | None:
    """Check `response_format`."""
    if not isinstance(value, dict):
        return Invalid(field, "must be an object")
    return check_schema(field, value, limits=limits)


def check_tools(field: str, value: Any, *, count: int, limits: GrammarLimits) -> Invalid | None:
    """Check the tools that a model may call."""
    if not isinstance(value, list) or len(value) > count:
        return Invalid(field, f"must be a list of at most {count} tools")
    if not all(isinstance(tool, dict) for tool in value):
        return Invalid(field, "must hold objects only")
    return check_schema(field, value, limits=limits)


def _structured_fault(field: str, value: Any, limits: GrammarLimits) -> Invalid | None:
    match field.rpartition(".")[2]:
        case "regex" | "whitespace_pattern":
            return check_regex(field, value, limits=limits)
        case "grammar" | "structural_tag":
            return check_schema(field, value, limits=limits)
        case "choice":
            return check_choices(field, value)
        case "json":
            return check_schema(field, value, limits=limits)
        case name if name.startswith("_"):
            return Invalid(field, "is not the client's to set")
    return None


def _node_fault(field: str, key: str, value: Any, limits: GrammarLimits) -> Invalid | None:
    path = f"{field}…{key[:64]}"
    if key == "pattern" and isinstance(value, str):
        return check_regex(path, value, limits=limits)
    if key == "patternProperties" and isinstance(value, dict):
        faults = (check_regex(path, name, limits=limits) for name in value)
        return next((fault for fault in faults if fault is not None), None)
    if key in _SIZES and isinstance(value, int | float) and value > _MAX_SIZE:
        return Invalid(path, f"must be at most {_MAX_SIZE}")
    return None


def _nodes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value with the key it stands at."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        key, one = waiting.pop()
        yield key, one
        if isinstance(one, dict):
            waiting += one.items()
        elif isinstance(one, list):
            waiting += [(key, item) for item in one]
