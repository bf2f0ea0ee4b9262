"""What templates can call: `humanize…`, `printf` and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ds4watch.alerting import humanize

TemplateValue: TypeAlias = float | str | Mapping[str, str]
_VERB = re.compile(r"%(?P<flags>[-+ 0#]*\d*(?:\.\d+)?)(?P<verb>.)", re.DOTALL)


class TemplateError(Exception):
    """Something in a template that is not supported."""


Node: TypeAlias = Callable[[Mapping[str, str], float], TemplateValue]
"""(labels, value of the alert) -> value of a part of the template."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A part that is the same for all alerts."""

    value: TemplateValue

    def __call__(self, _labels: Mapping[str, str], _value: float) -> TemplateValue:
        """Return the value."""
        return self.value


def text_of(value: TemplateValue) -> str:
    """Return a value as Go prints it."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{name}:{value[name]}' for name in sorted(value))}]"
    return humanize.general(value)


def _number(value: TemplateValue) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, Mapping):
        raise TemplateError
    return float(value)


_Build: TypeAlias = Callable[[Sequence[Node]], Node]
"""Makes of a function's arguments its result."""


def _of_number(write: Callable[[float], str]) -> _Build:
    def build(nodes: Sequence[Node]) -> Node:
        node = _only(nodes)
        return lambda labels, value: write(_number(node(labels, value)))

    return build


def _of_text(write: Callable[[str], str]) -> _Build:
    def build(nodes: Sequence[Node]) -> Node:
        node = _only(nodes)
        return lambda labels, value: write(text_of(node(labels, value)))

    return build


def _only(nodes: Sequence[Node]) -> Node:
    if len(nodes) != 1:
        raise TemplateError
    return nodes[0]


def _printf(nodes: Sequence[Node]) -> Node:
    """Format with %d, %s, %f, %g, %e, %v, %q and %%; `%d` takes a float, which Go does not."""
    if not nodes or not isinstance(nodes[0], Constant) or not isinstance(nodes[0].value, str):
        raise TemplateError
    rest = list(nodes[1:])
    template = nodes[0].value
    parts: list[str | tuple[str, str, Node]] = []
    end = 0
    for match in _VERB.finditer(template):
        parts.append(template[end : match.start()])
        end = match.end()
        if match["verb"] == "%":
            parts.append("%")
        elif rest:
            parts.append((match["flags"], match["verb"], rest.pop(0)))
        else:
            raise TemplateError
    if rest:
        raise TemplateError
    parts.append(template[end:])
    return lambda labels, value: "".join(
        [it if isinstance(it, str) else _verb(it[0], it[1], it[2](labels, value)) for it in parts]
    )


def _verb(flags: str, verb: str, value: TemplateValue) -> str:
    if verb in "sv" or (verb == "g" and "." not in flags):
        text = text_of(value)
        return f"%{flags}s" % text
    if verb == "q":
        return f'"{text_of(value)}"'
    number = _number(value)
    if verb == "d":
        return f"%{flags}d" % int(number)
    if verb in "efg":
        text = f"%{flags}{verb}" % number
        return text if math.isfinite(number) else text.replace("inf", "Inf").replace("nan", "NaN")
    raise TemplateError


FUNCTIONS: Mapping[str, _Build] = {
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
