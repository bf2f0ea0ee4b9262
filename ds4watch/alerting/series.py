"""What alerting itself writes as series: ALERTS, ALERTS_FOR_STATE, recording rules."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ds4watch.model.alert import AlertPhase, AlertState, RecordingRule
from ds4watch.model.errors import QueryError
from ds4watch.model.series import NAME_LABEL, Labels, labels_of
from ds4watch.promql.columns import NO_LABELS, LabelColumn
from ds4watch.promql.vectors import EMPTY, Vector

_ACTIVE = (AlertPhase.PENDING, AlertPhase.FIRING)

_Key = tuple[Labels, AlertPhase]


class AlertSeries:
    """The series of a rule's active alerts; their column stays the same as long as these do."""

    def __init__(self) -> None:
        self._pairs: dict[_Key, tuple[Labels, Labels]] = {}
        self._column = NO_LABELS

    def of(self, states: Iterable[AlertState]) -> Vector:
        """Return ALERTS (1, with `alertstate`) and ALERTS_FOR_STATE (since when), in turn."""
        active = [state for state in states if state.phase in _ACTIVE]
        if not active:
            return EMPTY
        keys = [(state.labels, state.phase) for state in active]
        if keys != list(self._pairs):
            self._pairs = {key: self._pairs.get(key) or _named(key) for key in keys}
            named = [labels for pair in self._pairs.values() for labels in pair]
            self._column = LabelColumn(tuple(named))
        values = np.ones(2 * len(active))
        values[1::2] = [state.active_at for state in active]
        return Vector(self._column, values)


def _named(key: _Key) -> tuple[Labels, Labels]:
    labels, phase = dict(key[0]), key[1].value
    alerts = labels_of({**labels, "alertstate": phase, NAME_LABEL: "ALERTS"})
    return alerts, labels_of({**labels, NAME_LABEL: "ALERTS_FOR_STATE"})


def recorded(rule: RecordingRule, vector: Vector) -> Vector:
    """Return the samples that a recording rule writes, named.

    Raises QueryError if two of them would be one series.
    """

    def rename(sets: tuple[Labels, ...]) -> LabelColumn | None:
        own = {**dict(rule.labels), NAME_LABEL: rule.name}
        renamed = tuple([labels_of({**dict(labels), **own}) for labels in sets])
        return LabelColumn(renamed) if len(set(renamed)) == len(renamed) else None

    labels = vector.labels.derived(("recorded", rule.name, rule.labels), rename)
    if labels is None:
        raise QueryError(f"{rule.name}: two samples with the same labels after recording")
    return Vector(labels, vector.values)
