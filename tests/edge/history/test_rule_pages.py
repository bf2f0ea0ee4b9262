"""What rules write as series: in the history, in range queries, and in memory after a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ds4watch.engine.round_storage import Written
from ds4watch.engine.rule_pages import RulePages, page_name
from ds4watch.history.live import LiveBuffer
from ds4watch.history.range_reader import StoredRanges
from ds4watch.history.samples import SampleStore
from ds4watch.model.alert import AlertRule, RecordingRule
from ds4watch.promql.columns import NO_LABELS, LabelColumn
from ds4watch.promql.evaluate_range import evaluate_range
from ds4watch.promql.parse import parse
from ds4watch.promql.storage import Matcher, MatchOp
from tests.edge.clock import SystemClock
from tests.unit.promql.memory import named

NOW = 1_800_000_000.0
RULE = page_name(RecordingRule("g", "twice", "2 * load"))
MATCHER = Matcher("__name__", MatchOp.EQUAL, "twice")
ALERTS = page_name(AlertRule("g", "High", "load > 1", labels=(("severity", "warning"),)))


def written(page: str, values: Mapping[str, float], name: str = "twice") -> Written:
    """One series for each value of the label x."""
    column = LabelColumn(tuple(named(name, x=x) for x in values))
    return Written(page, column, np.array(list(values.values()), dtype=np.float64))


class History:
    """A store that rules write to, read by range queries and by a daemon that starts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "samples.db"

    async def take(self, rounds: Sequence[tuple[float, Sequence[Written]]]) -> int:
        """Store rounds, as one daemon; return how many lists of series that took."""
        store = SampleStore.open(self.path, SystemClock())
        pages = RulePages(store.intern, [it for it in await store.targets() if it == RULE])
        shown = set()
        for at, one in rounds:
            results = pages.scrapes(one, NOW + at)
            shown |= {result.schema_id for result in results}
            await store.append(results)
        await store.close()
        return len(shown)

    def ask(self, text: str, end: float) -> dict[str, list[tuple[float, float]]]:
        """Return a range query's answer each second from NOW on, by the label x."""
        with closing(StoredRanges(self.path)) as ranges:
            found = evaluate_range(parse(text), ranges, NOW, NOW + end, 1.0)
        return {
            dict(labels).get("x", ""): [
                (at, value)
                for at, value in enumerate(found.values[row].tolist())
                if found.there[row, at]
            ]
            for row, labels in enumerate(found.labels)
        }

    async def restart(self, *names: str, now: float) -> LiveBuffer:
        """Return the memory of a daemon whose rules select `names`."""
        live = LiveBuffer(window_seconds=900.0, windows=dict.fromkeys(names, 300.0))
        store = SampleStore.open(self.path, SystemClock())
        await live.reload(store, NOW + now)
        await store.close()
        return live


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


async def test_a_series_that_a_rule_no_longer_writes_ends_in_range_queries(
    history: History,
) -> None:
    await history.take(
        [
            (0, [written(RULE, {"a": 1, "b": 2})]),
            (1, [written(RULE, {"b": 3})]),
            (2, [written(RULE, {"a": 4, "b": 5})]),
            (3, [Written(RULE, NO_LABELS, np.empty(0))]),
        ]
    )
    assert history.ask("twice", 4) == {"a": [(0, 1), (2, 4)], "b": [(0, 2), (1, 3), (2, 5)]}


async def test_nothing_says_that_a_rule_is_up(history: History) -> None:
    await history.take([(0, [written(RULE, {"a": 1})])])
    assert history.ask("up", 1) == {}
    live = await history.restart("twice", "up", now=1)
    assert live.newest("up") == []
    assert live.newest("twice") == [((("x", "a"),), 1.0)]


async def test_one_rule_ends_nothing_that_another_one_writes(history: History) -> None:
    await history.take(
        [
            (0, [written(RULE, {"a": 1}), written(ALERTS, {"z": 1}, "ALERTS")]),
            (1, [written(RULE, {"a": 2})]),
        ]
    )
    assert history.ask("twice or ALERTS", 1) == {"a": [(0, 1), (1, 2)], "z": [(0, 1), (1, 1)]}


async def test_a_series_that_two_rules_wrote_one_after_the_other_is_one(history: History) -> None:
    await history.take(
        [
            (0, [written(RULE, {"a": 1, "b": 1})]),
            (1, [Written(RULE, NO_LABELS, np.empty(0)), written(f"{RULE}/2", {"a": 2, "c": 2})]),
        ]
    )
    assert history.ask("twice", 1) == {"a": [(0, 1), (1, 2)], "b": [(0, 1)], "c": [(1, 2)]}
    assert history.ask("sum(twice)", 1) == {"": [(0, 2), (1, 4)]}


async def test_alerts_that_come_and_go_make_few_lists_of_series(history: History) -> None:
    rounds = [(at, [written(RULE, {str(at % 7): 1.0})]) for at in range(100)]
    assert await history.take(rounds) == 7
    many = [(100 + at, [written(RULE, {f"n{at}": 1.0})]) for at in range(300)]
    await history.take(many)
    store = SampleStore.open(history.path, SystemClock())
    last = await store.last(RULE)
    assert last is not None
    assert len(last.values) < 100
    await store.close()


async def test_after_a_restart_rules_read_what_rules_wrote_and_it_goes_on(
    history: History,
) -> None:
    await history.take([(at, [written(RULE, {"a": at, "b": at})]) for at in range(5)])
    live = await history.restart("twice", now=6)
    assert dict(live.newest("twice")) == {(("x", "a"),): 4.0, (("x", "b"),): 4.0}
    page = written(RULE, {"a": 7})
    live.write(RULE, page.labels, page.values, NOW + 7)
    assert live.newest("twice") == [((("x", "a"),), 7.0)]
    await history.take([(7, [page])])
    assert history.ask("twice", 8)["b"][-1] == (6, 4)


async def test_what_was_there_before_the_restart_and_is_not_now_ends(history: History) -> None:
    await history.take([(0, [written(RULE, {"a": 1})])])
    nothing = Written(RULE, NO_LABELS, np.empty(0))
    await history.take([(3, [nothing])])
    assert history.ask("twice", 5)["a"] == [(0, 1), (1, 1), (2, 1)]
    live = await history.restart("twice", now=6)
    assert live.newest("twice") == []


async def test_a_rule_without_a_past_that_writes_nothing_takes_no_room(history: History) -> None:
    await history.take([(0, [Written(RULE, NO_LABELS, np.empty(0))])])
    store = SampleStore.open(history.path, SystemClock())
    assert await store.targets() == []
    await store.close()


def test_what_is_missing_for_want_of_a_scrape_is_missed_until_it_is_back() -> None:
    live = LiveBuffer(window_seconds=900.0, windows={"twice": 300.0})
    both, one = (LabelColumn(tuple(named("twice", x=x) for x in xs)) for xs in ("ab", "a"))
    missing = []
    for at, column, incomplete in [
        (0, both, False),
        (1, one, True),
        (2, one, True),
        (3, both, False),
        (4, one, False),
    ]:
        live.write(RULE, column, np.ones(len(column)), NOW + at, incomplete=incomplete)
        found = live.latest([MATCHER], NOW + at - 300, NOW + at)
        missing.append([dict(it)["x"] for it in found.missing])
    assert missing == [[], ["b"], ["b"], [], []]
