"""What rules write as series, as the store keeps it: a page for each rule, served by nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ds4watch.engine.round_storage import Written
from ds4watch.model.alert import AlertRule, RecordingRule
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import RULE_PREFIX, RULE_URL, ScrapeResult, Target
from ds4watch.model.series import NAME_LABEL, STALE_NAN, FloatArray, Labels, Schema, SeriesKey
from ds4watch.promql.columns import NO_LABELS, IndexArray, LabelColumn

RULE_GROUP: Final = "rules"
_SPARE = 64
_NAME_LIMIT = 200

Intern = Callable[[tuple[SeriesKey, ...]], Schema]


def page_name(rule: AlertRule | RecordingRule) -> str:
    """Return what a rule's page is called: the same for the same name and labels."""
    digest = hashlib.sha256(repr(rule.labels).encode()).hexdigest()[:8]
    return f"{RULE_PREFIX}{rule.name[:_NAME_LIMIT]}/{digest}"


@dataclass(slots=True)
class _Page:
    """A rule's series so far, each with its place; those that are over keep theirs for a while.

    Alerts come and go, and a list of series is stored for each set of them: it only grows, so
    that there are no more lists than series, until most of it is over.
    """

    target: Target
    places: dict[SeriesKey, int] = field(default_factory=dict)
    column: LabelColumn = NO_LABELS
    at: IndexArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    schema: Schema | None = None

    def place(self, column: LabelColumn, intern: Intern) -> Schema:
        """Give each series of a column its place."""
        if column is not self.column or self.schema is None:
            keys = [_key(labels) for labels in column]
            if len(self.places) > 2 * len(keys) + _SPARE:
                self.places.clear()
            places = [self.places.setdefault(key, len(self.places)) for key in keys]
            self.at = np.array(places, dtype=np.intp)
            self.column = column
            self.schema = intern(tuple(self.places))
        return self.schema


class RulePages:
    """Makes a scrape of what each rule wrote; markers stand where series are over.

    stored: names of pages that have a past, which ends where nothing is written now.
    """

    def __init__(self, intern: Intern, stored: Collection[str] = ()) -> None:
        self._intern = intern
        self._stored = stored
        self._pages: dict[str, _Page] = {}

    def scrapes(self, written: Iterable[Written], at: UnixSeconds) -> list[ScrapeResult]:
        """Return the pages that rules wrote to at `at`."""
        return [self._scrape(one, at) for one in written if self._says_anything(one)]

    def ended(self, at: UnixSeconds) -> list[ScrapeResult]:
        """Return an empty page for each that is stored: all their series are over."""
        return self.scrapes((Written(name, NO_LABELS, np.empty(0)) for name in self._stored), at)

    def _says_anything(self, one: Written) -> bool:
        return len(one.labels) > 0 or one.producer in self._pages or one.producer in self._stored

    def _scrape(self, one: Written, at: UnixSeconds) -> ScrapeResult:
        page = self._pages.get(one.producer)
        if page is None:
            page = self._pages[one.producer] = _Page(_target(one.producer))
        schema = page.place(one.labels, self._intern)
        values: FloatArray = np.full(len(schema.series), STALE_NAN)
        values[page.at] = one.values
        return ScrapeResult(page.target, at, schema.id, values)


def _target(name: str) -> Target:
    return Target(name=name, url=RULE_URL, group=RULE_GROUP)


def _key(labels: Labels) -> SeriesKey:
    name = next(value for label, value in labels if label == NAME_LABEL)
    return SeriesKey(name, tuple([pair for pair in labels if pair[0] != NAME_LABEL]))
