"""Every query of every dashboard: we can evaluate it, and it names what is exported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dashboards.build import PAGES
from dashboards.kit.views import Page, View
from ds4watch.model.series import NAME_LABEL
from ds4watch.promql.ast import Expr
from ds4watch.promql.parse import parse
from ds4watch.promql.selection import selectors_of
from ds4watch.promql.storage import Matcher, MatchOp
from ds4watch.vocabulary.known import KnownMetrics
from ds4watch.vocabulary.names import signal_of
from tests.dashboards import built_in, expressions, filled, used

EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
FILL = built_in(15, 900)


def parsed(expr: str) -> Expr:
    return parse(filled(expr, dict.fromkeys(used(expr), "x") | FILL))


def names_of(matchers: tuple[Matcher, ...]) -> tuple[str, ...]:
    (name,) = (it for it in matchers if it.name == NAME_LABEL)
    return tuple(name.value.split("|")) if name.op is MatchOp.REGEX else (name.value,)


def read(expr: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each metric that a query reads, and the labels it matches."""
    for selector in selectors_of(parsed(expr)):
        for name in names_of(selector.matchers):
            yield name, frozenset(it.name for it in selector.matchers) - {NAME_LABEL}


@EACH
def test_every_query_reads_metrics_that_are_known_and_labels_they_have(page: Page) -> None:
    count = 0
    for expr in expressions(page):
        for name, labels in read(expr):
            count += 1
            assert KnownMetrics().is_known(name), f"{name} in {expr}"
            signal = signal_of(name)
            if signal is not None:
                assert labels <= {*signal.labels, "le"}, expr
    assert count > 10


def is_on_metrics(expr: str) -> bool:
    """Return whether all that a query reads is on /metrics."""
    return all(signal_of(name) is not None for name, _ in read(expr))


@pytest.mark.parametrize(
    "view", [pytest.param(it, id=f"{page.name}: {it.title}") for page in PAGES for it in page.views]
)
def test_a_panel_says_if_it_needs_more_than_a_scrape_of_metrics(view: View) -> None:
    assert view.engine_series != all(is_on_metrics(query.expr) for query in view.queries)


@EACH
def test_marks_need_no_more_than_a_scrape_of_metrics(page: Page) -> None:
    own = {query.expr for view in page.views for query in view.queries}
    assert all(is_on_metrics(expr) for expr in expressions(page) if expr not in own)


@EACH
def test_variables_take_their_values_from_labels_that_there_are(page: Page) -> None:
    for variable in page.variables:
        signal = signal_of(variable.metric)
        assert signal is not None
        assert variable.name in signal.labels


def test_what_the_dashboards_promise_is_on_them() -> None:
    wanted = {
        "fleet": ("ds4_worker_state", "ds4_queue_depth", "ds4_degradation_level"),
        "worker": ("ds4_kv_usage_ratio", "ds4_queue_seconds_total", "ds4_vocabulary_missing"),
        "gateway": ("ds4_gateway_requests_total", "ds4_retry_count_total"),
        "cost": (
            "ds4_cost_per_hour",
            "ds4_cost_spent_total",
            "ds4_cost_hour_so_far",
            "ds4_cost_used_total",
        ),
        "quality": ("ds4_quantization_error", "ds4_quality_accuracy_drop_points"),
        "alerts": ("ds4_alerts", "ds4_actions_total", "ds4_notifications_total"),
    }
    assert set(wanted) == {page.name for page in PAGES}
    for page in PAGES:
        text = "\n".join(expressions(page))
        assert all(name in text for name in wanted[page.name]), page.name
