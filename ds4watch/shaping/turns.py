"""A long conversation cut to its last turns."""

from __future__ import annotations

from typing import Any

_SYSTEM = ("system", "developer")


def last_turns(messages: list[Any], most: int) -> list[Any]:
    """Return `messages` with the system messages and the last `most` turns; itself if no more.

    A turn begins with a message of the user and holds all up to the next: a call of a tool is
    never parted from its result. What stands before the first turn and is no system message
    belongs to it.
    """
    begins = [at for at, it in enumerate(messages) if _role(it) == "user"]
    if len(begins) <= most:
        return messages
    start = begins[-max(1, most)]
    kept = [it for it in messages[:start] if _role(it) in _SYSTEM]
    return kept + messages[start:]


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None
