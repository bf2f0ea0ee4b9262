"""A message whose button was pressed: the buttons give way to what came of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ds4watch.notify.slack_text import context, cut, escaped

_KEPT = ("color", "fallback")
_MOST_SIGNS = 1000


def settled(
    attachments: Sequence[Mapping[str, Any]], verb: str, value: str, told: str
) -> list[dict[str, Any]] | None:
    """Return attachments in which `told` stands in place of a button, and of those beside it.

    None if there is no button of that verb and value.
    """
    found, is_there = [], False
    for it in attachments:
        blocks = []
        for block in it.get("blocks", ()):
            is_pressed = any(
                (one.get("action_id"), one.get("value")) == (verb, value)
                for one in block.get("elements", ())
            )
            is_there = is_there or is_pressed
            blocks.append(context(cut(escaped(told), _MOST_SIGNS)) if is_pressed else block)
        found.append({name: it[name] for name in _KEPT if name in it} | {"blocks": blocks})
    return found if is_there else None
