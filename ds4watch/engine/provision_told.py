"""Tells what provisioning does: audit rows with all values, and what of it is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ds4watch.engine.provision_view import Seen
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import UnixSeconds
from ds4watch.policy.provision import Decision, Move, Step

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 300.0
"""In a dry run a profile is not told of more often than this."""
_KEEP_SECONDS = 300.0
_SAID = {Move.CALL: "called", Move.REST: "let go", Move.GIVE_UP: "given up"}


class Book(Protocol):
    """Where things are kept and told."""

    async def add_audit(self, *entries: AuditEntry) -> None:
        """Store audit rows. Raises StoreError."""
        ...

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name. Raises StoreError."""
        ...


class Teller:
    """Tells each thing once."""

    def __init__(self, state: Book) -> None:
        self._state = state
        self._told: dict[str, tuple[UnixSeconds, tuple[object, ...]]] = {}
        self._refused: dict[str, str] = {}
        self._kept_at: UnixSeconds = 0.0
        self._failed = False

    def entries(
        self, look: Seen, decision: Decision, now: UnixSeconds, *, is_dry: bool
    ) -> list[AuditEntry]:
        """Return what is to be told of a look: what is done each time, what would be done once."""
        detail = look.as_json() | {"by": "provisioning", "dry_run": is_dry}
        found = []
        if not is_dry or self._is_news(look.profile, decision, now):
            found = [
                AuditEntry(now, AuditKind.WORKER, it.worker, _said(it, is_dry=is_dry), detail)
                for it in decision.steps
            ]
        refused, before = decision.refused, self._refused.get(look.profile, "")
        self._refused[look.profile] = refused
        if refused and not before:
            summary = f"more workers of {look.profile} are wanted, none is called: {refused}"
            found.append(AuditEntry(now, AuditKind.FLEET, look.profile, summary, detail))
        return found

    async def tell(self, entries: Sequence[AuditEntry]) -> None:
        """Store audit rows; that they could not be is logged once."""
        for entry in entries:
            log.info("%s: %s", entry.subject, entry.summary)
        try:
            await self._state.add_audit(*entries)
        except StoreError as error:
            self._note_failure(error)
        else:
            self._failed = False

    def keeps(self, now: UnixSeconds) -> bool:
        """Return whether it is time to keep what was learned."""
        return abs(now - self._kept_at) >= _KEEP_SECONDS

    async def keep(self, rows: Iterable[tuple[str, Any]], now: UnixSeconds) -> None:
        """Keep what was learned."""
        self._kept_at = now
        try:
            for name, row in rows:
                await self._state.keep_value(name, row)
        except StoreError as error:
            self._note_failure(error)

    def _is_news(self, profile: str, decision: Decision, now: UnixSeconds) -> bool:
        key = tuple((it.worker, it.move) for it in decision.steps)
        at, before = self._told.get(profile, (0.0, ()))
        is_news = bool(key) and key != before and (not before or now - at >= _AGAIN_SECONDS)
        if is_news:
            self._told[profile] = now, key
        return is_news

    def _note_failure(self, error: StoreError) -> None:
        if not self._failed:
            log.warning("rows of provisioning are lost: %s", error)
        self._failed = True


def _said(it: Step, *, is_dry: bool) -> str:
    said = _SAID[it.move]
    told = f"would be {said}, in the dry run only told" if is_dry else f"{said} by provisioning"
    return f"{told}: {it.why}"
