"""Colours and words for states: one meaning has one colour on every dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import (
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

from dashboards.kit.limits import Limit, limits_of
from dashboards.kit.views import Codes
from ds4watch.model.alert import Tier
from ds4watch.model.worker import WorkerPhase

GOOD = "green"
TIERS: Mapping[Tier, str] = {
    Tier.NONE: "green",
    Tier.INFO: "blue",
    Tier.WARNING: "orange",
    Tier.CRITICAL: "red",
}
_PHASES: Mapping[WorkerPhase, str] = {
    WorkerPhase.ABSENT: "text",
    WorkerPhase.STARTING: "light-blue",
    WorkerPhase.LOADING: "blue",
    WorkerPhase.WARMING: "dark-blue",
    WorkerPhase.READY: "green",
    WorkerPhase.ASLEEP: "purple",
    WorkerPhase.DRAINING: "yellow",
    WorkerPhase.STOPPING: "light-orange",
    WorkerPhase.FAILED: "red",
    WorkerPhase.QUARANTINED: "dark-red",
    WorkerPhase.UNKNOWN: "orange",
}
_OVER_ZERO = 1e-9
"""Rules say `> 0`, Grafana colours from a step on, itself included."""
_LEVELS = ("green", "yellow", "orange", "dark-orange", "red", "dark-red")


def words_of(codes: Codes) -> list[ValueMap]:
    """Return what the numbers of a view are shown as."""
    if codes is Codes.PHASE:
        found = {str(it.code): (it.value, _PHASES[it]) for it in WorkerPhase}
    elif codes is Codes.TIER:
        found = {str(it.rank): (it.value, TIERS[it]) for it in Tier}
    elif codes is Codes.ALERT:
        found = {"0": ("quiet", GOOD), "1": ("pending", "yellow"), "2": ("firing", "red")}
    elif codes is Codes.LEVEL:
        found = {str(n): (f"level {n}" if n else "normal", it) for n, it in enumerate(_LEVELS)}
    else:
        return []
    results = {
        value: ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(found.items())
    }
    return [ValueMap(results)]


def thresholds(alert: str) -> build.ThresholdsConfig:
    """Return the steps of an alert's tiers; without an alert one colour for all values."""
    limits = limits_of(alert) if alert else ()
    return build.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(_steps(limits))


def _steps(limits: tuple[Limit, ...]) -> list[Threshold]:
    """Return colours from below upwards: under a floor it is bad, over it good."""
    if not limits:
        return [Threshold(value=None, color=GOOD)]
    if limits[0].is_floor:
        uppers = [*(TIERS[it.tier] for it in limits[1:]), GOOD]
        steps = [Threshold(it.value, colour) for it, colour in zip(limits, uppers, strict=True)]
        return [Threshold(value=None, color=TIERS[limits[0].tier]), *steps]
    return [
        Threshold(value=None, color=GOOD),
        *(Threshold(it.value or _OVER_ZERO, TIERS[it.tier]) for it in limits),
    ]
