"""Alerts and actions on the time axis, from series that every source has."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.kit.colours import TIERS
from dashboards.kit.panels import SOURCE
from ds4watch.model.alert import Tier

STEP = "5s"
"""Grafana looks once a minute if not told: most actions would be missed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is marked: times at which the query has a result; `title` takes its labels."""

    name: str
    expr: str
    colour: str
    title: str
    text: str
    is_on: bool = True


class MarkQuery(AnnotationQuery):
    """A query as Grafana's Prometheus source reads it; the SDK does not know these fields."""

    def __init__(self, mark: Mark) -> None:
        super().__init__(
            name=mark.name,
            datasource=SOURCE,
            enable=mark.is_on,
            icon_color=mark.colour,
            expr=mark.expr,
        )
        self._mark = mark

    def to_json(self) -> dict[str, object]:
        """Return what Grafana imports."""
        more = {"step": STEP, "titleFormat": self._mark.title, "textFormat": self._mark.text}
        return {**super().to_json(), **more}


class MarkBuilder(Builder[AnnotationQuery]):
    """What a dashboard's builder takes."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark

    def build(self) -> AnnotationQuery:
        """Return the query."""
        return MarkQuery(self._mark)


def _alerts(tier: Tier) -> Mark:
    return Mark(
        name=f"Alerts: {tier.value}",
        expr=f'ds4_alerts{{state="firing",severity="{tier.value}"}} > 0',
        colour=TIERS[tier],
        title="{{alertname}}",
        text="fires: {{severity}}",
        is_on=tier is not Tier.INFO,
    )


MARKS = (
    *(_alerts(tier) for tier in (Tier.CRITICAL, Tier.WARNING, Tier.INFO)),
    Mark(
        name="Level in force",
        # the value becomes a label, which a title can show
        expr='count_values by (pool) ("level", ds4_degradation_level > 0)',
        colour="purple",
        title="level {{level}}",
        text="degraded service in pool {{pool}}",
    ),
    Mark(
        name="Actions",
        expr="sum by (kind, status) (increase(ds4_actions_total[1m])) > 0",
        colour="light-blue",
        title="{{kind}}",
        text="{{status}} in the last minute",
    ),
)
