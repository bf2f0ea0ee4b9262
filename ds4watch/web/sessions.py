"""Sessions of the status page: entered once by a link, held by a cookie, forgotten at a restart."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ds4watch.access.keys import digest, new_secret
from ds4watch.access.roles import Role, allows
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.web.tokens import TokenEntry

COOKIE = "ds4_session"
LINK_SECONDS = 300.0
SESSION_SECONDS = 12 * 3600.0
MOST = 64
"""Links, and sessions; over it the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class _Held:
    entry: TokenEntry
    until_at: UnixSeconds


class Sessions:
    """Links that let in once, and the sessions that came of them; both kept as digests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[str, _Held] = {}
        self._open: dict[str, _Held] = {}

    def link(self, role: Role, name: str, token: str) -> str:
        """Return a code that lets in once, within LINK_SECONDS. A page is never an admin.

        token: the digest of who asks for it, without which the session ends.
        """
        most = Role.OPERATOR if allows(role, Role.OPERATOR) else role
        return self._hold(self._links, TokenEntry(most, token, name), LINK_SECONDS)

    def enter(self, code: str) -> str | None:
        """Return the secret of a new session; None if the code is spent, old or unknown."""
        held = self._links.pop(digest(code), None)
        if held is None or held.until_at <= self._clock.now():
            return None
        return self._hold(self._open, held.entry, SESSION_SECONDS)

    def find(self, secret: str | None) -> TokenEntry | None:
        """Return whose session this is."""
        held = self._open.get(digest(secret)) if secret is not None else None
        return held.entry if held is not None and held.until_at > self._clock.now() else None

    def leave(self, secret: str | None) -> bool:
        """End a session; False if there is none."""
        return secret is not None and self._open.pop(digest(secret), None) is not None

    def _hold(self, table: dict[str, _Held], entry: TokenEntry, seconds: float) -> str:
        now = self._clock.now()
        for key in [key for key, held in table.items() if held.until_at <= now]:
            del table[key]
        while len(table) >= MOST:
            del table[next(iter(table))]
        secret = new_secret(os.urandom(32))
        table[digest(secret)] = _Held(entry, now + seconds)
        return secret
