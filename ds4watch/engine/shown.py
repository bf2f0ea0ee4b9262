"""The signals of the last wave as samples: made when somebody asks, and then once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ds4watch.model.scrape import Target
from ds4watch.model.series import FloatArray, Sample, labels_of
from ds4watch.vocabulary.names import PAGE_SIGNALS
from ds4watch.vocabulary.plan import PagePlan

TARGET_LABELS = ("profile", "worker")


@dataclass(frozen=True, slots=True)
class LastRow:
    """A target's newest good scrape: the page's values and, behind them, its signals."""

    target: Target
    plan: PagePlan
    values: FloatArray


@dataclass(slots=True)
class LazySamples:
    """Signals read from pages, then `own` ones; iterating makes the samples."""

    rows: Sequence[LastRow]
    own: Sequence[Sample] = ()
    _made: tuple[Sample, ...] | None = field(default=None)

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples; what is absent has none."""
        if self._made is None:
            self._made = (*(it for row in self.rows for it in _samples(row)), *self.own)
        return iter(self._made)


def _samples(row: LastRow) -> Iterator[Sample]:
    target = target_labels(row.target)
    for shown in row.plan.shown:
        value = float(row.values[shown.column])
        if value == value:  # noqa: PLR0124 - absent is a NaN; math.isnan takes a call each
            is_workers = "profile" in PAGE_SIGNALS[shown.name].labels
            labels = labels_of({**dict(shown.labels), **target}) if is_workers else shown.labels
            yield Sample(shown.name, labels, value)


def target_labels(target: Target) -> dict[str, str]:
    """Return the labels that name a worker; one without them is named after its target."""
    found = {name: value for name, value in target.labels if name in TARGET_LABELS}
    return found if "worker" in found else {**found, "worker": target.name}
