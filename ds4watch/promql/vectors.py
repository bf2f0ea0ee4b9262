"""The values that pass between the parts of the evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ds4watch.model.errors import QueryError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, labels_of


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector. `values` is aligned with `labels`; labels hold `__name__` if kept."""

    labels: tuple[Labels, ...]
    values: FloatArray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Iterable[int]) -> Vector:
        """Return the elements at `positions`, in that order."""
        chosen = list(positions)
        return Vector(tuple(self.labels[at] for at in chosen), self.values[chosen])


@dataclass(frozen=True, slots=True)
class Window:
    """The samples of one series in (start, end], staleness markers left out.

    at: the instant of the evaluation, from which `predict_linear` looks ahead.
    """

    labels: Labels
    times: FloatArray
    values: FloatArray
    start: UnixSeconds
    end: UnixSeconds
    at: UnixSeconds


@dataclass(frozen=True, slots=True)
class RangeVector:
    """A range vector; no window is empty."""

    windows: tuple[Window, ...]


EMPTY = Vector((), np.empty(0))


def vector_of(labels: Sequence[Labels], values: Iterable[float]) -> Vector:
    """Build a vector from labels and plain numbers."""
    return Vector(tuple(labels), np.array(list(values), dtype=np.float64))


def one(value: float, labels: Labels = ()) -> Vector:
    """Return a vector of one element."""
    return vector_of([labels], [value])


def without_name(labels: Labels) -> Labels:
    """Return `labels` without the metric name."""
    return tuple(pair for pair in labels if pair[0] != NAME_LABEL)


def drop_names(vector: Vector) -> Vector:
    """Return `vector` without metric names."""
    return Vector(tuple(without_name(labels) for labels in vector.labels), vector.values)


def unique(vector: Vector) -> Vector:
    """Return `vector`. Raises QueryError if two of its elements have the same labels."""
    if len(set(vector.labels)) != len(vector.labels):
        raise QueryError("vector cannot contain metrics with the same labelset")
    return vector


def keep(labels: Labels, names: Iterable[str]) -> Labels:
    """Return only the labels named."""
    wanted = frozenset(names)
    return tuple(pair for pair in labels if pair[0] in wanted)


def leave(labels: Labels, names: Iterable[str]) -> Labels:
    """Return all labels but those named."""
    unwanted = frozenset(names)
    return tuple(pair for pair in labels if pair[0] not in unwanted)


def with_label(labels: Labels, name: str, value: str) -> Labels:
    """Return `labels` with `name` set to `value`, or removed if that is empty."""
    return labels_of(dict(labels) | {name: value})
