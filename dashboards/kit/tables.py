"""Tables: queries joined to a row for each set of labels, with words and links in the cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    DashboardFieldConfigSourceOverrides,
    DataTransformerConfig,
    DynamicConfigValue,
    MatcherConfig,
)

from dashboards.kit.colours import thresholds, words_of
from dashboards.kit.links import RUNBOOKS, to_worker
from dashboards.kit.views import Codes, View


@dataclass(frozen=True, slots=True)
class Column:
    """What is special about a column, by its heading."""

    unit: str = "none"
    alert: str = ""
    codes: Codes = Codes.NONE
    decimals: int | None = None


COLUMNS: Mapping[str, Column] = {
    "state": Column(codes=Codes.PHASE),
    "highest alert": Column(codes=Codes.TIER),
    "KV cache": Column(unit="percentunit", alert="KvCachePressure", decimals=0),
    "cache misses": Column(unit="percentunit", alert="CacheMissHigh", decimals=0),
    "tokens/s": Column(decimals=0),
    "age": Column(unit="s", decimals=0),
}
_HIDDEN = ("Time", "__name__", "job", "instance")


def merged(view: View) -> tuple[DataTransformerConfig, ...]:
    """Return the steps from a table for each query to one, with headings."""
    letters = "ABCDEFGHIJKL"
    names = {f"Value #{it}": query.legend for it, query in zip(letters, view.queries, strict=False)}
    names["Value"] = view.queries[0].legend
    hidden = dict.fromkeys(_HIDDEN, True)
    return (
        DataTransformerConfig(id_val="merge", options={}),
        DataTransformerConfig(
            id_val="organize", options={"excludeByName": hidden, "renameByName": names}
        ),
    )


def columns(view: View) -> list[Builder[DashboardFieldConfigSourceOverrides]]:
    """Return what is special about the columns that a view has."""
    headings = {query.legend for query in view.queries}
    special = [_override(name, _shown(it)) for name, it in COLUMNS.items() if name in headings]
    return [
        *special,
        _override("worker", [_value("links", [to_worker("${__value.text}").build()])]),
        _override("alertname", [_value("links", [_runbook_of_row()])]),
    ]


def _runbook_of_row() -> dict[str, Any]:
    return {"title": "What to do", "url": f"${{{RUNBOOKS}}}/${{__value.text}}.md"}


def _shown(column: Column) -> list[DynamicConfigValue]:
    found = [_value("unit", column.unit)]
    if column.decimals is not None:
        found.append(_value("decimals", column.decimals))
    if column.alert:
        found.append(_value("thresholds", thresholds(column.alert).build()))
    if column.codes:
        found.append(_value("mappings", words_of(column.codes)))
    if column.alert or column.codes:
        found.append(_value("custom.cellOptions", {"type": "color-text"}))
    return found


def _override(
    name: str, values: list[DynamicConfigValue]
) -> Builder[DashboardFieldConfigSourceOverrides]:
    matcher = MatcherConfig(id_val="byName", options=name)
    return build.DashboardFieldConfigSourceOverrides().matcher(matcher).properties(values)


def _value(name: str, value: Any) -> DynamicConfigValue:
    return DynamicConfigValue(id_val=name, value=value)
