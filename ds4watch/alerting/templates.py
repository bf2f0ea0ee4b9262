"""The part of Prometheus' templates that annotations and labels use.

`{{ $value }}`, `{{ $labels.x }}`, `humanize…`, `printf`, pipes. Anything else expands to
`<error expanding template>`, and never fails an alert.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ds4watch.alerting import humanize
from ds4watch.model.series import Labels

ERROR = "<error expanding template>"

_Value: TypeAlias = float | str | Mapping[str, str]
_ACTION = re.compile(
    r"\{\{(?P<left>-\s)?(?P<body>(?:\"(?:\\.|[^\"\\])*\"|`[^`]*`|[^\"`}]|\}(?!\}))*?)"
    r"(?P<right>\s-)?\}\}"
)
_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:\\.|[^\"\\])*\"|`[^`]*`)|(?P<number>[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    r"|(?P<label>(?:\$labels|\.Labels)\.(?P<name>\w+))|(?P<labels>\$labels|\.Labels)\b"
    r"|(?P<value>\$value|\.Value)\b|(?P<function>[A-Za-z_]\w*)|(?P<mark>[|()]))"
)
_VERB = re.compile(r"%(?P<flags>[-+ 0#]*\d*(?:\.\d+)?)(?P<verb>.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class _TemplateError(Exception):
    """Something in a template that is not supported; becomes ERROR."""


def expand(template: str, labels: Labels, value: float) -> str:
    """Return `template` filled in with an alert's labels and value."""
    if "{{" not in template:
        return template
    try:
        return _expand(template, _Scope(dict(labels), value))
    except (_TemplateError, ValueError, OverflowError):
        return ERROR


@dataclass(frozen=True, slots=True)
class _Scope:
    labels: Mapping[str, str]
    value: float


def _expand(template: str, scope: _Scope) -> str:
    parts: list[str] = []
    end = 0
    trim = False
    for match in _ACTION.finditer(template):
        text = template[end : match.start()]
        text = text.lstrip() if trim else text
        parts.append(text.rstrip() if match["left"] else text)
        parts.append(_action(match["body"].strip(), scope))
        end, trim = match.end(), match["right"] is not None
    rest = template[end:]
    parts.append(rest.lstrip() if trim else rest)
    if any("{{" in text for text in parts[::2]):
        raise _TemplateError
    return "".join(parts)


def _action(body: str, scope: _Scope) -> str:
    if body.startswith("/*") and body.endswith("*/"):
        return ""
    reader = _Reader(_tokens(body), scope)
    text = _text(reader.pipeline())
    if reader.left:
        raise _TemplateError
    return text


def _tokens(body: str) -> list[tuple[str, str]]:
    tokens = []
    end = 0
    while end < len(body):
        match = _TOKEN.match(body, end)
        if match is None or match.lastgroup is None:
            raise _TemplateError
        kind = "label" if match["label"] else match.lastgroup
        tokens.append((kind, match["name"] if kind == "label" else match[kind]))
        end = match.end()
    return tokens


class _Reader:
    """Reads tokens: commands, piped one into the next."""

    def __init__(self, tokens: list[tuple[str, str]], scope: _Scope) -> None:
        self.left = tokens
        self._scope = scope

    def pipeline(self) -> _Value:
        """Read commands up to the end or a closing bracket, and return the last one's value."""
        value = self._command(())
        while self.left and self.left[0] == ("mark", "|"):
            self.left = self.left[1:]
            value = self._command((value,))
        return value

    def _command(self, piped: tuple[_Value, ...]) -> _Value:
        if not self.left:
            raise _TemplateError
        kind, text = self.left[0]
        if kind != "function":
            if piped:
                raise _TemplateError
            return self._operand()
        self.left = self.left[1:]
        function = _FUNCTIONS.get(text)
        if function is None:
            raise _TemplateError
        args: list[_Value] = []
        while self.left and self.left[0] not in (("mark", "|"), ("mark", ")")):
            args.append(self._operand())
        return function([*args, *piped])

    def _operand(self) -> _Value:
        (kind, text), self.left = self.left[0], self.left[1:]
        if kind == "value":
            return self._scope.value
        if kind == "labels":
            return self._scope.labels
        if kind == "label":
            return self._scope.labels.get(text, "")
        if kind == "number":
            return float(text)
        if kind == "string":
            return _unquote(text)
        if (kind, text) == ("mark", "("):
            value = self.pipeline()
            if not self.left or self.left[0] != ("mark", ")"):
                raise _TemplateError
            self.left = self.left[1:]
            return value
        raise _TemplateError


def _unquote(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text[1:-1])


def _text(value: _Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{name}:{value[name]}' for name in sorted(value))}]"
    return humanize.general(value)


def _number(value: _Value) -> float:
    if isinstance(value, Mapping):
        raise _TemplateError
    return float(value)


def _of_number(write: Callable[[float], str]) -> Callable[[Sequence[_Value]], str]:
    def function(args: Sequence[_Value]) -> str:
        if len(args) != 1:
            raise _TemplateError
        return write(_number(args[0]))

    return function


def _of_text(write: Callable[[str], str]) -> Callable[[Sequence[_Value]], str]:
    def function(args: Sequence[_Value]) -> str:
        if len(args) != 1:
            raise _TemplateError
        return write(_text(args[0]))

    return function


def _printf(args: Sequence[_Value]) -> str:
    """Format with %d, %s, %f, %g, %e, %v, %q and %%; `%d` takes a float, which Go does not."""
    if not args or not isinstance(args[0], str):
        raise _TemplateError
    rest = list(args[1:])

    def write(match: re.Match[str]) -> str:
        if match["verb"] == "%":
            return "%"
        if not rest:
            raise _TemplateError
        return _verb(match["flags"], match["verb"], rest.pop(0))

    text = _VERB.sub(write, args[0])
    if rest:
        raise _TemplateError
    return text


def _verb(flags: str, verb: str, value: _Value) -> str:
    if verb in "sv" or (verb == "g" and "." not in flags):
        text = _text(value)
        return f"%{flags}s" % text
    if verb == "q":
        return f'"{_text(value)}"'
    number = _number(value)
    if verb == "d":
        return f"%{flags}d" % int(number)
    if verb in "efg":
        return (f"%{flags}{verb}" % number).replace("inf", "Inf").replace("nan", "NaN")
    raise _TemplateError


_FUNCTIONS: Mapping[str, Callable[[Sequence[_Value]], _Value]] = {
    "humanize": _of_number(humanize.humanize),
    "humanize1024": _of_number(humanize.humanize_1024),
    "humanizeDuration": _of_number(humanize.humanize_duration),
    "humanizePercentage": _of_number(humanize.humanize_percentage),
    "humanizeTimestamp": _of_number(humanize.humanize_timestamp),
    "printf": _printf,
    "toUpper": _of_text(str.upper),
    "toLower": _of_text(str.lower),
    "title": _of_text(str.title),
}
