from __future__ import annotations

from pathlib import Path

from ds4watch.model.series import Schema, SeriesKey
from ds4watch.scrape.exposition import Page, PageReader

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "metrics"
SHARED = ROOT.parent / "shared" / "metrics"

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Schemas:
    """Interns in memory, as the history does in its store."""

    def __init__(self) -> None:
        self.made: dict[tuple[SeriesKey, ...], Schema] = {}

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        return self.made.setdefault(series, Schema(len(self.made) + 1, series))


def read(text: str, content_type: str = TEXT) -> Page:
    """Read a page as one that was never seen before."""
    return PageReader(Schemas()).read(text.encode(), content_type, "w")


def as_dict(page: Page) -> dict[SeriesKey, float]:
    assert page.values.dtype == float
    assert page.values.shape == (len(page.schema.series),)
    return dict(zip(page.schema.series, page.values.tolist(), strict=True))


def key(name: str, **labels: str) -> SeriesKey:
    return SeriesKey(name, tuple(sorted(labels.items())))
