"""Validation errors in plain words: what must be, and what was got."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ds4watch.config.document import Document, Path
from ds4watch.model.errors import Located

_MAPPING = "must be a mapping (lines of `key: value`)"
_INSTANT = "must be an instant such as 2026-01-31T00:00:00Z"
_TIME = "must be a time of day in quotes, such as '08:30'"
_WORDS: Mapping[str, str] = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "decimal_type": "must be a number",
    "decimal_parsing": "must be a number",
    "time_type": _TIME,
    "time_parsing": _TIME,
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "enum": "must be one of {expected}",
    "datetime_type": _INSTANT,
    "datetime_parsing": _INSTANT,
    "datetime_from_date_parsing": _INSTANT,
}
_PATTERNS: Mapping[str, str] = {
    r"^https?://": "must start with http:// or https://",
    r"^(mon|tue|wed|thu|fri|sat|sun)$": "must be one of mon, tue, wed, thu, fri, sat, sun",
    r"^[A-Z]{3}$": "must be three capital letters, such as USD",
    r"^[a-z0-9][a-z0-9.-]{0,62}$": (
        "must be 1 to 63 lower-case letters, digits, dots and dashes, "
        "and begin with a letter or digit"
    ),
    r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$": (
        "must be 1 to 63 letters, digits, dots, dashes and _, and begin with a letter or digit"
    ),
    r"^[a-zA-Z_][a-zA-Z0-9_]*$": "must be letters, digits and _, and not begin with a digit",
    r"^/[^?#]*$": "must begin with / and have no ? (see params)",
    r"\.(json|ya?ml)$": "must end in .json, .yml or .yaml",
}
_SECRET_WORDS = ("url", "token", "secret", "password", "key", "auth", "credential")
_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNIT_SECONDS = {"seconds": 1, "hours": 3600, "days": 86400}
_FEW = 4
"""As many keys are told where none is like the one that was found."""
_HABITS: Mapping[str, str] = {
    "job_name": "name",
    "scrape_interval": "interval_seconds",
    "scrape_timeout": "timeout_seconds",
    "refresh_interval": "refresh_seconds",
    "body_size_limit": "max_body_bytes",
    "file_sd": "file_sd_configs",
    "http_sd": "http_sd_configs",
    "bearer_token": "authorization",
    "bearer_token_file": "authorization",
}
"""What hands used to Prometheus type → what it is called here."""


def findings_of(
    error: ValidationError, document: Document, model: type[BaseModel]
) -> list[Located]:
    """Return one located finding for each error, in the order of the file."""
    details = _deepest(error.errors(include_url=False))
    findings = [_finding(detail, document, model) for detail in details]
    return sorted(findings, key=lambda finding: finding.line or 0)


def _deepest(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out what is said of a list only because an entry of it is faulty."""
    places = [detail["loc"] for detail in details]
    return [
        detail
        for detail in details
        if detail["type"] != "too_short"
        or not any(place[: len(detail["loc"])] == detail["loc"] != place for place in places)
    ]


def _finding(detail: ErrorDetails, document: Document, model: type[BaseModel]) -> Located:
    path: Path = tuple(part for part in detail["loc"] if part != "[key]")
    kind = detail["type"]
    if kind == "extra_forbidden":
        return document.finding(path, "unknown key", mend=_did_you_mean(path, model))
    if kind == "missing":
        return document.finding(path, "is missing")
    if kind == "value_error":
        return document.finding(path, str(detail["ctx"]["error"]))
    message = _requirement(detail)
    return document.finding(path, f"{message}{_got(detail, path)}", mend=_mend(detail, path))


def _requirement(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "too_short":
        least = context["min_length"]
        return f"must have at least {least} {'entry' if least == 1 else 'entries'}"
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        return _PATTERNS.get(pattern, f"must match the pattern {pattern}")
    if kind in _WORDS:
        return _WORDS[kind].format_map({name: _number(value) for name, value in context.items()})
    return "is not allowed"


def _number(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value)


def _got(detail: ErrorDetails, path: Path) -> str:
    """Return ", got …", unless the value may hold a secret or says nothing more."""
    if detail["type"] == "too_short":
        return ""
    value = detail["input"]
    if value is None:
        return ", got nothing"
    if any(word in str(part).lower() for part in path for word in _SECRET_WORDS):
        return ""
    if isinstance(value, dict | list):
        return f", got a {'mapping' if isinstance(value, dict) else 'list'}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f", got {text if len(text) <= 60 else text[:57] + '…'}"


def _mend(detail: ErrorDetails, path: Path) -> str | None:
    if detail["input"] is None:
        return "give it a value, or take the key out"
    if detail["type"] == "string_type" and isinstance(detail["input"], int | float):
        return "put it in quotes"
    span = _SPAN.fullmatch(detail["input"]) if isinstance(detail["input"], str) else None
    unit = next((it for it in _UNIT_SECONDS if str(path[-1]).endswith(f"_{it}")), None)
    if span and unit:
        value = float(span[1]) * _SECONDS[span[2]] / _UNIT_SECONDS[unit]
        return f"a plain number of {unit}: {value:g}"
    return None


def _did_you_mean(path: Path, root: type[BaseModel]) -> str | None:
    section = _model_at(root, path[:-1])
    if section is None:
        return None
    names = [field.alias or name for name, field in section.model_fields.items()]
    habit = _HABITS.get(str(path[-1]))
    close = [habit] if habit in names else difflib.get_close_matches(str(path[-1]), names, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    if len(names) <= _FEW:
        return f"known here: {', '.join(names)}"
    nearest = difflib.get_close_matches(str(path[-1]), names, n=_FEW, cutoff=0.0)
    return f"nearest here: {', '.join(nearest)}; all: `ds4watch config reference`"


def _model_at(root: type[BaseModel], path: Path) -> type[BaseModel] | None:
    here: Any = root
    for part in path:
        if get_origin(here) is dict:
            here = get_args(here)[1]
            continue
        if isinstance(part, int):
            continue
        section = section_in(here)
        found = section.model_fields.get(part) if section else None
        here = found.annotation if found else None
    return section_in(here)


def section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section in an annotation: `X`, `tuple[X, ...]`, `dict[str, X]`, `… | None`."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) in (tuple, dict, Union, UnionType):
        found = (section_in(inner) for inner in get_args(annotation))
        return next((section for section in found if section), None)
    return None
