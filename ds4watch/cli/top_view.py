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

from ds4watch.cli.alert_rows import active_rows, alert_line, over_line
from ds4watch.cli.display import (
    DASH,
    NARROW,
    clock,
    instant,
    money,
    number,
    percent,
    printable,
    shortened,
)

SEEN = 60
"""So many readings are drawn, one a look."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BAR_CELLS = 10
_WARN_SHARE, _FULL_SHARE = 0.7, 0.9
_STYLES = {"ready": "green", "asleep": "cyan", "failed": "bold red", "quarantined": "bold red"}
_TROUBLE = {"quarantined": 0, "failed": 1, "unknown": 2}
_COLUMNS = ("worker", "phase", "running", "waiting", "KV cache", "hit rate", "tokens/s")
_NARROW_COLUMNS = ("worker", "phase", "run", "wait", "KV cache", "hits", "tokens/s")
_ROOM_BESIDE = {True: 56, False: 72}
"""What the columns but the first take, narrow and wide."""
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


@dataclass(frozen=True, slots=True)
class Room:
    """What a terminal has: columns and, where a frame must not be longer, rows."""

    width: int
    height: int | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether words have to be short."""
        return self.width < NARROW

    def shares(self, head: int, workers: int, alerts: int, story: int) -> tuple[int, int, int]:
        """Return how many rows of workers, alerts and story there is room for."""
        if self.height is None:
            return workers, alerts, story
        left = max(3, self.height - head - 5)  # three titles, the table's head, the cursor
        shown_alerts = min(alerts, max(2, left // 3))
        shown_story = min(story, max(2, left // 4))
        shown_workers = min(workers, max(2, left - shown_alerts - shown_story))
        left -= shown_workers + shown_alerts + shown_story
        more = min(alerts - shown_alerts, max(0, left))
        return shown_workers, shown_alerts + more, min(story, shown_story + max(0, left - more))


def frame(
    status: Mapping[str, Any], audit: Sequence[Mapping[str, Any]], past: Past, room: Room
) -> RenderableType:
    """Return the whole view."""
    head = list(_head(status, past, room))
    alerts = list(_alerts(status.get("alerts") or ()))
    fleet = status.get("fleet") or []
    workers, told, story = room.shares(len(head), len(fleet), len(alerts), len(audit))
    return Group(
        *head,
        Rule("workers", align="left", style="dim"),
        _workers(fleet, past, room, workers),
        Rule("alerts", align="left", style="dim"),
        *_cut(alerts, told),
        Rule("what happened last", align="left", style="dim"),
        *(_line(_deed(row)) for row in audit[:story]),
    )


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _cut(lines: list[Text], most: int) -> list[Text]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], _line(f"and {len(lines) - most + 1} more: ds4watch alerts")]


def _deed(row: Mapping[str, Any]) -> str:
    target, summary = str(row.get("target") or ""), str(row.get("summary") or "")
    of = "" if target in summary else f"{target}: "
    return printable(f"{clock(row.get('at'))}  {row.get('kind') or DASH!s:<8} {of}{summary}")


def _head(status: Mapping[str, Any], past: Past, room: Room) -> Iterator[Text]:
    policy, cost = status.get("policy") or {}, status.get("cost") or {}
    currency = str(cost.get("currency") or "")
    level = policy.get("level")
    first = Text(f"ds4watch {status.get('version', '')}  ", no_wrap=True, overflow="ellipsis")
    first.append(f"{instant(status.get('at'))}   ")
    first.append(
        f"level {number(level)} ({policy.get('level_name') or DASH})",
        style="bold yellow" if level else "bold green",
    )
    for pool in policy.get("pools") or ():
        style = "bold yellow" if pool["level"] else "bold green"
        first.append(f", {pool['pool']} {pool['level']} ({pool['level_name']})", style=style)
    waiting = (status.get("signals") or {}).get("ds4_queue_depth")
    second = (
        f"{money(cost.get('per_hour'), currency)} an hour, "
        f"today {money(cost.get('spent_today'), currency)}   "
        f"waiting {number(waiting)} {past.line('waiting')}"
    )
    yield first if room.is_narrow else first.append(f"   {second}")
    if room.is_narrow:
        yield _line(second)
    yield from (_line(text, "yellow") for text in _notices(status))


def _notices(status: Mapping[str, Any]) -> Iterator[str]:
    policy = status.get("policy") or {}
    if policy.get("level"):
        yield f"why: {policy.get('reason') or 'no reason given'}"
    for it in (status.get("steering") or {}).get("actions") or ():
        if it["status"] == "waiting":
            yield f"waits for approval: {it['kind']} on {it['target']}: ds4watch approve {it['id']}"
    for each in status.get("waiting_for") or ():
        yield f"waiting for {each}"
    for hold in status.get("holds") or ():
        yield f"hold on {hold['target']} until {instant(hold.get('until_at'))}: {hold['why']}"


def _workers(
    fleet: Sequence[Mapping[str, Any]], past: Past, room: Room, most: int
) -> RenderableType:
    if not fleet:
        return Text("No workers.")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _NARROW_COLUMNS if room.is_narrow else _COLUMNS:
        table.add_column(column, no_wrap=True)
    in_order = sorted(fleet, key=lambda it: _TROUBLE.get(str(it["phase"]), len(_TROUBLE)))
    shown = in_order if len(fleet) <= most else in_order[: most - 1]
    longest = max(len(str(it["id"])) for it in shown)
    name_cells = min(longest, max(12, room.width - _ROOM_BESIDE[room.is_narrow]))
    cells = min(20, room.width - _ROOM_BESIDE[room.is_narrow] - name_cells)
    for worker in shown:
        table.add_row(*_worker_row(worker, past, room, name_cells, cells))
    if len(shown) == len(fleet):
        return table
    return Group(table, _line(f"and {len(fleet) - len(shown)} more: ds4watch workers"))


def _worker_row(
    worker: Mapping[str, Any], past: Past, room: Room, name_cells: int, cells: int
) -> Iterator[str | Text]:
    load, signals = worker.get("load") or {}, worker.get("signals") or {}
    miss = signals.get("ds4_cache_miss_ratio")
    yield shortened(str(worker["id"]), name_cells)
    yield Text(str(worker["phase"]), style=_STYLES.get(str(worker["phase"]), "yellow"))
    yield number(load.get("running"))
    yield number(load.get("waiting"))
    yield bar(load.get("kv_usage_ratio"), _BAR_CELLS // 2 if room.is_narrow else _BAR_CELLS)
    yield percent(1 - miss if isinstance(miss, int | float) else None)
    trend = f" {past.line(_rate_of(worker), cells)}" if cells > 0 else ""
    yield f"{number(signals.get(_RATE)):>8}{trend}"


def _alerts(alerts: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    shown = [it for it in alerts if it.get("severity") != "none"]
    rows = active_rows(shown)
    if not rows:
        yield Text("none is pending or firing", style="green")
    for row in rows:
        yield _line(alert_line(row), row.style)
    if over := over_line(shown):
        yield _line(over)
