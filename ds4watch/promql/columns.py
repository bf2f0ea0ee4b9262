"""The labels of many series, and what evaluations derive from them, kept from one to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import Labels

T = TypeVar("T")
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

_KEPT_DERIVED = 512
_KEPT_SUBSETS = 64
_KEPT_SUBSETS_SIZE = 8
"""Subsets are kept up to this many times the column's own length, all together."""


class LabelColumn:
    """Label sets of n series, immutable. Equal work on the same column is done once.

    A rule is evaluated on the same series again and again: storage hands out the same column as
    long as its series are the same, and everything derived hangs on it, within bounds. Columns
    are told apart by identity.
    """

    __slots__ = ("__weakref__", "_derived", "_pairs", "_subsets", "_subsets_size", "sets")

    def __init__(self, sets: tuple[Labels, ...]) -> None:
        self.sets = sets
        self._derived: OrderedDict[Hashable, Any] = OrderedDict()
        self._pairs: WeakKeyDictionary[LabelColumn, OrderedDict[Hashable, Any]] | None = None
        self._subsets: OrderedDict[bytes, LabelColumn] = OrderedDict()
        self._subsets_size = 0

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[Labels]:
        return iter(self.sets)

    def derived(self, key: Hashable, make: Callable[[tuple[Labels, ...]], T]) -> T:
        """Return `make(sets)`, made at the first call with `key`; `key` has to name all it uses."""
        found: T
        try:
            found = self._derived[key]
        except KeyError:
            found = make(self.sets)
            _keep(self._derived, key, found)
        return found

    def paired(self, other: LabelColumn, key: Hashable, make: Callable[[], T]) -> T:
        """Return `make()`, made once for this column, `other` and `key`, as long as both live.

        What is made must not hold `other`, or it would keep it alive.
        """
        if self._pairs is None:
            self._pairs = WeakKeyDictionary()
        kept = self._pairs.get(other)
        if kept is None:
            kept = self._pairs[other] = OrderedDict()
        found: T
        try:
            found = kept[key]
        except KeyError:
            found = make()
            _keep(kept, key, found)
        return found

    def take(self, positions: IndexArray) -> LabelColumn:
        """Return the sets at `positions` in that order; this column if it is all of them."""
        if len(positions) == len(self.sets) and bool((positions == np.arange(len(self))).all()):
            return self
        if not len(positions):
            return NO_LABELS
        return self._subset(b"at" + positions.tobytes(), positions)

    def where(self, mask: BoolArray) -> LabelColumn:
        """Return the sets where `mask` is true; this column if it is all of them."""
        count = int(np.count_nonzero(mask))
        if count == len(self.sets):
            return self
        if not count:
            return NO_LABELS
        return self._subset(b"in" + mask.tobytes(), mask)

    def _subset(self, key: bytes, chosen: IndexArray | BoolArray) -> LabelColumn:
        subset = self._subsets.get(key)
        if subset is not None:
            self._subsets.move_to_end(key)
            return subset
        positions = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        subset = LabelColumn(tuple([self.sets[at] for at in positions.tolist()]))
        self._subsets[key] = subset
        self._subsets_size += len(subset)
        while len(self._subsets) > 1 and (
            len(self._subsets) > _KEPT_SUBSETS
            or self._subsets_size > _KEPT_SUBSETS_SIZE * len(self.sets)
        ):
            _, oldest = self._subsets.popitem(last=False)
            self._subsets_size -= len(oldest)
        return subset


def _keep(kept: OrderedDict[Hashable, Any], key: Hashable, value: object) -> None:
    """Keep a value, and forget the one made first if there are too many."""
    kept[key] = value
    if len(kept) > _KEPT_DERIVED:
        kept.popitem(last=False)


NO_LABELS = LabelColumn(())
