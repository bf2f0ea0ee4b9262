"""JSON of strangers: no constants that are no JSON, no name twice, no bottomless nesting.

Of a name given twice one reader takes the first and another the last: who checks must not see
another request than who answers.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 64


def loads(raw: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return the JSON object. Raises ValueError, its message one line."""
    try:
        body = _decoded(raw.decode())
    except RecursionError as error:
        message = f"it is nested deeper than {max_depth} levels"
        raise ValueError(message) from error
    if type(body) is not dict:
        message = "it must be an object"
        raise ValueError(message)
    # As many levels need as many brackets.
    if raw.count(b"{") + raw.count(b"[") > max_depth and _is_deeper(body, max_depth):
        message = f"it is nested deeper than {max_depth} levels"
        raise ValueError(message)
    return body


def _decoded(text: str) -> Any:
    """Return what `decode` does; in most cases without its two looks for white space."""
    try:
        body, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError:
        end = -1
    return body if end == len(text) else _DECODER.decode(text)


def _is_deeper(body: dict[str, Any], levels: int) -> bool:
    level: list[Any] = [body]
    for _ in range(levels):
        level = [
            one
            for node in level
            for one in (node.values() if type(node) is dict else node)
            if type(one) is dict or type(one) is list
        ]
        if not level:
            return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        message = f"the name {twice[:64]!r} stands twice in one object"
        raise ValueError(message)
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        message = f"the number {text[:32]} is too large"
        raise ValueError(message)
    return value


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise ValueError(message)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_constant=_refuse_constant
)
