"""What alerting itself writes as series: ALERTS, ALERTS_FOR_STATE, recording rules."""

from __future__ import annotations

from collections.abc import Iterable

from ds4watch.model.alert import AlertPhase, AlertState, Evaluation, RecordingRule
from ds4watch.model.errors import QueryError
from ds4watch.model.series import Sample, labels_of

_ACTIVE = (AlertPhase.PENDING, AlertPhase.FIRING)


def alert_samples(states: Iterable[AlertState]) -> tuple[Sample, ...]:
    """Return ALERTS (1, with `alertstate`) and ALERTS_FOR_STATE (since when) of active alerts."""
    samples: list[Sample] = []
    for state in states:
        if state.phase in _ACTIVE:
            labels = labels_of(dict(state.labels) | {"alertstate": state.phase.value})
            samples.append(Sample("ALERTS", labels, 1.0))
            samples.append(Sample("ALERTS_FOR_STATE", state.labels, state.active_at))
    return tuple(samples)


def recorded_samples(rule: RecordingRule, evaluation: Evaluation) -> tuple[Sample, ...]:
    """Return the samples that a recording rule writes.

    Raises QueryError if two of them would be one series.
    """
    samples = tuple(
        Sample(rule.name, labels_of(dict(sample.labels) | dict(rule.labels)), sample.value)
        for sample in evaluation.samples
    )
    if len({sample.labels for sample in samples}) != len(samples):
        raise QueryError(f"{rule.name}: two samples with the same labels after recording")
    return samples
