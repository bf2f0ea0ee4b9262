"""What is told beside alerts (actions, questions, reports, what people did) as blocks of Slack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ds4watch.alerting.grouping import Group, Note
from ds4watch.notify.by_hand import is_normal, note_commands
from ds4watch.notify.slack_report import report_blocks, report_title
from ds4watch.notify.slack_text import Block, actions, button, context, escaped, section, when
from ds4watch.policy.schema import NORMAL

_MOST_NOTES = 5


def value_of(**fields: str) -> str:
    """Return what a button carries."""
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def note_buttons(note: Note, key: str) -> list[Block]:
    """Return what can be done about a note."""
    action = str(note.payload.get("action", ""))
    if note.kind == "action" and note.payload.get("what") == "set_level":
        return _level_buttons(note, key)
    value = value_of(group=key, action=action)
    if not action or len(value) > 2000:
        return []
    if note.kind == "approval":
        return [
            button("Approve", "approve", value, style="primary"),
            button("Refuse", "refuse", value, style="danger"),
        ]
    if note.kind == "action" and not note.payload.get("undoes"):
        return [button("Roll back", "undo", value, ask="This takes the action back.")]
    return []


def _level_buttons(note: Note, key: str) -> list[Block]:
    """Return the way back from a level: it is no action on a worker, that could be undone."""
    if is_normal(note):
        return []
    pool = str(note.payload.get("target", ""))
    value = value_of(group=key, level=NORMAL, pool=pool)
    ask = f"This takes {pool} back to its normal level; hold actions to keep it there."
    return [button("Roll back to normal", "undo", value, ask=ask)]


def note_text(note: Note) -> str:
    """Return a note in a few lines."""
    payload = note.payload
    what = f"{payload.get('what', '')} {payload.get('target', '')}".strip()
    reason = escaped(str(payload.get("reason", "")))
    if note.kind == "said":
        return escaped(str(payload.get("text", "")))
    if note.kind == "approval":
        until = payload.get("expires_at")
        limit = f"; without an answer by {when(float(until))} it is not done" if until else ""
        names = escaped(", ".join(map(str, payload.get("approvers", ()))))
        asked = f"; {names} may say" if names not in ("", "*") else ""
        return f"❓ *May this be done?* {escaped(what)}: {reason}{asked}{limit}"
    if note.kind == "report":
        return report_title(payload)
    undone = " (takes back an earlier action)" if payload.get("undoes") else ""
    values = ", ".join(
        f"{name} {value}" for name, value in plain_parameters(payload.get("parameters", {}))
    )
    return f"⚙️ *{escaped(what)}*{undone}: {reason}" + (f" ({escaped(values)})" if values else "")


def plain_parameters(parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return those of an action's parameters that a person can read in a line."""
    return [
        (name, value)
        for name, value in parameters.items()
        if value and value != "None" and value[0] not in "[{(" and len(value) <= 100
    ]


def commands_blocks(found: Sequence[tuple[str, str]]) -> list[Block]:
    """Return what can be typed, where there are no buttons."""
    shown = [f"{purpose}: `{escaped(command).replace('`', ' ')}`" for purpose, command in found]
    return [context("\n".join(shown))] if shown else []


def notes_blocks(group: Group, *, buttons: bool) -> list[Block]:
    """Return the notes of a group, each with what can be done about it."""
    blocks: list[Block] = []
    for note in group.notes[:_MOST_NOTES]:
        if note.kind == "report":
            blocks += report_blocks(note.payload)
            continue
        blocks.append(section(note_text(note)))
        if buttons:
            found = note_buttons(note, group.key)
            blocks += [actions(found)] if found else []
        else:
            blocks += commands_blocks(note_commands(note))
    if (hidden := len(group.notes) - _MOST_NOTES) > 0:
        blocks.append(context(f"… and {hidden} more: `ds4watch status` has them"))
    return blocks
