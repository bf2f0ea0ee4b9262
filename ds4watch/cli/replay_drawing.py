"""Draws a replay by matplotlib; imported only where a picture is wanted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from ds4watch.cli.replay_bins import level_steps
from ds4watch.cli.replay_output import Shown
from ds4watch.engine.replay_story import Episode

_COLOURS = {"critical": "#c62828", "warning": "#ef9a00", "info": "#1976d2"}
_OTHER = "#757575"
_WIDTH_INCHES, _ROW_INCHES, _REST_INCHES = 12.0, 0.34, 2.2
_DPI = 110


def draw(shown: Shown, path: Path) -> None:
    """Write a picture of the alerts that fired and of the service level."""
    lines = [line for line in shown.story.lines() if line.fired]
    height = _REST_INCHES + _ROW_INCHES * max(1, len(lines))
    figure = Figure(figsize=(_WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    alerts, levels = figure.subplots(
        2, 1, sharex=True, height_ratios=[max(1, len(lines)) * _ROW_INCHES, 1.0]
    )
    for row, line in enumerate(lines):
        mine = [it for it in shown.episodes if it.rule.id == line.rule.id]
        colour = _COLOURS.get(line.tier.value, _OTHER)
        alerts.broken_barh([_bar(it, shown.ask.end) for it in mine], (row - 0.4, 0.8), color=colour)
    names = [f"{line.rule.name} {line.tier.value}: {line.fired}" for line in lines]
    alerts.set_yticks(range(len(lines)), names)
    alerts.set_ylim(max(1, len(lines)) - 0.5, -0.5)
    alerts.set_title(f"What would have fired on {shown.history}", loc="left")
    alerts.grid(axis="x", alpha=0.3)
    _draw_levels(levels, shown)
    locator = AutoDateLocator(tz=UTC)
    levels.xaxis.set_major_locator(locator)
    levels.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    levels.set_xlim(_day(shown.ask.start), _day(max(shown.ask.end, shown.ask.start + 1)))
    figure.savefig(path, dpi=_DPI)


def _draw_levels(axes: Axes, shown: Shown) -> None:
    times, levels = level_steps(shown.found.plans, shown.ask.start)
    axes.step([_day(at) for at in [*times, shown.ask.end]], [*levels, levels[-1]], where="post")
    axes.set_ylabel("service level")
    axes.set_yticks(range(max(levels) + 2))
    axes.grid(axis="x", alpha=0.3)


def _bar(it: Episode, end: float) -> tuple[float, float]:
    return _day(it.fired_at), it.seconds(end) / 86_400


def _day(at: float) -> float:
    return float(date2num(datetime.fromtimestamp(at, UTC)))
