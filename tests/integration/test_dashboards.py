"""Every query of every dashboard, after a real run: on ds4watch, and on Prometheus twice.

One Prometheus was given our history: it answers with the same numbers. It is version 2, whose
windows are closed: queries lie at a fraction of a second at which nothing was sampled. The other
scraped `/metrics` meanwhile: there too no panel is empty that should hold data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from dashboards.build import PAGES
from dashboards.kit.views import Kind, Page, View
from tests.dashboards import built_in, filled, marks, panels, picked
from tests.integration.dashboard_run import Run, Series, Source, run

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.slow,
    pytest.mark.needs("prometheus", "promtool"),
    pytest.mark.timeout(300),
]

STEP = 1.0
TOLERANCE = 1e-6
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))


@pytest.fixture(scope="module")
def seen() -> Iterator[Run]:
    with run() as found:
        yield found


def fill(page: Page, source: Source, seen: Run) -> dict[str, str]:
    """Return what each variable stands for, with all of its values picked."""
    values = built_in(STEP, seen.end - seen.start)
    for variable in page.variables:
        names = source.values(variable.metric, variable.name, seen.start, seen.end)
        assert names, variable.query
        values[variable.name] = names[0] if variable.is_one else picked(names)
    return values


def answers(view: View, source: Source, values: dict[str, str], seen: Run) -> list[Series]:
    """Return what a panel shows of the time from when all series were there."""
    queries = [filled(query.expr, values) for query in view.queries]
    if view.kind is Kind.TABLE:
        return [source.instant(query, seen.end) for query in queries]
    return [source.range(query, seen.settled, seen.end, STEP) for query in queries]


def shows(results: list[Series]) -> bool:
    """Return whether there is a number to be seen."""
    points = (points for series in results for points in series.values())
    return any(not math.isnan(value) for it in points for value in it.values())


def different(mine: Series, theirs: Series) -> list[str]:
    """Return where two results are not the same numbers."""
    found = [f"only one has {dict(labels)}" for labels in mine.keys() ^ theirs.keys()]
    for labels in mine.keys() & theirs.keys():
        one, other = mine[labels], theirs[labels]
        found += [f"{dict(labels)}: only one has {at}" for at in one.keys() ^ other.keys()]
        found += [
            f"{dict(labels)} at {at}: {one[at]!r}, in Prometheus {other[at]!r}"
            for at in one.keys() & other.keys()
            if not same(one[at], other[at])
        ]
    return found


def evenly(series: Series, seen: Run, window_seconds: float) -> Series:
    """Return the points whose windows begin where samples come evenly: not all, if busy."""
    return {
        labels: {at: value for at, value in points.items() if seen.is_even(at, window_seconds)}
        for labels, points in series.items()
    }


def same(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-9)


@EACH
def test_the_numbers_are_those_of_a_prometheus_that_was_given_our_history(
    page: Page, seen: Run
) -> None:
    values = fill(page, seen.ours, seen)
    assert values == fill(page, seen.imported, seen)
    window = float(values["__rate_interval"].removesuffix("s"))
    wrong = {}
    for view, _ in panels(page):
        pairs = zip(
            answers(view, seen.ours, values, seen),
            answers(view, seen.imported, values, seen),
            strict=True,
        )
        for query, (mine, theirs) in zip(view.queries, pairs, strict=True):
            told = different(evenly(mine, seen, window), evenly(theirs, seen, window))
            if told:
                wrong[view.title, filled(query.expr, values)] = told[:3]
    assert not wrong, "\n".join(f"{where}: {told}" for where, told in wrong.items())


@EACH
def test_no_panel_is_empty_that_should_hold_data(page: Page, seen: Run) -> None:
    values = fill(page, seen.ours, seen)
    empty = [
        view.title
        for view, _ in panels(page)
        if not view.may_be_empty and not shows(answers(view, seen.ours, values, seen))
    ]
    assert not empty


@EACH
def test_nor_is_one_on_a_prometheus_that_scrapes_our_page(page: Page, seen: Run) -> None:
    values = fill(page, seen.live, seen)
    empty = [
        view.title
        for view, _ in panels(page)
        if not shows(answers(view, seen.live, values, seen))
        and not (view.may_be_empty or view.engine_series)
    ]
    assert not empty


@EACH
def test_the_choice_of_everything_shows_no_less(page: Page, seen: Run) -> None:
    several = fill(page, seen.ours, seen)
    everything = several | {it.name: ".*" for it in page.variables if not it.is_one}
    for view, _ in panels(page):
        pairs = zip(
            answers(view, seen.ours, several, seen),
            answers(view, seen.ours, everything, seen),
            strict=True,
        )
        assert not [told for mine, theirs in pairs for told in different(mine, theirs)], view.title


@pytest.mark.parametrize("where", ["ours", "imported", "live"])
def test_alerts_level_and_actions_are_marked_on_the_time_axis(where: str, seen: Run) -> None:
    source: Source = getattr(seen, where)
    found = {
        mark["name"]: source.range(mark["expr"], seen.start, seen.end, STEP)
        for mark in marks(PAGES[0])
    }
    names = {dict(labels)["alertname"] for labels in found["Alerts: critical"]}
    assert "QueueHigh" in names
    assert "WorkerBusy" in {dict(labels)["alertname"] for labels in found["Alerts: warning"]}
    levels = {dict(labels)["level"] for labels in found["Level in force"]}
    assert "2" in levels
    assert (("kind", "set_level"), ("status", "applied")) in found["Actions"]
    moments = [at for series in found["Level in force"].values() for at in series]
    assert min(moments) > seen.start
    assert max(moments) < seen.end, "the level was taken back"


def test_enough_of_the_run_was_even_to_be_compared(seen: Run) -> None:
    steps = [seen.settled + it for it in range(int(seen.end - seen.settled))]
    assert sum(seen.is_even(at, 4) for at in steps) >= 5


def test_alerts_are_the_same_everywhere(seen: Run) -> None:
    query = 'max by (alertname) (ds4_alerts{state="firing",severity="critical"})'
    for source in (seen.ours, seen.live):
        series = source.range(query, seen.start, seen.end, STEP)
        firing = series[("alertname", "QueueHigh"),]
        assert set(firing.values()) == {0.0, 1.0}
