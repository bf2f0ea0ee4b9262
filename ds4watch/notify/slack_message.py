"""A group as a message of Slack: what is wrong, by how much, what was done, how to stop it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.alerting.grouping import Group, Member, News, Told, Why, ranked
from ds4watch.model.alert import Tier
from ds4watch.model.ports import UnixSeconds
from ds4watch.notify.by_hand import group_commands, pool_of, shared_labels
from ds4watch.notify.group_channel import Digest, Telling
from ds4watch.notify.slack_notes import commands_blocks, note_text, notes_blocks, value_of
from ds4watch.notify.slack_text import (
    MAX_FALLBACK,
    Block,
    actions,
    button,
    context,
    cut,
    escaped,
    link,
    section,
    table,
    when,
)

COLOURS = {
    Tier.CRITICAL: "#c62828",
    Tier.WARNING: "#ef9a00",
    Tier.INFO: "#1976d2",
    Tier.NONE: "#757575",
}
OVER_COLOUR = "#2e7d32"
_SIGNS = {Tier.CRITICAL: "🔴", Tier.WARNING: "🟠", Tier.INFO: "🔵", Tier.NONE: "⚪"}
_MOST_LISTED = 10
_DIGEST_LISTED = 30
SILENCE_SECONDS = 3600
_SHIPPED_RUNBOOKS = "docs/runbooks/"
_DOUBLED = (
    "⚠️ This may be there twice: an earlier attempt had no clear end, and it cannot be looked for."
)


@dataclass(frozen=True, slots=True)
class Links:
    """Where more is to be seen; empty: nowhere. runbooks: put before a rule's relative address."""

    admin: str = ""
    dashboard: str = ""
    runbooks: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted. `text` is what a notification shows."""

    text: str
    colour: str
    blocks: tuple[Block, ...]

    @property
    def attachments(self) -> list[dict[str, Any]]:
        """The blocks, with a stripe in the tier's colour beside them."""
        return [{"color": self.colour, "fallback": self.text, "blocks": list(self.blocks)}]


Threshold = Callable[[News], str]
"""From an alert to the condition that it passed, as `> 50`; empty if it is not known."""


def message_of(telling: Telling, links: Links, threshold: Threshold, *, buttons: bool) -> Message:
    """Return a group as it stands."""
    group = telling.group
    if not group.members:
        return notes_message(telling, buttons=buttons)
    title = title_of(group)
    shown = ranked(group.members)[:_MOST_LISTED]
    blocks = [section(f"{_sign(group)} *{escaped(title)}*")]
    blocks += [section(_member_text(it, threshold, telling.at)) for it in shown]
    hidden = len(group.members) - len(shown) + group.more
    if hidden:
        blocks.append(context(f"… and {hidden} more alerts"))
    if group.acknowledged_by:
        blocks.append(context(f"👀 {escaped(group.acknowledged_by)} sees to it"))
    if links_text := _links(group, links):
        blocks.append(context(links_text))
    if telling.doubled:
        blocks.append(context(_DOUBLED))
    if buttons and group.firing:
        blocks.append(actions(_group_buttons(group)))
    elif group.firing:
        blocks += commands_blocks(group_commands(group))
    return Message(preview_of(group), _colour(group), tuple(blocks))


def preview_of(group: Group) -> str:
    """Return what a lock screen shows: the title, and of those that fire what the worst says."""
    title = escaped(title_of(group))
    if group.firing:
        title += f" · {cut(_summary(ranked(group.members)[0].news), 300)}"
    return cut(title, MAX_FALLBACK)


def _summary(news: News) -> str:
    return escaped(dict(news.annotations).get("summary") or news.reason or news.name)


def title_of(group: Group) -> str:
    """Return a group in one line."""
    names = sorted({it.news.name for it in group.members})
    name = names[0] if len(names) == 1 else f"{len(names)} kinds of alerts"
    firing = len(group.firing) + group.more
    over = len(group.members) - len(group.firing)
    silenced = f", {group.silenced} silenced" if group.silenced else ""
    if not firing and silenced:
        return f"{name}: {over} over{silenced}"
    if not firing:
        return f"{name}: over" + (f" ({over} alerts)" if over > 1 else "")
    counts = f"{firing} firing" + (f", {over} over" if over else "")
    return f"{name} ({group.tier.value}): {counts}{silenced}"


def _sign(group: Group) -> str:
    return _SIGNS[group.tier] if group.firing else "✅"


def _colour(group: Group) -> str:
    return COLOURS[group.tier] if group.firing else OVER_COLOUR


def _member_text(member: Member, threshold: Threshold, now: UnixSeconds) -> str:
    news = member.news
    annotations = dict(news.annotations)
    head = _summary(news)
    where = _where(news)
    value = f"value *{number(news.value)}*"
    if limit := threshold(news):
        value += f", threshold {escaped(limit)}"
    if news.firing:
        since = f"firing since {when(member.fired_at)}"
    else:
        since = f"over since {when(news.at)}, fired for {span(news.at - member.fired_at)}"
    sign = _SIGNS[news.tier] if news.firing else "✅"
    fresh = " · *new*" if member.told is Told.NOTHING else ""
    description = escaped(annotations.get("description", ""))
    lines = [
        f"{sign} {cut(head, 600)}{fresh}",
        " · ".join(it for it in (where, value, since) if it),
    ]
    if news.firing and description:
        lines.append(f"_{cut(description, 600)}_")
    del now
    return "\n".join(lines)


def _where(news: News) -> str:
    labels = dict(news.labels)
    shown = [f"{name} `{escaped(labels[name])}`" for name in sorted(labels) if name not in _HIDDEN]
    return cut(", ".join(shown), 600)


_HIDDEN = frozenset({"alertname", "severity", "ds4_ladder"})


def number(text: str) -> str:
    """Return a value as people read it."""
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return escaped(text) or "-"


def span(seconds: float) -> str:
    """Return how long something took."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _links(group: Group, links: Links) -> str:
    found = []
    if links.dashboard:
        found.append(link(links.dashboard, "dashboard"))
    found += [link(url, "runbook") for url in runbooks_of(group, links)]
    if links.admin:
        found.append(link(f"{links.admin}/api/ds4/v1/audit", "audit"))
        found.append(link(links.admin, "status"))
    return " · ".join(found)


def runbooks_of(group: Group, links: Links) -> list[str]:
    """Return where the runbooks of a group's alerts are, three at most."""
    found = {
        url
        for it in group.members
        if (url := _runbook(dict(it.news.annotations).get("runbook_url", ""), links))
    }
    return sorted(found)[:3]


def _runbook(url: str, links: Links) -> str:
    """Return where a runbook is; those that ship are at the admin address, too."""
    if not url or url.startswith(("https://", "http://")):
        return url
    if links.runbooks:
        return f"{links.runbooks.rstrip('/')}/{url.lstrip('/')}"
    name = url.removeprefix(_SHIPPED_RUNBOOKS)
    return f"{links.admin}/runbooks/{name}" if links.admin and name != url else ""


def _group_buttons(group: Group) -> list[Block]:
    shared = shared_labels(group)
    pool = pool_of(shared)
    found = [
        button("Acknowledge", "acknowledge", value_of(group=group.key)),
        button(
            "Hold actions 1 h",
            "hold",
            value_of(group=group.key, pool=pool),
            ask=f"No automatic action on {pool} for an hour.",
        ),
    ]
    match = value_of(group=group.key, match=value_of(**shared))
    if shared and len(match) <= 2000:
        found.insert(1, button("Silence 1 h", "silence", match))
    return found


def notes_message(telling: Telling, *, buttons: bool) -> Message:
    """Return what is told beside alerts."""
    group = telling.group
    blocks: list[Block] = [context(_DOUBLED)] if telling.doubled else []
    blocks += notes_blocks(group, buttons=buttons)
    text = note_text(group.notes[0]) if group.notes else "nothing new"
    return Message(cut(text, MAX_FALLBACK) or "-", COLOURS[Tier.INFO], tuple(blocks))


def follow_up(telling: Telling, threshold: Threshold, *, buttons: bool) -> Message | None:
    """Return what is said in the thread of a message that was sent before; None: nothing."""
    group = telling.group
    fresh = [it for it in ranked(group.members) if it.is_news]
    blocks = [section(_member_text(it, threshold, telling.at)) for it in fresh[:_MOST_LISTED]]
    if len(fresh) > _MOST_LISTED:
        blocks.append(context(f"… and {len(fresh) - _MOST_LISTED} more"))
    blocks += notes_blocks(group, buttons=buttons)
    if telling.why is Why.REPEAT:
        blocks.append(section(f"Still: {escaped(title_of(group))}"))
    if not blocks:
        return None
    if telling.doubled:
        blocks.append(context(_DOUBLED))
    text = preview_of(group) if group.members else note_text(group.notes[0])
    return Message(cut(text, MAX_FALLBACK) or "-", _colour(group), tuple(blocks))


def digest_message(digest: Digest) -> Message:
    """Return what came up while Slack could not be reached."""
    over = [it for it in digest.groups if it.members and not it.firing]
    alerts = sum(len(it.members) + it.more for it in digest.groups)
    title = f"Messages could not be delivered for {span(digest.until - digest.since)}"
    facts = {
        "from": when(digest.since),
        "until": when(digest.until),
        "alerts meanwhile": str(alerts),
        "over by now": str(sum(len(it.members) for it in over)),
    }
    listed = [it for it in digest.groups if it.members][:_DIGEST_LISTED]
    lines = [f"{_sign(it)} {escaped(title_of(it))}" for it in listed]
    if hidden := len([it for it in digest.groups if it.members]) - len(listed):
        lines.append(f"… and {hidden} more")
    blocks: Sequence[Block] = [section(f"📭 *{title}*"), table(facts)]
    if lines:
        blocks = [*blocks, section("\n".join(cut(line, 90) for line in lines))]
    if digest.doubled:
        blocks = [*blocks, context(_DOUBLED)]
    return Message(f"{title}: {alerts} alerts meanwhile", COLOURS[Tier.WARNING], tuple(blocks))
