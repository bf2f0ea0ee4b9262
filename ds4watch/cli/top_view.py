"""What `ds4watch top` draws: one frame from the status now and what was seen before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ds4watch.cli.display import DASH, audit_line, instant, money, number, percent

SEEN = 60
"""So many readings are drawn, one a look."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BAR_CELLS = 10
_WARN_SHARE, _FULL_SHARE = 0.7, 0.9
_STYLES = {"ready": "green", "asleep": "cyan", "failed": "bold red", "quarantined": "bold red"}
_TIERS = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_RATE = 'ds4_tokens_per_second{kind="generated"}'


@dataclass(slots=True)
class Past:
    """The last readings by what they are of, oldest first."""

    readings: dict[str, deque[float]] = field(default_factory=dict)

    def add(self, status: Mapping[str, Any]) -> None:
        """Take in one look; who is gone is forgotten."""
        now = dict(_readings(status))
        self.readings = {name: self.readings.get(name, deque(maxlen=SEEN)) for name in now}
        for name, value in now.items():
            self.readings[name].append(value)

    def line(self, name: str, cells: int = 20) -> str:
        """Return the newest readings as blocks, the highest of them full."""
        return sparkline(list(self.readings.get(name, ()))[-cells:])


def _readings(status: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for worker in status.get("fleet") or ():
        rate = (worker.get("signals") or {}).get(_RATE)
        yield _rate_of(worker), rate if isinstance(rate, int | float) else 0.0
    waiting = (status.get("signals") or {}).get("ds4_queue_depth")
    yield "waiting", waiting if isinstance(waiting, int | float) else 0.0


def _rate_of(worker: Mapping[str, Any]) -> str:
    return f"rate of {worker['id']}"


def sparkline(values: Sequence[float]) -> str:
    """Return values of zero and more as blocks; empty for none."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return _BLOCKS[1] * len(values)
    steps = len(_BLOCKS) - 2
    return "".join(_BLOCKS[1 + round(max(0.0, it) / highest * steps)] for it in values)


def bar(share: Any, cells: int = _BAR_CELLS) -> Text:
    """Return a share of 0 to 1 as a bar with its figure, coloured from 70 and from 90 % on."""
    if not isinstance(share, int | float):
        return Text(DASH)
    filled = round(min(1.0, max(0.0, share)) * cells)
    style = "red" if share >= _FULL_SHARE else "yellow" if share >= _WARN_SHARE else "green"
    return (
        Text("█" * filled, style=style)
        .append("░" * (cells - filled), style="dim")
        .append(f" {percent(share)}", style="")
    )


def frame(
    status: Mapping[str, Any], audit: Sequence[Mapping[str, Any]], past: Past
) -> RenderableType:
    """Return the whole view."""
    return Group(
        *_head(status, past),
        Rule("workers", align="left", style="dim"),
        _workers(status.get("fleet") or (), past),
        Rule("alerts", align="left", style="dim"),
        *_alerts(status.get("alerts") or ()),
        Rule("what happened last", align="left", style="dim"),
        *(Text(audit_line(row), no_wrap=True, overflow="ellipsis") for row in audit),
    )


def _head(status: Mapping[str, Any], past: Past) -> Iterator[Text]:
    policy, cost = status.get("policy") or {}, status.get("cost") or {}
    currency = str(cost.get("currency") or "")
    level = policy.get("level")
    text = Text(f"ds4watch {status.get('version', '')}  {instant(status.get('at'))}   ")
    text.append(
        f"level {number(level)} ({policy.get('level_name') or DASH})",
        style="bold yellow" if level else "bold green",
    )
    for pool in policy.get("pools") or ():
        style = "bold yellow" if pool["level"] else "bold green"
        text.append(f", {pool['pool']} {pool['level']} ({pool['level_name']})", style=style)
    text.append(
        f"   {money(cost.get('per_hour'), currency)} an hour, "
        f"today {money(cost.get('spent_today'), currency)}   "
    )
    waiting = (status.get("signals") or {}).get("ds4_queue_depth")
    text.append(f"waiting {number(waiting)} {past.line('waiting')}")
    yield text
    if level:
        yield Text(f"why: {policy.get('reason') or 'no reason given'}", style="yellow")
    for each in status.get("waiting_for") or ():
        yield Text(f"waiting for {each}", style="yellow")
    for hold in status.get("holds") or ():
        until = instant(hold.get("until_at"))
        yield Text(f"hold on {hold['target']} until {until}: {hold['why']}", style="yellow")


def _workers(fleet: Sequence[Mapping[str, Any]], past: Past) -> RenderableType:
    if not fleet:
        return Text("No workers.")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("worker", "phase", "running", "waiting", "KV cache", "hit rate", "tokens/s"):
        table.add_column(column, no_wrap=True)
    for worker in fleet:
        load, signals = worker.get("load") or {}, worker.get("signals") or {}
        miss = signals.get("ds4_cache_miss_ratio")
        hit = 1 - miss if isinstance(miss, int | float) else None
        table.add_row(
            str(worker["id"]),
            Text(str(worker["phase"]), style=_STYLES.get(str(worker["phase"]), "yellow")),
            number(load.get("running")),
            number(load.get("waiting")),
            bar(load.get("kv_usage_ratio")),
            percent(hit),
            f"{number(signals.get(_RATE)):>8} {past.line(_rate_of(worker))}",
        )
    return table


def _alerts(alerts: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    shown = [it for it in alerts if it.get("severity") != "none"]
    if not shown:
        yield Text("none is pending or firing", style="green")
    for alert in shown:
        style = _TIERS.get(str(alert.get("severity")), "") if alert["phase"] == "firing" else ""
        line = (
            f"{alert['name']} {alert['phase']} since {instant(alert.get('since'))}, "
            f"value {number(alert.get('value'))}: {alert.get('summary') or ''}"
        )
        yield Text(line, style=style, no_wrap=True, overflow="ellipsis")
