"""What a person may ask for over the admin API (web.ports.AdminCommands)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ds4watch.engine.api_keys import ApiKeys, stored_key
from ds4watch.engine.parts import Parts
from ds4watch.engine.person_wishes import PersonWishes
from ds4watch.engine.rolling_commands import RollingCommands
from ds4watch.engine.tick import Engine
from ds4watch.model.action import Hold
from ds4watch.model.ports import Clock
from ds4watch.policy.rehearsal import Scene, hold_told, lift_told


class Commands:
    """Stores what was asked for and wakes the engine; nothing is done here."""

    def __init__(
        self,
        engine: Engine,
        parts: Parts,
        wishes: PersonWishes,
        rolling: RollingCommands,
        keys: ApiKeys,
        clock: Clock,
    ) -> None:
        self._steering = parts.steering
        self._keys = keys
        self._engine = engine
        self._state = parts.state
        self._wishes = wishes
        self._rolling = rolling
        self._clock = clock

    async def hold(
        self, *, target: str, seconds: float, who: str, why: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Forbid actions on `target` for so long; return the hold, and what it holds back."""
        now = self._clock.now()
        hold = Hold(target=target, until_at=now + seconds, who=who, why=why, placed_at=now)
        told = self._told(lambda scene: hold_told(scene, hold))
        if not dry_run:
            await self._state.place_hold(hold)
            await self._refresh()
        return {
            "told": told,
            "target": target,
            "until_at": hold.until_at,
            "who": who,
            "why": why,
            "placed_at": now,
        }

    async def lift(self, *, target: str, who: str, dry_run: bool = False) -> str | None:
        """End the holds on `target`; return what that lets go, None if there were none."""
        now = self._clock.now()
        told = self._told(lambda scene: lift_told(scene, target))
        if dry_run:
            held = any(it.target == target for it in await self._state.holds(now))
            return told if held else None
        lifted = await self._state.lift_hold(target, who=who, at=now)
        await self._refresh()
        return told if lifted else None

    async def steer(
        self, *, worker: str, verb: str, who: str, why: str, dry_run: bool = False
    ) -> str | None:
        """Wish something of a worker; return what follows, None if there is no such worker."""
        return await self._wishes.steer(worker, verb, who=who, why=why, dry_run=dry_run)

    async def apply(
        self, *, file: str | None, plan: str | None, dry_run: bool, who: str, why: str
    ) -> dict[str, Any]:
        """Plan the change of the fleet to what the files say, and begin it unless `dry_run`."""
        return await self._rolling.apply(file=file, plan=plan, dry_run=dry_run, who=who, why=why)

    async def steer_change(self, *, verb: str, who: str, why: str, dry_run: bool = False) -> str:
        """Pause, resume or abort the rolling change; return what follows."""
        return await self._rolling.steer(verb, who=who, why=why, dry_run=dry_run)

    def keys(self) -> list[dict[str, Any]]:
        """Return what may be told of each API key."""
        return self._keys.listed()

    async def add_key(
        self, *, key: Mapping[str, Any], who: str, why: str, dry_run: bool = False
    ) -> None:
        """Let a new key in."""
        await self._keys.add(stored_key(key), who=who, why=why, dry_run=dry_run)

    async def revoke_key(self, *, name: str, who: str, why: str, dry_run: bool = False) -> bool:
        """End a key; False if there is none."""
        return await self._keys.revoke(name, who=who, why=why, dry_run=dry_run)

    async def rotate_key(
        self,
        *,
        name: str,
        sha256: str,
        signing: str,
        grace_seconds: float,
        who: str,
        why: str,
        dry_run: bool = False,
    ) -> bool:
        """Give a key another secret; False if there is none."""
        return await self._keys.rotate(
            name,
            sha256=sha256,
            signing=signing,
            grace_seconds=grace_seconds,
            who=who,
            why=why,
            dry_run=dry_run,
        )

    def wake(self) -> None:
        """Let the next evaluation begin at once."""
        self._engine.wake()

    def _told(self, rehearse: Callable[[Scene], str]) -> str:
        """Return what a rehearsal of the next tick says; nothing where nobody decides."""
        known = self._engine.known
        if self._steering is None:
            return ""
        return rehearse(self._steering.scene(known.alerts, known.holds))

    async def _refresh(self) -> None:
        self._engine.known.holds = await self._state.holds(self._clock.now())
        self._engine.wake()
