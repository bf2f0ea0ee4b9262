from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from ds4watch.vocabulary.names import TARGET_SERIES, signal_of

FOLDER = Path(__file__).resolve().parents[3] / "dashboards"
DASHBOARDS = sorted(FOLDER.glob("*.json"))


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            yield target["expr"]


def selectors(expression: Any) -> Iterator[Any]:
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if getattr(expression, name, None) is not None:
            yield from selectors(getattr(expression, name))
    for argument in getattr(expression, "args", ()) or ():
        yield from selectors(argument)


def test_the_committed_dashboard_is_what_its_program_makes() -> None:
    made = runpy.run_path(str(FOLDER / "build.py"))
    assert made["rendered"](made["fleet"]()) == (FOLDER / "fleet.json").read_text()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: str(path.name))
def test_queries_name_only_what_is_exported_and_labels_it_has(path: Path) -> None:
    known = {signal.name: signal for signal in TARGET_SERIES}
    count = 0
    for query in queries(json.loads(path.read_text())):
        found = list(selectors(promql_parser.parse(query)))
        assert found, query
        for selector in found:
            signal = signal_of(selector.name) or known.get(selector.name)
            assert signal is not None, f"{selector.name} in {query} is not exported"
            matched = {matcher.name for matcher in selector.matchers.matchers}
            assert matched <= {*signal.labels, "le"}, query
            count += 1
    assert count > 10


def test_what_the_fleet_overview_promises_is_on_it() -> None:
    dashboard = json.loads((FOLDER / "fleet.json").read_text())
    text = "\n".join(queries(dashboard))
    for name in (
        "ds4_worker_state",
        "ds4_queue_depth",
        "ds4_tokens_per_second",
        "ds4_cache_miss_ratio",
        "ds4_prefill_token_ratio",
        "ds4_cost_per_hour",
        "ds4_degradation_level",
    ):
        assert name in text


def test_panels_do_not_overlap_and_use_the_source_that_the_viewer_chose() -> None:
    dashboard = json.loads((FOLDER / "fleet.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        mine = {
            (place.get("x", 0) + across, place.get("y", 0) + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & mine, panel["title"]
        cells |= mine
        assert panel["datasource"]["uid"] == "${source}"
    assert max(across for across, _ in cells) < 24
    (variable,) = dashboard["templating"]["list"]
    assert (variable["name"], variable["query"]) == ("source", "prometheus")
