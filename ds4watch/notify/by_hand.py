"""What a person types in place of a button: where there are none, a message says how. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ds4watch.alerting.grouping import Group, Note
from ds4watch.policy.schema import NORMAL

_WHY = '--why "…"'


def shared_labels(group: Group) -> dict[str, str]:
    """Return the labels that all alerts of a group that fire have in common; some must fire."""
    return {
        name: value
        for name, value in dict(group.firing[0].news.labels).items()
        if name != "severity"
        and all(dict(it.news.labels).get(name) == value for it in group.firing)
    }


def pool_of(shared: dict[str, str]) -> str:
    """Return the pool whose actions a hold for such alerts would stop."""
    return shared.get("pool", "default")


def group_commands(group: Group) -> Sequence[tuple[str, str]]:
    """Return, with what it is for, each command that a group that fires calls for."""
    if not group.firing:
        return ()
    shared = shared_labels(group)
    pool = shlex.quote(pool_of(shared))
    found = [("to stop automatic actions", f"ds4watch hold --pool {pool} --for 1h {_WHY}")]
    if matchers := " ".join(shlex.quote(f"{k}={v}") for k, v in sorted(shared.items())):
        found.append(("to hear no more of it", f"ds4watch silence {matchers} --for 1h {_WHY}"))
    return found


def note_commands(note: Note) -> Sequence[tuple[str, str]]:
    """Return, with what it is for, each command that a note calls for."""
    payload = note.payload
    action = shlex.quote(str(payload.get("action", "")))
    if note.kind == "approval":
        return (
            ("yes", f"ds4watch approve {action} {_WHY}"),
            ("no", f"ds4watch refuse {action} {_WHY}"),
        )
    if note.kind != "action" or payload.get("undoes") or action == "''":
        return ()
    if payload.get("what") == "set_level":
        if is_normal(note):
            return ()
        pool = shlex.quote(str(payload.get("target", "")))
        return (("to go back", f"ds4watch act {NORMAL} --pool {pool} {_WHY}"),)
    return (("to take it back", f"ds4watch undo {action} {_WHY}"),)


def is_normal(note: Note) -> bool:
    """Return whether the level that an action set is the normal one."""
    return str(note.payload.get("parameters", {}).get("level", "0")) in ("", "0")
