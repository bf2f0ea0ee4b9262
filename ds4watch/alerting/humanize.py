"""Numbers for people, digit for digit as Prometheus' template functions write them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

_LARGE = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL = ("", "m", "u", "n", "p", "f", "a", "z", "y")
_BINARY = ("", "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")


def general(value: float) -> str:
    """Format as Go's `%v`: the fewest digits, with an exponent below 1e-4 and from 1e6 on."""
    if not math.isfinite(value):
        return _not_finite(value)
    sign, digits, shift = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    exponent = len(text) - 1 + int(shift)
    minus = "-" if sign else ""
    if value and not -4 <= exponent < 6:
        tail = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{tail}e{exponent:+03d}"
    return f"{minus}{Decimal(text).scaleb(int(shift)):f}"


def four_digits(value: float) -> str:
    """Format as `%.4g`."""
    return f"{value:.4g}" if math.isfinite(value) else _not_finite(value)


def humanize(value: float) -> str:
    """Format with a metric prefix: 1234567 is `1.235M`."""
    if value == 0 or not math.isfinite(value):
        return four_digits(value)
    return _prefixed(value, _LARGE, 1000.0) if abs(value) >= 1 else _small(value)


def humanize_1024(value: float) -> str:
    """Format with a binary prefix: 1048576 is `1Mi`."""
    if abs(value) <= 1 or not math.isfinite(value):
        return four_digits(value)
    return _prefixed(value, _BINARY, 1024.0)


def humanize_percentage(value: float) -> str:
    """Format a ratio: 0.1234 is `12.34%`."""
    return f"{four_digits(value * 100)}%"


def humanize_duration(seconds: float) -> str:
    """Format seconds: 3723 is `1h 2m 3s`, 0.5 is `500ms`."""
    if not math.isfinite(seconds):
        return four_digits(seconds)
    if seconds == 0:
        return "0s"
    if abs(seconds) < 1:
        return f"{_small(seconds)}s"
    sign, size = ("-" if seconds < 0 else ""), abs(seconds)
    minutes, whole = divmod(int(size), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {whole}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {whole}s"
    return f"{sign}{minutes}m {whole}s" if minutes else f"{sign}{four_digits(size)}s"


def humanize_timestamp(seconds: float) -> str:
    """Format an instant, in UTC, as Go prints a time."""
    if not math.isfinite(seconds):
        return four_digits(seconds)
    when = datetime.fromtimestamp(seconds, UTC)
    fraction = f".{when.microsecond:06d}".rstrip("0") if when.microsecond else ""
    return f"{when:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def _prefixed(value: float, prefixes: tuple[str, ...], base: float) -> str:
    position = 0
    while abs(value) >= base and position < len(prefixes) - 1:
        value /= base
        position += 1
    return four_digits(value) + prefixes[position]


def _small(value: float) -> str:
    position = 0
    while abs(value) < 1 and position < len(_SMALL) - 1:
        value *= 1000
        position += 1
    return four_digits(value) + _SMALL[position]


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
