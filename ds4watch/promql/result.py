"""What an evaluation gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, Sample
from ds4watch.promql.ast import Selector, ValueType
from ds4watch.promql.columns import BoolArray, LabelColumn
from ds4watch.promql.storage import Windows
from ds4watch.promql.vectors import EMPTY, Vector, without_name


@dataclass(frozen=True, slots=True)
class Matrix:
    """What an expression gave at each of k steps: n series, sorted by their labels.

    steps: (k,) unix seconds. values: (n, k), NaN where `there` (n, k) says that nothing is.
    """

    labels: LabelColumn
    steps: FloatArray
    values: FloatArray
    there: BoolArray


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What an expression gave at one instant. `kind` says which of the four fields holds it.

    incomplete: a selector touched a target whose last scrape failed; `missing` are these
        selectors and their series there.
    no_data: there are selectors, and none of them found a live sample.
    """

    kind: ValueType
    vector: Vector = EMPTY
    scalar: float = math.nan
    text: str = ""
    windows: Windows | None = None
    incomplete: bool = False
    no_data: bool = False
    missing: Mapping[Selector, LabelColumn] = field(default_factory=dict)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The vector as objects; for few."""
        pairs = zip(self.vector.labels, self.vector.values.tolist(), strict=True)
        return tuple(_sample(labels, value) for labels, value in pairs)


def _sample(labels: Labels, value: float) -> Sample:
    return Sample(dict(labels).get(NAME_LABEL, ""), without_name(labels), value)
