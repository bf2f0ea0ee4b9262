from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.model.errors import QueryError
from ds4watch.promql.parse import parse
from ds4watch.promql.render import render
from tests.unit.promql.promqltest import Case, steps_of

FILES = Path(__file__).resolve().parents[4] / "shared" / "promqltest"


@pytest.mark.parametrize(
    "text",
    [
        "(1 + 2) * 3 - 4 - (5 - 6)",
        "2 ^ 3 ^ 4",
        "(2 ^ 3) ^ 4",
        "-(a + b)",
        "(-a) ^ 2",
        'sum by (job, le) (rate(http_requests_total{job=~"a|b", code!="200"}[5m] offset 1h))',
        "quantile without (instance) (0.9, up)",
        "a / on (worker) group_left (model) b > bool 0.5",
        "a and ignoring (le) b unless c or d",
        "max_over_time((a > 5)[1h:1m] offset -5m)",
        "a @ 100 + b @ end()",
        '{__name__=~"a|b"}',
        'label_replace(up, "a", "$1\\n", "b", "(.*)")',
        "rate(a[1h30m500ms])",
    ],
)
def test_an_expression_comes_back_as_it_was(text: str) -> None:
    assert parse(render(parse(text))) == parse(text)


@pytest.mark.skipif(not FILES.is_dir(), reason="no ../shared/promqltest beside the repository")
def test_prometheus_own_expressions_come_back_as_they_were() -> None:
    count = 0
    for path in sorted(FILES.glob("*.test")):
        for step in steps_of(path):
            if not isinstance(step, Case):
                continue
            try:
                expr = parse(step.query)
            except QueryError:
                continue
            assert repr(parse(render(expr))) == repr(expr)  # NaN is not equal to itself
            count += 1
    assert count > 900
