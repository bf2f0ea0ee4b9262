"""The committed dashboards: what the program makes, whole, and one like the other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.build import FOLDER, PAGES
from dashboards.kit.colours import words_of
from dashboards.kit.frame import rendered
from dashboards.kit.limits import RULES, limits_of, rules
from dashboards.kit.views import Codes, Kind, Page, View
from ds4watch.model.alert import Tier
from ds4watch.model.worker import WorkerPhase
from tests.dashboards import OF_GRAFANA, document, expressions, marks, panels, path_of, used

EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
COLUMNS = 24
_OF_THE_SDK_UNKNOWN = ("step", "titleFormat", "textFormat")


def texts(value: Any) -> list[str]:
    """Return every text in a document."""
    if isinstance(value, dict):
        return [text for it in value.values() for text in texts(it)]
    if isinstance(value, list):
        return [text for it in value for text in texts(it)]
    return [value] if isinstance(value, str) else []


@EACH
def test_the_committed_json_is_what_the_program_makes(page: Page) -> None:
    assert rendered(page) == path_of(page).read_text(encoding="utf-8"), (
        "run `python -m dashboards.build`"
    )


def test_no_other_json_lies_about() -> None:
    assert {path.stem for path in FOLDER.rglob("*.json")} == {page.name for page in PAGES}
    assert len({page.uid for page in PAGES}) == len(PAGES)


@EACH
def test_grafanas_own_types_read_it_and_give_it_back(page: Page) -> None:
    written = document(page)
    for mark in written["annotations"]["list"]:
        for name in _OF_THE_SDK_UNKNOWN:
            assert mark.pop(name)
    again = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert again == written


@EACH
def test_each_panel_says_what_it_shows_and_in_what_unit(page: Page) -> None:
    for view, panel in panels(page):
        assert panel["title"] == view.title
        assert panel["description"].endswith("."), view.title
        assert panel["fieldConfig"]["defaults"]["unit"], view.title
        assert panel["targets"], view.title
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs)) == len(view.queries)
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${source}"}


@EACH
def test_ids_are_unique_and_panels_fill_the_grid_without_overlap(page: Page) -> None:
    found = document(page)["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    cells: set[tuple[int, int]] = set()
    for panel in found:
        place = panel["gridPos"]
        across, down = place.get("x", 0), place.get("y", 0)
        mine = {(across + x, down + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & mine, panel["title"]
        cells |= mine
    rows = 1 + max(down for _, down in cells)
    assert len(cells) == rows * COLUMNS, "a gap"
    assert {across for across, _ in cells} == set(range(COLUMNS))


@EACH
def test_each_variable_that_is_used_is_there_and_each_that_is_there_is_used(page: Page) -> None:
    written = document(page)
    there = {variable["name"] for variable in written["templating"]["list"]}
    needed = {name for text in texts(written) for name in used(text)}
    assert {name for name in needed if not name.startswith("__")} == there
    of_grafana = {name for expr in expressions(page) for name in used(expr)} - there
    assert of_grafana <= OF_GRAFANA


@EACH
def test_the_viewer_chooses_the_source_and_goes_on_to_other_dashboards(page: Page) -> None:
    written = document(page)
    source = written["templating"]["list"][0]
    assert (source["name"], source["type"], source["query"]) == (
        "source",
        "datasource",
        "prometheus",
    )
    (link,) = written["links"]
    assert link["tags"] == ["ds4watch"]
    assert link["keepTime"]
    assert link["includeVars"]
    assert "ds4watch" in written["tags"]


@EACH
def test_series_of_workers_link_to_the_worker(page: Page) -> None:
    (target,) = (it.uid for it in PAGES if it.name == "worker")
    for view, panel in panels(page):
        of_workers = any("{{worker}}" in query.legend for query in view.queries)
        if of_workers and view.kind in (Kind.GRAPH, Kind.TIMELINE):
            (link,) = panel["fieldConfig"]["defaults"]["links"]
            assert f"/d/{target}?var-worker=${{__field.labels.worker}}" in link["url"]


def steps_of(panel: dict[str, Any]) -> list[tuple[float | None, str]]:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return [(step["value"], step["color"]) for step in steps]


ALERTED = [
    pytest.param(view, panel, id=f"{page.name}: {view.title}")
    for page in PAGES
    for view, panel in panels(page)
    if view.alert
]


@pytest.mark.parametrize(("view", "panel"), ALERTED)
def test_thresholds_are_those_of_the_rules(view: View, panel: dict[str, Any]) -> None:
    texts_of = [
        " ".join(rule["expr"].split())
        for path in RULES.glob("*.yml")
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if rule.get("alert") == view.alert
    ]
    values = [value for value, _ in steps_of(panel) if value is not None]
    assert values
    for value in values:
        number = re.escape(f"{value:g}") if value > 1e-6 else "0"
        assert any(re.search(rf"[<>] {number}\b", text) for text in texts_of), (value, texts_of)
    assert len(values) == len(limits_of(view.alert))


@pytest.mark.parametrize(("view", "panel"), ALERTED)
def test_an_alert_has_a_runbook_and_the_panel_leads_to_it(
    view: View, panel: dict[str, Any]
) -> None:
    (link,) = panel["links"]
    assert link["url"] == f"${{runbooks}}/{view.alert}.md"
    assert (Path(FOLDER).parent / "docs" / "runbooks" / f"{view.alert}.md").exists()


def test_what_is_under_a_floor_is_bad_and_what_is_over_it_good() -> None:
    (panel,) = (p for it in PAGES for view, p in panels(it) if view.alert == "DraftAcceptanceLow")
    assert steps_of(panel) == [(None, "orange"), (0.3, "blue"), (0.5, "green")]


def test_a_rule_that_compares_with_nothing_fixed_is_refused_as_a_threshold() -> None:
    with pytest.raises(ValueError, match="no rule named TokenRateCollapsed has a threshold"):
        limits_of("TokenRateCollapsed")


def test_every_state_has_a_word_and_a_colour_of_its_own() -> None:
    for codes, wanted in (
        (Codes.PHASE, {str(it.code): it.value for it in WorkerPhase}),
        (Codes.TIER, {str(it.rank): it.value for it in Tier}),
    ):
        (words,) = words_of(codes)
        assert {value: it.text for value, it in words.options.items()} == wanted
        assert len({it.color for it in words.options.values()}) == len(wanted)


@EACH
def test_alerts_level_and_actions_are_marked_on_the_time_axis(page: Page) -> None:
    found = {mark["name"]: mark for mark in marks(page)}
    tiers = {f"Alerts: {tier.value}" for tier in Tier if tier is not Tier.NONE}
    assert set(found) == {*tiers, "Level in force", "Actions"}
    assert all(mark["datasource"]["uid"] == "${source}" for mark in found.values())


def test_the_rules_that_thresholds_are_read_from_are_those_that_ship() -> None:
    assert {"QueueDepthHigh", "LatencyHigh", "Watchdog"} <= {rule.name for rule in rules()}


def test_grafana_is_told_where_ds4watch_is_and_where_the_files_are() -> None:
    folder = FOLDER / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources/ds4watch.yml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://127.0.0.1:9464")
    (provider,) = yaml.safe_load((folder / "dashboards/ds4watch.yml").read_text())["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"] in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_every_dashboard() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+)\.json`", text)) == {it.name for it in PAGES}
