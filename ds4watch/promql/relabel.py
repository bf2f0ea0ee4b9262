"""Functions that change labels, and the labels of `absent`."""

from __future__ import annotations

import re

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels, labels_of
from ds4watch.promql.ast import Expr, InstantSelector, RangeSelector
from ds4watch.promql.selection import compile_regex
from ds4watch.promql.storage import MatchOp
from ds4watch.promql.vectors import Vector, changed, with_label

_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))", re.ASCII)


def label_replace(
    vector: Vector, target: str, replacement: str, source: str, pattern: str
) -> Vector:
    """Set `target` to `replacement`, `$1` and `${name}` filled in, where `source` matches."""
    check_label_name(target)
    regex = compile_regex(pattern)

    def relabel(labels: Labels) -> Labels:
        match = regex.fullmatch(dict(labels).get(source, ""))
        if match is None:
            return labels
        return with_label(labels, target, _expand(match, replacement))

    key = ("label_replace", target, replacement, source, pattern)
    return Vector(changed(vector.labels, key, relabel), vector.values)


def label_join(vector: Vector, target: str, separator: str, *sources: str) -> Vector:
    """Set `target` to the values of `sources`, joined."""
    check_label_name(target)

    def relabel(labels: Labels) -> Labels:
        values = dict(labels)
        joined = separator.join(values.get(source, "") for source in sources)
        return with_label(labels, target, joined)

    key = ("label_join", target, separator, sources)
    return Vector(changed(vector.labels, key, relabel), vector.values)


def check_label_name(name: str) -> None:
    """Raise QueryError unless `name` may be a label: any text that is valid UTF-8 (Prometheus 3).

    The parser turns bytes that are not UTF-8 into U+FFFD, or into lone surrogates.
    """
    if not name or "\ufffd" in name or any("\ud800" <= char <= "\udfff" for char in name):
        raise QueryError(f"invalid label name {name!r}")


def absent_labels(expr: Expr) -> Labels:
    """Return the labels that `absent(expr)` can tell: those of single equality matchers."""
    if not isinstance(expr, InstantSelector | RangeSelector):
        return ()
    values: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in expr.matchers:
        if matcher.op is MatchOp.EQUAL and matcher.name not in seen:
            values[matcher.name] = matcher.value
            seen.add(matcher.name)
        else:
            values.pop(matcher.name, None)
    values.pop(NAME_LABEL, None)
    return labels_of(values)


def _expand(match: re.Match[str], replacement: str) -> str:
    """Fill in a replacement as Go's Regexp.Expand does; unknown groups are empty."""
    groups = match.groupdict() | {
        str(number): match.group(number) for number in range(match.re.groups + 1)
    }

    def value(reference: re.Match[str]) -> str:
        name = reference.group(1) or reference.group(2)
        return "$" if name is None else groups.get(name) or ""

    return _REFERENCE.sub(value, replacement)
