"""Reading a worker's page: ours against prometheus-client's parser, in CPU time.

python benchmarks/bench_parse.py [page]; the last line is `ratio=` ours ÷ theirs.
"""

from __future__ import annotations

import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ds4watch.model.series import Schema, SeriesKey
from ds4watch.scrape.exposition import PageReader

PAGE = Path(__file__).resolve().parents[1] / "tests/data/metrics/vllm-0.32-cpu-loaded.prom"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROUNDS = 60
SHARES_CHANGED = (0.0, 0.15, 1.0)
"""Shares of lines with a new number: an idle worker, a busy one, the worst case."""
TYPICAL = 0.15


class Schemas:
    """Interns in memory."""

    def __init__(self) -> None:
        self._made: dict[tuple[SeriesKey, ...], Schema] = {}

    def intern(self, series: tuple[SeriesKey, ...]) -> Schema:
        return self._made.setdefault(series, Schema(len(self._made) + 1, series))


def pages(text: str, share: float) -> list[str]:
    """Return the page as it would look over ROUNDS scrapes."""
    dice = random.Random(1)

    def moved(line: re.Match[str]) -> str:
        if dice.random() >= share:
            return line[0]
        return f"{line[1]} {dice.uniform(0, 1e6)}"

    found = [text]
    for _ in range(ROUNDS):
        found.append(re.sub(r"(?m)^([^#\n].*) \S+$", moved, found[-1]))
    return found


def median_ms(read: Callable[[str], object], texts: list[str]) -> float:
    """Return the median CPU time of reading a page, the first (which fills tables) left out."""
    taken = []
    for text in texts:
        begun = time.process_time_ns()
        read(text)
        taken.append((time.process_time_ns() - begun) / 1e6)
    return statistics.median(taken[1:])


def theirs(text: str) -> int:
    return sum(len(family.samples) for family in text_string_to_metric_families(text))


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    text = path.read_text()
    print(f"{path.name}: {len(text) / 1024:.0f} KiB, {theirs(text)} samples, {ROUNDS} scrapes")
    library = median_ms(theirs, pages(text, TYPICAL))
    print(f"prometheus-client: {library:.3f} ms a page")
    ratio = 0.0
    for share in SHARES_CHANGED:
        reader = PageReader(Schemas())
        ours = median_ms(
            lambda page, reader=reader: reader.read(page.encode(), CONTENT_TYPE, "w"),  # type: ignore[misc]
            pages(text, share),
        )
        print(f"ours, {share:4.0%} of lines changed: {ours:.3f} ms a page, {ours / library:.4f}")
        if share == TYPICAL:
            ratio = ours / library
    print(f"ratio={ratio:.4f}")


if __name__ == "__main__":
    main()
