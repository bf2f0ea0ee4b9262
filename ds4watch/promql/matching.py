"""How the series of two vectors find each other: told once for each pair of label columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels
from ds4watch.promql.ast import Cardinality, Matching
from ds4watch.promql.columns import NO_LABELS, BoolArray, IndexArray, LabelColumn
from ds4watch.promql.vectors import LabelsChange, keeping, leaving, with_label, without_name


@dataclass(frozen=True, slots=True)
class Pairs:
    """Series that belong together: positions on either side (None: all, in order), and labels.

    error: why they cannot be matched as asked; nothing else counts then.
    """

    many: IndexArray | None
    single: IndexArray | None
    labels: LabelColumn
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """What `or` adds to its left side: positions on the right, and all labels; None if nothing."""

    positions: IndexArray
    labels: LabelColumn | None


def pairs(matching: Matching, many: LabelColumn, single: LabelColumn, *, nameless: bool) -> Pairs:
    """Return the pairs of series. Raises QueryError if they cannot be matched as asked."""
    found = many.paired(
        single, (matching, nameless), lambda: _pairs(matching, many, single, nameless=nameless)
    )
    if found.error is not None:
        raise QueryError(found.error)
    return found


def is_matched(matching: Matching, lhs: LabelColumn, rhs: LabelColumn) -> BoolArray:
    """Return which series of `lhs` have a partner in `rhs`."""

    def make() -> BoolArray:
        known = set(signatures(matching, rhs))
        found = [signature in known for signature in signatures(matching, lhs)]
        return np.array(found, dtype=np.bool_)

    return lhs.paired(rhs, ("matched", matching.on, matching.labels), make)


def added(matching: Matching, lhs: LabelColumn, rhs: LabelColumn) -> Added:
    """Return the series of `rhs` without a partner in `lhs`."""

    def make() -> Added:
        known = set(signatures(matching, lhs))
        theirs = signatures(matching, rhs)
        fresh = [at for at, signature in enumerate(theirs) if signature not in known]
        more = tuple(rhs.sets[at] for at in fresh)
        labels = LabelColumn(lhs.sets + more) if more else None
        return Added(np.array(fresh, dtype=np.intp), labels)

    return lhs.paired(rhs, ("or", matching.on, matching.labels), make)


def signatures(matching: Matching, column: LabelColumn) -> tuple[Labels, ...]:
    """Return the parts of label sets by which series of two vectors find each other."""
    on, names = matching.on, matching.labels
    change = keeping(names) if on else leaving((*names, NAME_LABEL))
    return column.derived(
        ("signatures", on, names), lambda sets: tuple([change(labels) for labels in sets])
    )


def _pairs(matching: Matching, many: LabelColumn, single: LabelColumn, *, nameless: bool) -> Pairs:
    try:
        matched = _matched(matching, many, single)
        labels = _result_labels(matching, many, single, matched, nameless=nameless)
    except QueryError as error:
        # Kept like a result: a rule that fails each second must not cost more than one that works.
        return Pairs(None, None, NO_LABELS, str(error))
    left = np.array([at for at, _ in matched], dtype=np.intp)
    right = np.array([at for _, at in matched], dtype=np.intp)
    return Pairs(_unless_all(left, many), _unless_all(right, single), labels)


def _unless_all(positions: IndexArray, column: LabelColumn) -> IndexArray | None:
    return None if np.array_equal(positions, np.arange(len(column))) else positions


def _matched(matching: Matching, many: LabelColumn, single: LabelColumn) -> list[tuple[int, int]]:
    """Return (position in many, position in single) of the series that belong together."""
    by_signature: dict[Labels, int] = {}
    for position, signature in enumerate(signatures(matching, single)):
        if signature in by_signature:
            raise QueryError(
                f"found duplicate series for the match group {dict(signature)}: "
                "many-to-many matching not allowed, matching labels must be unique on one side"
            )
        by_signature[signature] = position
    theirs = signatures(matching, many)
    matched = [(at, by_signature[sig]) for at, sig in enumerate(theirs) if sig in by_signature]
    one_to_one = matching.cardinality is Cardinality.ONE_TO_ONE
    if one_to_one and len({position for _, position in matched}) != len(matched):
        raise QueryError(
            "multiple matches for labels: many-to-one matching must be explicit "
            "(group_left/group_right)"
        )
    return matched


def _result_labels(
    matching: Matching,
    many: LabelColumn,
    single: LabelColumn,
    matched: list[tuple[int, int]],
    *,
    nameless: bool,
) -> LabelColumn:
    bare: LabelsChange = without_name if nameless else _as_they_are
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        select = keeping(matching.labels) if matching.on else leaving(matching.labels)
        return LabelColumn(tuple([select(bare(many.sets[at])) for at, _ in matched]))
    labels = tuple([_included(matching, bare(many.sets[m]), single.sets[s]) for m, s in matched])
    if len(set(labels)) != len(labels):
        raise QueryError("multiple matches for labels: grouping labels must ensure unique matches")
    return LabelColumn(labels)


def _as_they_are(labels: Labels) -> Labels:
    return labels


def _included(matching: Matching, labels: Labels, single: Labels) -> Labels:
    values = dict(single)
    for name in matching.include:
        labels = with_label(labels, name, values.get(name, ""))
    return labels
