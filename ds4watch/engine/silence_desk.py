"""Silences as people place and end them: stored, then known to the next tick."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ds4watch.alerting.silences import muted_told, read_matchers, unmuted_told
from ds4watch.engine.parts import Known
from ds4watch.history.desk import Desk
from ds4watch.model.alert import AlertPhase, AlertState
from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.silence import Silence

MAX_SECONDS = 365 * 86_400.0
_ENDED_SHOWN = 1000


class SilenceDesk:
    """Places, ends and lists silences; `known` is told at once."""

    def __init__(self, desk: Desk, known: Known, clock: Clock) -> None:
        self._desk = desk
        self._known = known
        self._clock = clock

    async def place(
        self,
        *,
        matchers: Sequence[str],
        until: UnixSeconds,
        why: str,
        who: str,
        starts_at: UnixSeconds | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Store a silence and return it, and in `told` whom it mutes. Raises RefusedError."""
        now = self._clock.now()
        begins = now if starts_at is None else max(now, starts_at)
        if until <= begins:
            raise RefusedError("until: the silence would end before it begins")
        if until > now + MAX_SECONDS:
            raise RefusedError(f"until: must be within {MAX_SECONDS / 86_400:.0f} days")
        silence = Silence(
            id=str(uuid.uuid4()),
            matchers=read_matchers(matchers),
            starts_at=begins,
            ends_at=until,
            who=who,
            why=why,
            placed_at=now,
        )
        told = muted_told([it.labels for it in self._firing()], silence)
        if not dry_run:
            await self._desk.place_silence(silence)
            await self._refresh()
        return {**silence.as_json(), "told": told}

    async def expire(self, silence_id: str, *, who: str, dry_run: bool = False) -> str | None:
        """End a silence; return what people are told of then, None if there is none such."""
        now = self._clock.now()
        found = next((it for it in await self._desk.silences(now) if it.id == silence_id), None)
        if found is None:
            return None
        told = unmuted_told([it.labels for it in self._firing()], found)
        if dry_run:
            return told
        ended = await self._desk.expire_silence(silence_id, who=who, at=self._clock.now())
        await self._refresh()
        return None if ended is None else told

    async def one(self, silence_id: str) -> dict[str, Any] | None:
        """Return a silence by its id, one that is over too."""
        found = await self._desk.silence(silence_id)
        return None if found is None else dict(found.as_json())

    async def listed(self, *, over: bool) -> list[dict[str, Any]]:
        """Return the silences in force and to come; with `over` also those that ended last."""
        now = self._clock.now()
        found = await self._desk.silences(now)
        if over:
            found += await self._desk.ended_silences(now, _ENDED_SHOWN)
        return [dict(it.as_json()) for it in found]

    def _firing(self) -> list[AlertState]:
        return [it for it in self._known.alerts if it.phase is AlertPhase.FIRING]

    async def _refresh(self) -> None:
        self._known.silences = await self._desk.silences(self._clock.now())
