"""The values that pass between the parts of the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, labels_of
from ds4watch.promql.columns import NO_LABELS, BoolArray, IndexArray, LabelColumn
from ds4watch.promql.storage import Ends, Windows

LabelsChange: TypeAlias = Callable[[Labels], Labels]


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector. `values` is aligned with `labels`; labels hold `__name__` if kept."""

    labels: LabelColumn
    values: FloatArray

    def __len__(self) -> int:
        return len(self.labels.sets)

    def take(self, positions: IndexArray) -> Vector:
        """Return the elements at `positions`, in that order."""
        return Vector(self.labels.take(positions), self.values[positions])

    def where(self, mask: BoolArray) -> Vector:
        """Return the elements where `mask` is true."""
        labels = self.labels.where(mask)
        if labels is self.labels:
            return self
        return Vector(labels, self.values[mask]) if len(labels) else EMPTY


@dataclass(frozen=True, slots=True)
class Span:
    """The window (start, end] of a range vector.

    at: the instant of the evaluation, from which `predict_linear` looks ahead.
    """

    start: UnixSeconds
    end: UnixSeconds
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class Spans:
    """The windows (start, end] of many steps; `at` are the steps themselves."""

    start: FloatArray
    end: FloatArray
    at: FloatArray


AnySpan: TypeAlias = Span | Spans


@dataclass(frozen=True, slots=True)
class RangeVector:
    """A range vector: all samples of each series, or no more than their ends."""

    samples: Windows | Ends
    span: Span


EMPTY = Vector(NO_LABELS, np.empty(0))


def vector_of(labels: Iterable[Labels], values: Sequence[float]) -> Vector:
    """Build a vector from labels and plain numbers."""
    return Vector(LabelColumn(tuple(labels)), np.array(values, dtype=np.float64))


def one(value: float, labels: Labels = ()) -> Vector:
    """Return a vector of one element; its column is the same for the same labels."""
    return Vector(_column_of_one(labels), np.array([value], dtype=np.float64))


@lru_cache(maxsize=1024)
def _column_of_one(labels: Labels) -> LabelColumn:
    return LabelColumn((labels,))


def changed(column: LabelColumn, key: Hashable, change: LabelsChange) -> LabelColumn:
    """Return `column` with `change` applied to each label set; `key` names the change.

    A column that the change leaves as it is stays the same one.
    """

    def make(sets: tuple[Labels, ...]) -> LabelColumn | None:
        after = tuple([change(labels) for labels in sets])
        return None if after == sets else LabelColumn(after)

    found = column.derived(key, make)
    return column if found is None else found


def without_name(labels: Labels) -> Labels:
    """Return `labels` without the metric name."""
    return tuple(pair for pair in labels if pair[0] != NAME_LABEL)


def drop_names(vector: Vector) -> Vector:
    """Return `vector` without metric names."""
    return Vector(changed(vector.labels, "nameless", without_name), vector.values)


def unique(vector: Vector) -> Vector:
    """Return `vector`. Raises QueryError if two of its elements have the same labels."""
    if not vector.labels.derived("unique", _is_unique):
        raise QueryError("vector cannot contain metrics with the same labelset")
    return vector


def _is_unique(sets: tuple[Labels, ...]) -> bool:
    return len(set(sets)) == len(sets)


def keeping(names: Iterable[str]) -> LabelsChange:
    """Return the change that keeps only the labels named."""
    wanted = frozenset(names)
    return lambda labels: tuple([pair for pair in labels if pair[0] in wanted])


def leaving(names: Iterable[str]) -> LabelsChange:
    """Return the change that keeps all labels but those named."""
    unwanted = frozenset(names)
    return lambda labels: tuple([pair for pair in labels if pair[0] not in unwanted])


def with_label(labels: Labels, name: str, value: str) -> Labels:
    """Return `labels` with `name` set to `value`, or removed if that is empty."""
    return labels_of(dict(labels) | {name: value})
