"""A group as plain text, for mail and whatever else knows no markup: title and body. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ds4watch.alerting.grouping import Group, Member, Note, Why, ranked
from ds4watch.model.ports import UnixSeconds
from ds4watch.notify.by_hand import group_commands, note_commands
from ds4watch.notify.group_channel import Telling
from ds4watch.notify.slack_message import (
    Links,
    Threshold,
    number,
    runbooks_of,
    span,
    title_of,
)
from ds4watch.notify.slack_notes import plain_parameters
from ds4watch.notify.slack_text import cut

_MOST_LISTED = 20
_MOST_NOTES = 10
_MOST_SIGNS = 600
_HIDDEN = frozenset({"alertname", "severity", "ds4_ladder"})


def plain_message(telling: Telling, links: Links, threshold: Threshold) -> tuple[str, str]:
    """Return title and body of a group as it stands, or of what is new beside its alerts."""
    group = telling.group
    notes = [it for it in group.notes if it.kind != "report"]
    is_of_notes = telling.why is Why.NOTE or not group.members
    title = note_title(notes[0]) if is_of_notes and notes else title_of(group)
    if not is_of_notes:
        parts = _members(group, threshold, telling.at)
    else:
        parts = [[f"About: {title_of(group)}"]] if group.members else []
    parts += [note_lines(it) for it in notes[:_MOST_NOTES]]
    if (hidden := len(notes) - _MOST_NOTES) > 0:
        parts.append([f"… and {hidden} more: `ds4watch audit` has them"])
    if not is_of_notes:
        parts.append(_commands(group_commands(group)))
    parts.append(_links(group, links))
    return cut(title, 200), "\n\n".join("\n".join(it) for it in parts if it)


def note_title(note: Note) -> str:
    """Return a note in one line."""
    payload = note.payload
    what = f"{payload.get('what', '')} {payload.get('target', '')}".strip()
    if note.kind == "said":
        return _line(payload.get("text", ""))
    if note.kind == "approval":
        return f"May this be done? {_line(what)}"
    return f"Done: {_line(what)}" + (
        " (takes back an earlier action)" if payload.get("undoes") else ""
    )


def note_lines(note: Note) -> list[str]:
    """Return a note in full, with what can be typed about it."""
    payload, lines = note.payload, [note_title(note)]
    if reason := _line(payload.get("reason", "")):
        lines.append(f"  because: {reason}")
    if values := ", ".join(f"{k} {v}" for k, v in plain_parameters(payload.get("parameters", {}))):
        lines.append(f"  with: {values}")
    if asked := ", ".join(map(str, payload.get("approvers", ()))):
        lines.append(f"  asked of: {'anybody' if asked == '*' else asked}")
    if until := payload.get("expires_at"):
        lines.append(f"  without an answer by {_utc(float(until))} it is not done")
    return [*lines, *(f"  {it}" for it in _commands(note_commands(note)))]


def digest_lines(titles: Sequence[str]) -> str:
    """Return what came up during an outage."""
    hidden = len(titles) - _MOST_LISTED
    return "\n".join([*titles[:_MOST_LISTED], *([f"… and {hidden} more"] if hidden > 0 else [])])


def _members(group: Group, threshold: Threshold, at: UnixSeconds) -> list[list[str]]:
    shown = ranked(group.members)[:_MOST_LISTED]
    found = [_member(it, threshold, at) for it in shown]
    if hidden := len(group.members) - len(shown) + group.more:
        found.append([f"… and {hidden} more alerts"])
    if group.acknowledged_by:
        found.append([f"{group.acknowledged_by} sees to it"])
    return found


def _member(member: Member, threshold: Threshold, at: UnixSeconds) -> list[str]:
    news, annotations = member.news, dict(member.news.annotations)
    summary = _line(annotations.get("summary") or news.reason or news.name)
    where = ", ".join(f"{k} {_line(v)}" for k, v in news.labels if k not in _HIDDEN)
    value = f"value {number(news.value)}"
    if limit := threshold(news):
        value += f", threshold {limit}"
    if news.firing:
        since = f"firing since {_utc(member.fired_at)} ({span(at - member.fired_at)})"
    else:
        since = f"over since {_utc(news.at)}, fired for {span(news.at - member.fired_at)}"
    state = news.tier.value if news.firing else "over"
    lines = [f"{state}: {summary}", "  " + "; ".join(it for it in (where, value, since) if it)]
    if news.firing and (description := _line(annotations.get("description", ""))):
        lines.append(f"  {description}")
    return lines


def _commands(found: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{purpose}: {command}" for purpose, command in found]


def _links(group: Group, links: Links) -> list[str]:
    found: Mapping[str, Any] = {"status": links.admin, "dashboard": links.dashboard}
    books = [f"runbook: {it}" for it in runbooks_of(group, links)]
    return [*(f"{name}: {url}" for name, url in found.items() if url), *books]


def _line(text: object) -> str:
    return cut(" ".join(str(text).split()), _MOST_SIGNS)


def _utc(at: UnixSeconds) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
