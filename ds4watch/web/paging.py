"""Lists page by page. A cursor is where a page ended; clients hand it back as it is."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import HTTPException, Query

Limit = Annotated[int, Query(ge=1, le=1000, description="Rows at most")]
Cursor = Annotated[
    str | None,
    Query(max_length=2000, description="`next_cursor` of the page before; absent: the first page"),
]
T = TypeVar("T")


def cursor_of(place: Any) -> str:
    """Return the cursor for a place in a list."""
    text = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode("ascii")


def place_of(cursor: str | None, kind: Callable[[Any], T]) -> T | None:
    """Return the place that a cursor stands for, made by `kind`; refuse one that is not ours."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return kind(json.loads(base64.urlsafe_b64decode(padded)))
    except (ValueError, TypeError, KeyError, OverflowError, binascii.Error) as error:
        raise HTTPException(422, "cursor: is not one that a page ended with") from error


def text_place(value: Any) -> str:
    """Return a place that is a text."""
    if not isinstance(value, str):
        raise TypeError
    return value


def row_place(value: Any) -> int:
    """Return a place that is the id of a row."""
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise TypeError
    return value


def timed_place(value: Any) -> tuple[float, str]:
    """Return a place that is an instant and an id."""
    at, name = value
    if not isinstance(at, int | float) or not 0 <= at <= 4e9 or not isinstance(name, str):
        raise TypeError
    return float(at), name


def paged(
    items: Iterable[dict[str, Any]],
    key: Callable[[dict[str, Any]], str],
    *,
    limit: int,
    cursor: str | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of a list in the order of `key`, and the cursor of the next one.

    Items of one key are never parted, so that none is lost between two pages.
    """
    after = place_of(cursor, text_place)
    rest = [it for it in sorted(items, key=key) if after is None or key(it) > after]
    if len(rest) <= limit:
        return rest, None
    last = key(rest[limit - 1])
    page = [it for it in rest if key(it) <= last]
    return page, cursor_of(last) if len(page) < len(rest) else None


def there(found: T | None, told: str) -> T:
    """Return what was found; answer 404 with what is told if it is nothing."""
    if found is None:
        raise HTTPException(404, told)
    return found
