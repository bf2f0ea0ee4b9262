"""What a replay shows: how each rule did, then what would have happened, in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ds4watch.alerting.durations import format_duration
from ds4watch.cli.display import DASH
from ds4watch.cli.replay_bins import levels_in_bins, shares_in_bins
from ds4watch.engine.replay import ReplayAsk, Replayed
from ds4watch.engine.replay_story import Episode, Line, Story
from ds4watch.history.export import labels_text
from ds4watch.model.action import ActionPlan
from ds4watch.model.alert import AlertRule
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, Labels
from ds4watch.promql.numbers import plain

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_LEGEND = "FLAPS: fired again within 15 minutes. SHORT: held, but not as long as `for`."
_BARS = " ▁▂▃▄▅▆▇█"
_SHOWN_EVENTS = 40
_APART = 3
"""More alerts of one rule at one instant are told together."""
_COLUMNS_WIDTH = 64
_LEAST_TIMELINE, _MOST_TIMELINE = 16, 96
_OWN_LABELS = frozenset({"alertname", "severity"})


@dataclass(frozen=True)
class Shown:
    """A replay and what it was of."""

    ask: ReplayAsk
    found: Replayed
    history: str
    policy: str
    everything: bool = False

    @cached_property
    def rules(self) -> tuple[AlertRule, ...]:
        """The alert rules, in file order."""
        rules = (rule for group in self.ask.groups for rule in group.rules)
        return tuple(rule for rule in rules if isinstance(rule, AlertRule))

    @cached_property
    def story(self) -> Story:
        """The alerts, put together."""
        return Story(self.found, self.rules, self.ask.end)

    @cached_property
    def episodes(self) -> list[Episode]:
        """All times that an alert fired, in order."""
        return self.story.episodes()


@dataclass(frozen=True, slots=True)
class _Event:
    at: UnixSeconds
    what: Text


def replay_parts(shown: Shown, width: int) -> Iterator[RenderableType]:
    """Yield what is to be printed, for a terminal of so many columns."""
    yield from _head(shown)
    lines = [line for line in shown.story.lines() if line.fired or line.missed]
    if lines or shown.found.plans:
        yield Text()
        yield _table(shown, lines, width)
        yield Text(_LEGEND, style="dim")
    quiet = [it for it in shown.story.lines() if not it.fired and not it.missed]
    if quiet:
        yield Text(f"\nquiet: {', '.join(_told_once(quiet, lines))}")
    yield from _events(shown)
    yield from _faults(shown.found)


def _head(shown: Shown) -> Iterator[RenderableType]:
    ask, found = shown.ask, shown.found
    rules = sum(len(group.rules) for group in ask.groups)
    yield Text(f"{shown.history}, {_when(ask.start)} to {_when(ask.end)} (UTC)")
    yield Text(
        f"{rules} rules and {Path(shown.policy).name}, evaluated {found.steps:,} times, "
        f"{_span(ask.step_seconds)} apart"
    )
    if found.unwatched:
        gone = _span(found.unwatched * ask.step_seconds)
        yield Text(f"left out: {gone} in which nothing was scraped, as if there were no daemon")


def _table(shown: Shown, lines: Sequence[Line], width: int) -> Table:
    bins = min(_MOST_TIMELINE, max(_LEAST_TIMELINE, width - _COLUMNS_WIDTH))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("ALERT", overflow="ellipsis", max_width=20, no_wrap=True)
    table.add_column("TIER", no_wrap=True)
    for head in ("FIRED", "IN ALL", "LONGEST", "FLAPS", "SHORT"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column(_axis(shown.ask, bins), no_wrap=True)
    for line in lines:
        mine = [it for it in shown.episodes if it.rule.id == line.rule.id]
        shares = shares_in_bins(mine, shown.ask.start, shown.ask.end, bins)
        style = _STYLES.get(line.tier.value, "")
        table.add_row(
            line.rule.name,
            Text(line.tier.value, style=style),
            f"{line.fired:,}",
            _span(line.firing_seconds) if line.fired else DASH,
            _span(line.longest_seconds) if line.fired else DASH,
            f"{line.flapped:,}" if line.fired else DASH,
            f"{line.missed:,}",
            Text(_bars(shares), style=style),
        )
    if shown.found.plans:
        levels = levels_in_bins(shown.found.plans, shown.ask.start, shown.ask.end, bins)
        table.add_row("service level", *[""] * 6, "".join(str(it) if it else "·" for it in levels))
    return table


def _axis(ask: ReplayAsk, bins: int) -> str:
    begin, end = (datetime.fromtimestamp(at, UTC).strftime("%H:%M") for at in (ask.start, ask.end))
    return begin + end.rjust(bins - len(begin))


def _bars(shares: FloatArray) -> str:
    return "".join(_BARS[math.ceil(share * (len(_BARS) - 1))] for share in shares.tolist())


def _told_once(quiet: Sequence[Line], others: Iterable[Line]) -> list[str]:
    """Return the names of rules, with tiers where others of the name are not among them."""
    told = {it.rule.name for it in others}
    return list(
        dict.fromkeys(
            f"{it.rule.name} {it.tier.value}" if it.rule.name in told else it.rule.name
            for it in quiet
        )
    )


def _events(shown: Shown) -> Iterator[RenderableType]:
    events = sorted([*_alert_events(shown), *_action_events(shown)], key=lambda it: it.at)
    if not events:
        return
    kept = events if shown.everything else events[:_SHOWN_EVENTS]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for event in kept:
        table.add_row(_when(event.at), event.what)
    yield Text()
    yield table
    if len(kept) < len(events):
        yield Text(f"and {len(events) - len(kept):,} more: --all lists them")


def _alert_events(shown: Shown) -> Iterator[_Event]:
    end = shown.ask.end
    for (at, _), group in groupby(shown.episodes, key=lambda it: (it.fired_at, it.rule.id)):
        alerts = list(group)
        if len(alerts) > _APART:
            yield _Event(at, _many(alerts, end))
        else:
            yield from (_Event(at, _one(it, end)) for it in alerts)


def _one(it: Episode, end: UnixSeconds) -> Text:
    text = Text.assemble(*_named(it.rule), f" fires at {_value(it.value)} for {_lasts(it, end)}")
    inside = labels_text(_shown_labels(it.labels))
    return text.append(f"  {{{inside}}}", style="dim") if inside else text


def _many(alerts: Sequence[Episode], end: UnixSeconds) -> Text:
    values = sorted(it.value for it in alerts)
    seconds = sorted(it.seconds(end) for it in alerts)
    between = _between(_value(values[0]), _value(values[-1]))
    lasts = _between(_span(seconds[0]), _span(seconds[-1]))
    return Text.assemble(
        *_named(alerts[0].rule), f" fires {len(alerts)} times, at {between}, for {lasts}"
    )


def _between(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _named(rule: AlertRule) -> tuple[str, tuple[str, str]]:
    return f"{rule.name} ", (rule.tier.value, _STYLES.get(rule.tier.value, ""))


def _lasts(it: Episode, end: UnixSeconds) -> str:
    told = _span(it.seconds(end))
    return f"{told}, to the end" if it.resolved_at is None else told


def _action_events(shown: Shown) -> Iterator[_Event]:
    for plan in shown.found.plans:
        yield _Event(plan.planned_at, Text(f"→ {_plan(plan)}", style="bold"))
    for refusal in shown.found.refusals:
        told = f"→ refused: {refusal.reason.value}, {refusal.detail}"
        yield _Event(refusal.at, Text(told, style="dim"))


def _plan(plan: ActionPlan) -> str:
    would = "dry run: " if plan.dry_run else ""
    level, name = plan.parameters["level"], plan.parameters["level_name"]
    return f"{would}level {plan.before['level']} to {level} ({name}): {plan.reason}"


def _faults(found: Replayed) -> Iterator[RenderableType]:
    for it in found.failures.values():
        times = f"{it.steps:,} times" if it.steps > 1 else "once"
        yield Text(f"\n{it.rule} could not be evaluated {times}: {it.error}", style="red")
    if found.unseen:
        yield Text(f"\nnothing they select is in this history: {', '.join(found.unseen)}")


def _shown_labels(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in _OWN_LABELS)


def _value(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else plain(value)


def _span(seconds: float) -> str:
    """Return a span to two units: what follows is of no weight."""
    for unit, below in ((86_400, 3600), (3600, 60)):
        if seconds >= unit:
            return format_duration(seconds // below * below)
    return format_duration(seconds)


def _when(at: UnixSeconds) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
