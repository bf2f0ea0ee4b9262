"""Which stored series matchers choose: target by target, worked out once for each page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ds4watch.history.frames import IndexArray, Pick
from ds4watch.history.live_labels import merged_labels
from ds4watch.history.live_shelf import SCRAPE_SERIES
from ds4watch.history.matching import Predicate, predicate
from ds4watch.model.scrape import Target
from ds4watch.model.series import NAME_LABEL, Labels, Schema, SeriesKey
from ds4watch.promql.storage import Matcher

_EXPORTED = "exported_"


class Chosen(NamedTuple):
    """Series of a target on one page: their places among those picked, and their labels."""

    places: IndexArray
    labels: tuple[Labels, ...]


@dataclass(slots=True, eq=False)
class Choice:
    """The series that `matchers` choose.

    picking: the matchers that pages alone decide, as text, by which series are picked in all
    targets: what is read for equal ones is the same. own: places in SCRAPE_SERIES.
    """

    matchers: tuple[Matcher, ...]
    picking: str
    pick: Pick
    own: tuple[int, ...]
    _matches: Predicate
    _chosen: dict[tuple[Labels, int], Chosen] = field(default_factory=dict)

    def wants(self, target: Target) -> bool:
        """Say whether series of a target may be among them."""
        labels = dict(target.labels)
        return all(predicate([one])(labels) for one in self.matchers if one.name in labels)

    def of_page(self, target: Target, schema: Schema) -> Chosen:
        """Return the series of a target's page."""
        known = self._chosen.get((target.labels, schema.id))
        if known is None:
            keys = [schema.series[place] for place in self._picked(schema).tolist()]
            known = self._chosen[(target.labels, schema.id)] = self._choose(keys, target)
        return known

    def picks(self, schema: Schema, places: IndexArray) -> bool:
        """Say whether `places` are all that is picked of a page, in order."""
        return np.array_equal(places, np.arange(len(self._picked(schema))))

    def of_scrapes(self, target: Target) -> Chosen:
        """Return what of `up` and its kin is chosen, as places in SCRAPE_SERIES."""
        own = self.own if target.is_scraped else ()
        found = self._choose([SeriesKey(SCRAPE_SERIES[place]) for place in own], target)
        return Chosen(np.array(own, dtype=np.intp)[found.places], found.labels)

    def _picked(self, schema: Schema) -> IndexArray:
        picked = self.pick(schema)
        assert picked is not None
        return picked

    def _choose(self, keys: Sequence[SeriesKey], target: Target) -> Chosen:
        labels = [merged_labels(key.name, key.labels, target.labels) for key in keys]
        places = [place for place, one in enumerate(labels) if self._matches(dict(one))]
        return Chosen(np.array(places, dtype=np.intp), tuple(labels[place] for place in places))


def choice_of(matchers: Sequence[Matcher], target_labels: Collection[str]) -> Choice:
    """Return a choice. `target_labels` are all names that any target's own labels have.

    Raises QueryError on a bad regex.
    """
    picking = tuple(
        one
        for one in matchers
        if one.name not in target_labels and not one.name.startswith(_EXPORTED)
    )
    matches = predicate(picking)

    def keep(key: SeriesKey) -> bool:
        return matches({NAME_LABEL: key.name, **dict(key.labels)})

    own = tuple(n for n, name in enumerate(SCRAPE_SERIES) if keep(SeriesKey(name)))
    return Choice(tuple(matchers), repr(picking), Pick(keep), own, predicate(matchers))
