"""Slack's text and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ds4watch.model.ports import UnixSeconds

MAX_TEXT = 3000
MAX_BUTTON_TEXT = 75
MAX_FALLBACK = 3000
"""Slack takes 40,000 signs; what is shown in a notification is a line."""

Block = dict[str, Any]


def escaped(text: str) -> str:
    """Return text of others such that it is shown as it is, and mentions nobody."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(plain.split())


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Return at most so many signs; what was cut is told by an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def link(url: str, text: str) -> str:
    """Return a link in Slack's markup."""
    return f"<{url.replace('|', '%7C').replace('>', '%3E').replace('<', '%3C')}|{escaped(text)}>"


def when(at: UnixSeconds) -> str:
    """Return an instant in the reader's time zone, with UTC for what cannot do that."""
    utc = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"<!date^{int(at)}^{{date_short_pretty}} {{time_secs}}|{utc}>"


def section(text: str) -> Block:
    """Return a block of text."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(text) or "-"}}


def context(text: str) -> Block:
    """Return a block of small text."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": cut(text)}]}


def button(text: str, action: str, value: str, *, style: str = "", ask: str = "") -> Block:
    """Return a button; `ask`: what is asked before it does anything."""
    made: Block = {
        "type": "button",
        "text": {"type": "plain_text", "text": cut(text, MAX_BUTTON_TEXT)},
        "action_id": action,
        "value": value,
    }
    if style:
        made["style"] = style
    if ask:
        made["confirm"] = {
            "title": {"type": "plain_text", "text": "Sure?"},
            "text": {"type": "plain_text", "text": cut(ask, 300)},
            "confirm": {"type": "plain_text", "text": "Yes"},
            "deny": {"type": "plain_text", "text": "No"},
        }
    return made


def actions(buttons: Sequence[Block]) -> Block:
    """Return a row of buttons."""
    return {"type": "actions", "elements": list(buttons)}


def table(facts: Mapping[str, str]) -> Block:
    """Return pairs of a name and a value, in two columns; ten at most."""
    fields = [
        {"type": "mrkdwn", "text": cut(f"*{escaped(name)}*\n{value}", 2000)}
        for name, value in list(facts.items())[:10]
    ]
    return {"type": "section", "fields": fields}
