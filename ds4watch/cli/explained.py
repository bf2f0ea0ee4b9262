"""What rules see now, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ds4watch.alerting.durations import format_duration
from ds4watch.cli.display import instant

_SHOWN_VALUES = 5
_NAME = "__name__"


def explained_lines(rules: list[dict[str, Any]]) -> Iterator[str]:
    """Yield, for each tier, whether it fires, how far it is from it, and its parts.

    A part that several tiers share is shown with the first.
    """
    seen: set[str] = set()
    for rule in rules:
        yield from _rule_lines(rule)
        parts = [part for part in rule["parts"] if part["expression"] not in seen]
        seen.update(part["expression"] for part in parts)
        if parts:
            yield "  parts now:"
        yield from (_part_line(part) for part in parts)
        yield ""


def _rule_lines(rule: Mapping[str, Any]) -> Iterator[str]:
    tier = f" {rule['severity']}" if rule["severity"] else ""
    held = f", for {format_duration(rule['for_seconds'])}" if rule["for_seconds"] else ""
    yield f"{rule['name']}{tier} (group {rule['group']}{held}): {_standing(rule)}"
    yield f"  {' '.join(rule['expression'].split())}"
    for alert in rule["alerts"]:
        yield f"  {alert['phase']} since {instant(alert['since'])}: {_labels(alert['labels'])}"
    for condition in rule["conditions"]:
        yield from _condition_lines(condition)


def _standing(rule: Mapping[str, Any]) -> str:
    if rule["error"]:
        return f"cannot be evaluated: {rule['error']}"
    if rule["severity"] is None:
        return f"records {rule['elements']} series"
    return f"holds for {rule['elements']}" if rule["elements"] else "does not hold"


def _condition_lines(condition: Mapping[str, Any]) -> Iterator[str]:
    wanted = f"{condition['expression']} {condition['op']} {_number(condition['threshold'])}"
    yield f"  {'unless' if condition['unless'] else 'wants'} {wanted}"
    if not condition["nearest"]:
        yield "    there is nothing to compare"
    for near in condition["nearest"][:_SHOWN_VALUES]:
        labels = f"{_labels(near['labels'])} " if near["labels"] else ""
        yield f"    {labels}{_number(near['value'])}: {_distance(near, condition['threshold'])}"
    if condition["count"] > _SHOWN_VALUES:
        yield f"    and {condition['count'] - _SHOWN_VALUES} further off"


def _distance(near: Mapping[str, Any], threshold: Any) -> str:
    word = "so" if near["holds"] else "not so"
    value, beyond = near["value"], near["beyond"]
    if isinstance(beyond, str) or isinstance(threshold, str):
        return word
    of_it = f", {100 * value / threshold:.0f}% of it" if threshold else ""
    return f"{word}, {_number(abs(beyond))} {'beyond' if near['holds'] else 'short'}{of_it}"


def _part_line(part: Mapping[str, Any]) -> str:
    indent = "  " * (part["depth"] + 1)
    return f"{indent}{part['expression']}: {_values(part)}"


def _values(part: Mapping[str, Any]) -> str:
    if part["error"]:
        return f"cannot be evaluated: {part['error']}"
    if not part["values"]:
        return "nothing"
    shown = [_value(it) for it in part["values"][:_SHOWN_VALUES]]
    if part["type"] == "matrix":
        return f"{part['count']} samples, newest {', '.join(shown)}"
    rest = part["count"] - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def _value(it: Mapping[str, Any]) -> str:
    labels = {name: value for name, value in it["labels"].items() if name != _NAME}
    return f"{_labels(labels)} {_number(it['value'])}" if labels else _number(it["value"])


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
