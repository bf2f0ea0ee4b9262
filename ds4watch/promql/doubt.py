"""Which elements of a result may be missing because a target's last scrape failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Expr,
    InstantSelector,
    RangeSelector,
    Selector,
    Text,
    children_of,
)
from ds4watch.promql.columns import LabelColumn

_MAKES_LABEL = {"label_replace": 1, "label_join": 1, "histogram_quantiles": 1}
"""The place of the argument that names the label a function sets."""
_LOSES_LABELS = frozenset({"scalar", "vector", "absent", "absent_over_time"})
_HISTOGRAMS = frozenset({"histogram_quantile", "histogram_quantiles", "histogram_fraction"})


@dataclass(frozen=True, slots=True)
class Shared:
    """Label names in which a selected series and the elements it bears upon must agree.

    only: None for all names but `never`.
    """

    only: frozenset[str] | None = None
    never: frozenset[str] = frozenset({NAME_LABEL})

    def within(self, names: Collection[str]) -> Shared:
        """Return those of `names` alone."""
        only = frozenset(names) if self.only is None else self.only & frozenset(names)
        return Shared(only, self.never)

    def but(self, names: Collection[str]) -> Shared:
        """Return all but `names`."""
        return Shared(self.only, self.never | frozenset(names))

    def has(self, name: str) -> bool:
        """Return whether `name` is among them."""
        return name not in self.never and (self.only is None or name in self.only)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Series of a selector that are missing; an empty column says that it is not known which."""

    missing: LabelColumn
    shared: Shared

    def touches(self, labels: Mapping[str, str], made: frozenset[str]) -> bool:
        """Return whether an element with `labels`, those `made` apart, may be missing.

        It may, if some missing series has no other value for a label that they share.
        """
        if not len(self.missing):
            return True
        shared = self.shared.but(made)
        shapes = self.missing.derived(("shapes", shared), lambda sets: _shapes(sets, shared))
        return any(self._agrees(labels, names) for names in shapes)

    def _agrees(self, labels: Mapping[str, str], names: tuple[str, ...]) -> bool:
        both = tuple([name for name in names if name in labels])
        known = self.missing.derived(("values", both), lambda sets: _values(sets, both))
        return tuple([labels[name] for name in both]) in known


def shared_by(expr: Expr) -> Mapping[Selector, tuple[Shared, ...]]:
    """Return for each selector in `expr` what its series share with the elements of the result."""
    found: dict[Selector, tuple[Shared, ...]] = {}
    for selector, shared in _walk(expr, Shared()):
        found[selector] = (*found.get(selector, ()), shared)
    return found


def _shapes(sets: tuple[Labels, ...], shared: Shared) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(name for name, _ in labels if shared.has(name)) for labels in sets)


def _values(sets: tuple[Labels, ...], names: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    dicts = (dict(labels) for labels in sets)
    return frozenset(
        tuple(labels[name] for name in names)
        for labels in dicts
        if all(name in labels for name in names)
    )


def _walk(expr: Expr, shared: Shared) -> Iterator[tuple[Selector, Shared]]:
    if isinstance(expr, InstantSelector | RangeSelector):
        yield expr, shared
    elif isinstance(expr, Binary):
        left, right = _sides(expr, shared)
        yield from _walk(expr.lhs, left)
        yield from _walk(expr.rhs, right)
    else:
        if isinstance(expr, Aggregate):
            shared = _of_aggregate(expr, shared)
        elif isinstance(expr, Call):
            shared = _of_call(expr, shared)
        for child in children_of(expr):
            yield from _walk(child, shared)


def _sides(expr: Binary, shared: Shared) -> tuple[Shared, Shared]:
    matching = expr.matching
    matched = shared.within(matching.labels) if matching.on else shared.but(matching.labels)
    if expr.op == "or":
        return shared, shared
    if expr.op in ("and", "unless"):
        return shared, matched
    if matching.cardinality is Cardinality.MANY_TO_ONE:
        return shared.but(matching.include), matched.but(matching.include)
    if matching.cardinality is Cardinality.ONE_TO_MANY:
        return matched.but(matching.include), shared.but(matching.include)
    return matched, matched


def _of_aggregate(expr: Aggregate, shared: Shared) -> Shared:
    if isinstance(expr.param, Text):  # count_values makes a label of this name
        shared = shared.but([expr.param.value])
    return shared.but(expr.labels) if expr.without else shared.within(expr.labels)


def _of_call(expr: Call, shared: Shared) -> Shared:
    name = expr.function
    if name in _LOSES_LABELS:
        return shared.within(())
    if name in _HISTOGRAMS:
        shared = shared.but(["le"])
    made = expr.args[_MAKES_LABEL[name]] if name in _MAKES_LABEL else None
    return shared.but([made.value]) if isinstance(made, Text) else shared
