"""The small words that all commands use. A dash: not reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from rich.table import Table

DASH = "-"
NARROW = 100
"""Below so many columns words have to be short."""


def number(value: Any) -> str:
    """Return up to four significant digits."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return DASH
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"


def percent(value: Any) -> str:
    """Return a ratio as a percentage."""
    return f"{value * 100:.1f} %" if isinstance(value, int | float) else DASH


def instant(at: Any) -> str:
    """Return an instant in local time."""
    if not isinstance(at, int | float):
        return DASH
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock(at: Any) -> str:
    """Return the time of day of an instant, local."""
    return instant(at)[-8:]


def money(amount: Any, currency: str) -> str:
    """Return a decimal string for people: four places under one unit, two from there on."""
    try:
        value = Decimal(str(amount))
    except InvalidOperation:
        return DASH
    return f"{value:.4f} {currency}" if abs(value) < 1 else f"{value:.2f} {currency}"


def signal(name: str, value: Any) -> str:
    """Return a signal's value in the unit that its name gives."""
    if "_ratio" in name:
        return percent(value)
    if "_bytes" in name and isinstance(value, int | float):
        return f"{value / 2**30:.2f} GiB"
    return number(value)


def shortened(text: str, most: int) -> str:
    """Return a name without its middle if it is too long: begin and number tell it from others."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[-end:] if end else ''}"


def plain_table(*columns: str, folds: bool = True) -> Table:
    """Return a table of these columns, without a frame."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=not folds)
    return table


def audit_line(row: Mapping[str, Any]) -> str:
    """Return one line of the story: time, kind, who, target, summary."""
    target = str(row.get("target") or row.get("subject") or DASH)
    who = str(row.get("who") or DASH)
    kind = str(row.get("kind") or DASH)
    text = f"{instant(row.get('at'))}  {kind:<10} {who:<10} {target:<18} {row.get('summary', '')}"
    return printable(text)


def printable(text: str) -> str:
    """Return a text without what would move the cursor of who reads it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
