"""Roles of the admin API, each of which may do all that the lower ones may."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a token may do: look, act, or change who may act."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_ORDER = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


def allows(role: Role, needed: Role) -> bool:
    """Return whether `role` may do what `needed` may."""
    return _ORDER.index(role) >= _ORDER.index(needed)
