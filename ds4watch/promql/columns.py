"""The labels of many series, and what evaluations derive from them, kept from one to the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ds4watch.model.series import Labels

T = TypeVar("T")
IndexArray = NDArray[np.intp]

_KEPT_SUBSETS = 8


class LabelColumn:
    """Label sets of n series, immutable. Equal work on the same column is done once.

    A rule is evaluated on the same series again and again: storage hands out the same column as
    long as its series are the same, and everything derived hangs on it.
    """

    __slots__ = ("_derived", "_subsets", "sets")

    def __init__(self, sets: tuple[Labels, ...]) -> None:
        self.sets = sets
        self._derived: dict[Hashable, Any] = {}
        self._subsets: OrderedDict[bytes, LabelColumn] = OrderedDict()

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[Labels]:
        return iter(self.sets)

    def derived(self, key: Hashable, make: Callable[[tuple[Labels, ...]], T]) -> T:
        """Return `make(sets)`, made at the first call with `key`; `key` has to name all it uses."""
        try:
            found: T = self._derived[key]
        except KeyError:
            found = self._derived[key] = make(self.sets)
        return found

    def take(self, positions: IndexArray) -> LabelColumn:
        """Return the sets at `positions` in that order; this column if it is all of them."""
        if len(positions) == len(self.sets) and bool((positions == np.arange(len(self))).all()):
            return self
        key = positions.tobytes()
        subset = self._subsets.get(key)
        if subset is None:
            subset = LabelColumn(tuple(self.sets[at] for at in positions.tolist()))
            self._subsets[key] = subset
            if len(self._subsets) > _KEPT_SUBSETS:
                self._subsets.popitem(last=False)
        else:
            self._subsets.move_to_end(key)
        return subset


NO_LABELS = LabelColumn(())
