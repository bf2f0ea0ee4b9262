"""Scrapes: one page of one target at one instant, without an object for each sample."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.model.errors import EdgeReason
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, Labels

FLEET_GROUP = "fleet"
"""The group of the workers that the daemon tends itself."""
RULE_URL = "rule:"
RULE_PREFIX = "rule:"
"""What the names begin with of the pages that rules write: nobody serves them."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something to scrape. `labels` are added to each of its series (Prometheus' target labels).

    group: the target group whose interval, limits and credentials hold for it.
    """

    name: str
    url: str
    labels: Labels = ()
    group: str = FLEET_GROUP
    api_key_file: str | None = None
    """What holds the bearer token that it asks for, where its group has no credentials."""

    @property
    def is_scraped(self) -> bool:
        """False of the page of a rule: its series are no target's, and have no `up`."""
        return self.url != RULE_URL


@dataclass(frozen=True, slots=True)
class ScrapeFailure:
    """Why a scrape gave no samples."""

    reason: EdgeReason
    message: str


@dataclass(frozen=True, slots=True)
class ScrapeResult:
    """One scrape. `values` is aligned with the schema's series; empty when `failure` is set.

    `at` is the scrape's own start, in unix seconds. `values` has dtype float64, shape (series,).
    """

    target: Target
    at: UnixSeconds
    schema_id: int
    values: FloatArray
    failure: ScrapeFailure | None = None
    took_seconds: float = 0.0
    page_samples: int | None = None
    """Samples on the page itself, where signals derived from it stand behind them."""
    blind: bool = False
    """A page of a worker that has nothing of its engine: it is up, and says as little as a failed
    scrape of what was known of it."""
