"""A report of a day or a week: before beside after, as blocks and as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ds4watch.notify.picture import bars
from ds4watch.notify.slack_text import Block, context, cut, escaped, section

_MOST_ROWS = 12
_MOST_ACTIONS = 10


def report_title(report: Mapping[str, Any]) -> str:
    """Return what a report is of."""
    start, end = (_day(float(report[name])) for name in ("start_at", "end_at"))
    return f"{str(report['period']).capitalize()} report: {start} to {end}"


def report_text(report: Mapping[str, Any]) -> str:
    """Return a report as lines for a terminal."""
    lines = [report_title(report), "", _table(report)]
    lines += ["", *(f"- {line}" for line in report.get("lines", ()))]
    lines += ["", "What was done:"] if report.get("actions") else ["", "Nothing was done."]
    lines += [f"- {line}" for line in report.get("actions", ())[:_MOST_ACTIONS]]
    return "\n".join(lines)


def report_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return a report as blocks of Slack."""
    blocks = [
        section(f"📊 *{escaped(report_title(report))}*"),
        section(f"```{cut(escaped_lines(_table(report)), 2900)}```"),
    ]
    if lines := report.get("lines", ()):
        blocks.append(section("\n".join(f"• {escaped(it)}" for it in lines)))
    done = [escaped(it) for it in report.get("actions", ())]
    shown = "\n".join(f"• {cut(it, 250)}" for it in done[:_MOST_ACTIONS])
    blocks.append(section(f"*What was done*\n{shown}" if shown else "Nothing was done."))
    if len(done) > _MOST_ACTIONS:
        blocks.append(context(f"… and {len(done) - _MOST_ACTIONS} more"))
    blocks.append(context("picture: cost, grey before, blue after"))
    return blocks


def report_picture(report: Mapping[str, Any]) -> bytes | None:
    """Return the chart: cost of each hour or day, before beside after; None without any."""
    before, after = report.get("cost_before", ()), report.get("cost_after", ())
    return bars(before, after) if any(before) or any(after) else None


def escaped_lines(text: str) -> str:
    """Return lines as Slack shows them within a code block."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _table(report: Mapping[str, Any]) -> str:
    head = f"{'':<24}{'before':>12}{'after':>12}{'change':>9}"
    rows = [
        f"{cut(str(row['name']), 23):<24}{_figure(row['before']):>12}{_figure(row['after']):>12}"
        f"{_change(row['before'], row['after']):>9}"
        for row in report.get("rows", ())[:_MOST_ROWS]
    ]
    return "\n".join([head, *rows])


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _change(before: float | None, after: float | None) -> str:
    if not before or after is None:
        return "-"
    return f"{100 * (after / before - 1):+.0f} %"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
