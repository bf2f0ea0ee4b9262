"""Draws the choice table by matplotlib; imported only where a picture is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_SIZE_INCHES = (8.0, 5.0)
_DPI = 110
_ROOM_FOR_NAMES = 0.15
_BEST, _BEATEN = "#1976d2", "#9e9e9e"


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Write a picture: share of right answers, with its interval, over cost."""
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for row in found["profiles"]:
        cost, right = row["cost_per_million_tokens"], row["accuracy"]
        if cost is None or right["ratio"] is None:
            continue
        share = 100 * right["ratio"]
        below, above = share - 100 * right["low"], 100 * right["high"] - share
        colour = _BEST if row["unbeaten"] else _BEATEN
        spread = [[max(0.0, below)], [max(0.0, above)]]
        axes.errorbar([cost], [share], yerr=spread, fmt="o", capsize=4, color=colour)
        axes.annotate(row["profile"], (cost, share), (6, 6), textcoords="offset points")
    axes.set_xlabel(f"{found['currency']} a million tokens, one request at a time")
    axes.set_ylabel("golden questions right, %")
    axes.set_title("Profiles; blue: none is as good in all, better in something", loc="left")
    axes.margins(x=_ROOM_FOR_NAMES, y=_ROOM_FOR_NAMES)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=_DPI)
