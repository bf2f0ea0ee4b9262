"""Judges: whether an answer to a golden question is right. The same answer is judged the same."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

import re2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

MAX_ANSWER_CHARACTERS = 16_384
"""Of a longer answer only the end is judged: that is where a result stands."""
_NUMBER = re2.compile(
    r"[-+\x{2212}]?(?:\d{1,3}(?:[, \x{a0}]\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
)
_UNIT = re2.compile(r"^\s*([A-Za-z%°µ€$£/²³]+)")
_NUMBERS_JUDGED = 4096


class Judge(Protocol):
    """Who says whether an answer is right."""

    def is_right(self, answer: str) -> bool:
        """Return whether the answer is right."""
        ...


@dataclass(frozen=True, slots=True)
class Exact:
    """Right is one text, white space at the ends (and, if said, upper case) aside."""

    answer: str
    ignores_case: bool = False

    def is_right(self, answer: str) -> bool:
        """Return whether the answer is that text."""
        mine, theirs = answer.strip(), self.answer.strip()
        return mine.casefold() == theirs.casefold() if self.ignores_case else mine == theirs


@dataclass(frozen=True, slots=True)
class Numeric:
    """Right is a number: the last one in the answer is judged, thousands may be set apart.

    tolerance: how far off it may be. units: spellings; a word right after the number must be one.
    """

    answer: float
    tolerance: float = 0.0
    units: tuple[str, ...] = ()

    def is_right(self, answer: str) -> bool:
        """Return whether the last number of the answer is near enough."""
        found = _last_number(answer[-MAX_ANSWER_CHARACTERS:])
        if found is None:
            return False
        value, rest = found
        is_near = math.isfinite(value) and abs(value - self.answer) <= self._slack()
        return is_near and (not self.units or self._has_unit(rest))

    def _slack(self) -> float:
        """Return the tolerance, and what decimal fractions lose in floating point."""
        return self.tolerance + 1e-9 * max(1.0, abs(self.answer))

    def _has_unit(self, rest: str) -> bool:
        match = _UNIT.match(rest)
        return match is None or match[1].casefold() in map(str.casefold, self.units)


@dataclass(frozen=True, slots=True)
class Regex:
    """Right is what an RE2 expression finds anywhere in the answer; `.` matches newlines too."""

    pattern: str

    def is_right(self, answer: str) -> bool:
        """Return whether the expression is found."""
        return _compiled(self.pattern).search(answer[-MAX_ANSWER_CHARACTERS:]) is not None


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """Right is JSON, in a fence or not, that a JSON Schema (draft 2020-12) allows."""

    schema: Mapping[str, Any]

    def is_right(self, answer: str) -> bool:
        """Return whether the answer is such JSON and nothing beside it."""
        try:
            found = json.loads(_unfenced(answer[:MAX_ANSWER_CHARACTERS]))
            return bool(Draft202012Validator(self.schema).is_valid(found))
        except (ValueError, RecursionError):
            return False


@dataclass(frozen=True, slots=True)
class Choice:
    """Right is one of some choices: the only one named on the answer's last line."""

    answer: str
    choices: tuple[str, ...]

    def is_right(self, answer: str) -> bool:
        """Return whether the last line that is not empty names the right choice alone."""
        lines = [line for line in answer[-MAX_ANSWER_CHARACTERS:].splitlines() if line.strip()]
        named = {it for it in self.choices if lines and _names(lines[-1], it)}
        # "not applicable" also names "applicable": the longer one is meant
        meant = {it for it in named if not any(it != other and it in other for other in named)}
        return meant == {self.answer}


def judge_of(document: Any) -> Judge:
    """Return the judge that a golden question names. Raises ValueError, told in one line."""
    if not isinstance(document, Mapping):
        message = "`judge` must be an object with a `kind`"
        raise ValueError(message)  # noqa: TRY004 - bad input of a file, not of a caller
    rest = {name: value for name, value in document.items() if name != "kind"}
    match document.get("kind"):
        case "exact":
            _known(rest, answer=str, ignores_case=bool)
            return Exact(_text(rest, "answer"), ignores_case=rest.get("ignores_case", False))
        case "numeric":
            _known(rest, answer=(int, float), tolerance=(int, float), units=list)
            return _numeric(rest)
        case "regex":
            _known(rest, pattern=str)
            _compiled(_text(rest, "pattern"))
            return Regex(rest["pattern"])
        case "json_schema":
            _known(rest, schema=Mapping)
            return _schema(rest)
        case "choice":
            _known(rest, answer=str, choices=list)
            return _choice(rest)
        case kind:
            message = (
                f"there is no judge {kind!r}; there are exact, numeric, regex, json_schema, choice"
            )
            raise ValueError(message)


def _known(rest: Mapping[str, Any], **kinds: Any) -> None:
    for name, value in rest.items():
        if name not in kinds:
            message = f"the judge knows no {name!r}; it knows {', '.join(kinds)}"
            raise ValueError(message)
        is_flag = isinstance(value, bool) and kinds[name] is not bool
        if is_flag or not isinstance(value, kinds[name]):
            message = f"the judge's {name!r} is of the wrong kind"
            raise ValueError(message)


def _text(rest: Mapping[str, Any], name: str) -> str:
    value = rest.get(name)
    if not isinstance(value, str) or not value.strip():
        message = f"the judge needs {name!r}, a text that is not empty"
        raise ValueError(message)
    return value


def _numeric(rest: Mapping[str, Any]) -> Numeric:
    answer, tolerance = rest.get("answer"), float(rest.get("tolerance", 0.0))
    if answer is None or not math.isfinite(answer) or not 0 <= tolerance < math.inf:
        message = "the judge needs an 'answer' that is a number, and a 'tolerance' from 0 on"
        raise ValueError(message)
    units = tuple(rest.get("units", ()))
    if not all(isinstance(it, str) and it for it in units):
        message = "the judge's 'units' must be texts"
        raise ValueError(message)
    return Numeric(float(answer), tolerance, units)


def _schema(rest: Mapping[str, Any]) -> JsonSchema:
    schema = rest.get("schema")
    if not isinstance(schema, Mapping):
        message = "the judge needs a 'schema'"
        raise ValueError(message)  # noqa: TRY004 - bad input of a file, not of a caller
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        message = f"the judge's 'schema' is not a JSON Schema: {error.message[:200]}"
        raise ValueError(message) from error
    strange = _strange(schema)
    if strange:
        message = f"the judge's 'schema' cannot judge: {strange}"
        raise ValueError(message)
    return JsonSchema(schema)


def _strange(schema: Mapping[str, Any]) -> str:
    """Return what in a schema would break its judging, not fail it; empty if nothing."""
    nodes: list[Any] = [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes += node
        if not isinstance(node, Mapping):
            continue
        nodes += node.values()
        ref = node.get("$ref")
        if isinstance(ref, str) and not _is_there(schema, ref):
            return f"it refers to {ref[:100]!r}; only what is in it, by #/…, can be"
    return ""


def _is_there(schema: Any, ref: str) -> bool:
    """Return whether a JSON pointer leads to something. Others would be fetched from elsewhere."""
    if not ref.startswith("#"):
        return False
    found = schema
    for part in ref[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = {str(place): it for place, it in enumerate(found)}
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return ref[1:2] in ("", "/")


def _choice(rest: Mapping[str, Any]) -> Choice:
    answer, choices = _text(rest, "answer"), tuple(rest.get("choices") or ())
    if not all(isinstance(it, str) and it for it in choices) or answer not in choices:
        message = "the judge needs 'choices', texts among which 'answer' is"
        raise ValueError(message)
    return Choice(answer, choices)


def _last_number(text: str) -> tuple[float, str] | None:
    """Return the last number and what follows it."""
    found = None
    for number, match in enumerate(_NUMBER.finditer(text)):
        found = match
        if number == _NUMBERS_JUDGED:
            return None  # no answer has so many
    if found is None:
        return None
    plain = found[0].replace("\N{MINUS SIGN}", "-")
    for gap in (",", " ", "\xa0"):
        plain = plain.replace(gap, "")
    return float(plain), text[found.end() :]


def _unfenced(answer: str) -> str:
    text = answer.strip()
    if text.startswith("```") and text.endswith("```"):
        return text[3:-3].strip().removeprefix("json")
    return text


def _names(line: str, choice: str) -> bool:
    quoted = re2.escape(choice)
    return re2.search(rf"(?i)(?:^|[^\pL\pN]){quoted}(?:$|[^\pL\pN])", line) is not None


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(f"(?s:{pattern})", options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"the judge's 'pattern' is not a regular expression of RE2: {told}"
        raise ValueError(message) from error
