"""A view as a panel of Grafana's."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import (
    common,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphTresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.kit.colours import thresholds, words_of
from dashboards.kit.links import runbook, to_worker
from dashboards.kit.tables import columns, merged
from dashboards.kit.views import Codes, Kind, View

SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_FIXED = "thresholds"
_LETTERS = "ABCDEFGHIJKL"
_ENGINES = "Reads the engines' own series, which a Prometheus has that scrapes the workers too."


def panel(view: View, number: int, place: GridPos) -> Any:
    """Return the panel's builder."""
    made = _MAKERS[view.kind](view)
    made.id(number).title(view.title).description(described(view)).datasource(SOURCE)
    made.grid_pos(place).unit(view.unit).thresholds(thresholds(view.alert)).no_value("no data")
    if view.codes is not Codes.NONE:
        made.mappings(words_of(view.codes))
    if view.decimals is not None:
        made.decimals(view.decimals)
    if view.alert:
        made.links([runbook(view.alert)])
    for letter, query in zip(_LETTERS, view.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
        target.ref_id(letter).datasource(SOURCE)
        if view.kind is Kind.TABLE:
            target.instant().format(PromQueryFormat.TABLE)
        else:
            target.range()
        made.with_target(target)
    return made


def described(view: View) -> str:
    """Return what a panel tells of itself."""
    parts = [view.text]
    if view.alert:
        parts.append(f"Coloured as the alert {view.alert} has it.")
    if view.engine_series:
        parts.append(_ENGINES)
    if view.may_be_empty:
        parts.append(f"Empty {view.may_be_empty}.")
    return " ".join(parts)


def _stat(view: View) -> Any:
    made = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    made.graph_mode(BigValueGraphMode.NONE if view.codes else BigValueGraphMode.AREA)
    is_coloured = bool(view.alert or view.codes)
    return made.color_mode(BigValueColorMode.VALUE if is_coloured else BigValueColorMode.NONE)


def _graph(view: View) -> Any:
    made = timeseries.Panel().fill_opacity(10).line_width(1).show_points(VisibilityMode.AUTO)
    made.legend(_legend()).tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    if not view.is_signed:
        made.min(0)
    if view.maximum is not None:
        made.axis_soft_max(view.maximum)
    if view.is_stacked:
        made.stacking(common.StackingConfig().mode(StackingMode.NORMAL)).fill_opacity(30)
    if view.alert:
        dashed = GraphTresholdsStyleMode.DASHED
        made.thresholds_style(common.GraphThresholdsStyleConfig().mode(dashed))
    return made.data_links([to_worker()]) if "{{worker}}" in _legends(view) else made


def _timeline(view: View) -> Any:
    made = statetimeline.Panel().merge_values(merge_values=True).show_value(VisibilityMode.AUTO)
    made.row_height(0.8).legend(_legend(shown=False))
    return made.data_links([to_worker()]) if "{{worker}}" in _legends(view) else made


def _table(view: View) -> Any:
    made = table.Panel().show_header(show_header=True)
    for change in merged(view):
        made.with_transformation(change)
    return made.overrides(columns(view))


def _legend(*, shown: bool = True) -> common.VizLegendOptions:
    made = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST)
    return made.placement(LegendPlacement.BOTTOM).show_legend(show_legend=shown)


def _legends(view: View) -> str:
    return " ".join(query.legend for query in view.queries)


_MAKERS = {
    Kind.STAT: _stat,
    Kind.GRAPH: _graph,
    Kind.TIMELINE: _timeline,
    Kind.TABLE: _table,
}
