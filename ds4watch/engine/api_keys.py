"""The gateway's API keys: kept in the state as digests, given to gateways with what is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ds4watch.cost.key_spending import spent_by_key
from ds4watch.history.asked_values import StoredKey
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.budget_speed import Speeds
from ds4watch.model.errors import RefusedError, StoreError
from ds4watch.model.key_budget import BudgetLeft, KeyBudget, KeyUse, Span, budget_left, span_of
from ds4watch.model.key_easing import Ease, KeyStanding, ease_of, standings_of
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.limits import Limits
from ds4watch.model.money import Nanos
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.service_policy import ApiKey

log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_HOUR_SECONDS = 3600.0
MAX_KEYS = 2000
"""The board carries them all, every second."""

SetApart = Callable[[UnixSeconds], Mapping[str, Sequence[KeyStanding]]]


class KeyStore(Protocol):
    """Where keys and the ledger are."""

    async def save_key(self, key: StoredKey, entry: AuditEntry) -> None:
        """Store a key with its audit row."""
        ...

    async def key_use(
        self, start_at: UnixSeconds
    ) -> tuple[list[KeyUse], dict[tuple[UnixSeconds, str], Nanos]]:
        """Return tokens by key, and the money of busy workers, of the hours from then on."""
        ...


class KeyBoard(Protocol):
    """Who tells gateways."""

    def publish_keys(self, keys: tuple[ApiKey, ...]) -> None:
        """Give gateways these keys."""
        ...


class ApiKeys:
    """All keys, those that were revoked too."""

    def __init__(
        self,
        stored: Iterable[StoredKey],
        store: KeyStore,
        board: KeyBoard,
        clock: Clock,
        *,
        gentle: Sequence[Limits] = (),
    ) -> None:
        """gentle: what a key is eased to before its budget runs out, the gentlest first."""
        self._keys = {key.name: key for key in stored}
        self._store = store
        self._board = board
        self._clock = clock
        self._spent: dict[str, dict[UnixSeconds, Nanos]] = {}
        self._read_from: UnixSeconds | None = None
        self._published: tuple[ApiKey, ...] | None = None
        self._is_failing = False
        self._gentle = tuple(gentle)
        self._eases: dict[str, Ease] = {}
        self._speeds = Speeds()
        self.set_apart: SetApart = lambda _now: {}
        """How budgets of `cost.budgets` for single keys stand; they ease those, and end nothing."""

    async def run(self) -> None:
        """Keep budgets and what has run out up to date for ever."""
        while True:
            await self.refresh()
            await asyncio.sleep(_LOOK_SECONDS)

    async def refresh(self) -> None:
        """Read what was spent, if there are budgets, and publish what has changed."""
        now = self._clock.now()
        if any(key.budget.limits() for key in self._live(now)):
            try:
                await self._read_spent(now)
            except StoreError as error:
                if not self._is_failing:
                    log.warning("what keys have spent cannot be read; budgets stand: %s", error)
                self._is_failing = True
            else:
                self._is_failing = False
        self.publish()

    def publish(self) -> None:
        """Give gateways the keys that hold now, if they are others than before."""
        now = self._clock.now()
        set_apart = self.set_apart(now)
        keys = tuple(
            replace(it, eased=self._eased(self._keys[it.name], set_apart.get(it.name, ()), now))
            for it in board_keys(self._keys.values(), now, lambda key: self._left(key, now))
        )
        if keys != self._published:
            self._published = keys
            self._board.publish_keys(keys)

    def listed(self) -> list[dict[str, Any]]:
        """Return what may be told of each key: neither secrets nor digests."""
        now = self._clock.now()
        return [self._told(key, now) for _, key in sorted(self._keys.items())]

    async def add(self, key: StoredKey, *, who: str, why: str, dry_run: bool = False) -> None:
        """Store a new key and let it in. Raises RefusedError if its name is taken, StoreError."""
        now = self._clock.now()
        known = self._keys.get(key.name)
        if known is not None and known.is_live(now):
            message = f"there is a key {key.name}: revoke it first, or rotate it"
            raise RefusedError(message)
        if len(list(self._live(now))) >= MAX_KEYS:
            message = f"there are {MAX_KEYS} keys, and no more can be kept: revoke some"
            raise RefusedError(message)
        if not dry_run:
            await self._save(replace(key, created_at=now), "added", who=who, why=why)

    async def revoke(self, name: str, *, who: str, why: str, dry_run: bool = False) -> bool:
        """End a key; False if there is none of the name. Raises StoreError."""
        key = self._keys.get(name)
        now = self._clock.now()
        if key is None or not key.is_live(now):
            return False
        gone = replace(key, revoked_at=now, old_sha256="", old_until_at=None)
        if not dry_run:
            await self._save(gone, "revoked", who=who, why=why)
        return True

    async def rotate(
        self,
        name: str,
        *,
        sha256: str,
        signing: str,
        grace_seconds: float,
        who: str,
        why: str,
        dry_run: bool = False,
    ) -> bool:
        """Give a key another secret; the old one is good for a while yet, but not for signing.

        False if there is none of the name. Raises RefusedError, StoreError.
        """
        key = self._keys.get(name)
        now = self._clock.now()
        if key is None or not key.is_live(now):
            return False
        if bool(key.signing) != bool(signing):
            message = f"{name} {'signs' if key.signing else 'does not sign'} its requests"
            raise RefusedError(message)
        fresh = replace(
            key,
            sha256=sha256,
            signing=signing,
            old_sha256=key.sha256 if grace_seconds and not signing else "",
            old_until_at=now + grace_seconds if grace_seconds and not signing else None,
        )
        if not dry_run:
            await self._save(fresh, "rotated", who=who, why=why)
        return True

    async def _save(self, key: StoredKey, what: str, *, who: str, why: str) -> None:
        now = self._clock.now()
        detail = {"why": why, "limits": key.limits.as_json(), "budget": key.budget.as_json()}
        summary = f"{what}: {why}" if why else what
        entry = AuditEntry(now, AuditKind.KEY, key.name, summary, detail, who=who)
        await self._store.save_key(key, entry)
        self._keys[key.name] = key
        await self.refresh()

    def _live(self, now: UnixSeconds) -> Iterator[StoredKey]:
        return (key for _, key in sorted(self._keys.items()) if key.is_live(now))

    def _left(self, key: StoredKey, now: UnixSeconds) -> BudgetLeft | None:
        return budget_left(key.budget, self._spent.get(key.name, {}).items(), now)

    def standings(self) -> list[tuple[str, Ease, tuple[KeyStanding, ...]]]:
        """Return how far each key with a budget is eased, and how its budgets stand."""
        now = self._clock.now()
        return [
            (key.name, self._eases.get(key.name, Ease.NONE), self._standings(key, now))
            for key in self._live(now)
            if key.budget.limits()
        ]

    def _standings(self, key: StoredKey, now: UnixSeconds) -> tuple[KeyStanding, ...]:
        return self._speeds.told(key.name, self._at_rest(key, now), now)

    def _at_rest(self, key: StoredKey, now: UnixSeconds) -> tuple[KeyStanding, ...]:
        return standings_of(key.budget, self._spent.get(key.name, {}), now)

    def _eased(
        self, key: StoredKey, set_apart: Sequence[KeyStanding], now: UnixSeconds
    ) -> Limits | None:
        """Return what a key is eased to, and note it; the log tells of each change."""
        before = self._eases.get(key.name, Ease.NONE)
        standings = (*self._standings(key, now), *set_apart)
        ease = ease_of(standings, before) if self._gentle else Ease.NONE
        if ease is not before:
            self._eases[key.name] = ease
            log.warning("key %s: eased before its budget runs out: %s", key.name, ease.name.lower())
        if ease is Ease.NONE:
            return None
        return self._gentle[min(ease, len(self._gentle)) - 1]

    async def _read_spent(self, now: UnixSeconds) -> None:
        """Read the month at first, then the hours that may still change: this and the last."""
        month, _ = span_of(Span.MONTH, now)
        start = month
        if self._read_from == month:
            start = max(month, now // _HOUR_SECONDS * _HOUR_SECONDS - _HOUR_SECONDS)
        else:
            self._spent = {}
        fresh = spent_by_key(*await self._store.key_use(start))
        self._read_from = month
        for name, hours in fresh.items():
            self._spent.setdefault(name, {}).update(hours)
        for key in self._live(now):
            self._speeds.note(key.name, self._at_rest(key, now), now)

    def _told(self, key: StoredKey, now: UnixSeconds) -> dict[str, Any]:
        left = self._left(key, now)
        return {
            "name": key.name,
            "status": key.status(now),
            "signs": bool(key.signing),
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
            "limits": key.limits.as_json(),
            "budget": key.budget.as_json(),
            "left": None if left is None else left.as_json(),
            "eased": self._eases.get(key.name, Ease.NONE).name.lower(),
        }


def board_keys(
    stored: Iterable[StoredKey],
    now: UnixSeconds,
    left: Callable[[StoredKey], BudgetLeft | None] = lambda _key: None,
) -> Iterator[ApiKey]:
    """Yield what gateways are told of the keys that hold; what a rotation left good, too."""
    for key in sorted(stored, key=lambda key: key.name):
        if not key.is_live(now):
            continue
        one = ApiKey(key.name, key.sha256, key.limits, key.expires_at, left(key), key.signing)
        yield one
        if key.old_until_at is not None and key.old_until_at > now:
            yield replace(one, sha256=key.old_sha256, expires_at=key.old_until_at)


def recovered(keys: Iterable[ApiKey]) -> list[StoredKey]:
    """Return the keys of a board, for a state that was lost; their budgets are lost with it."""
    found = {
        key.name: StoredKey(
            name=key.name,
            sha256=key.sha256,
            signing=key.signing,
            limits=key.limits,
            budget=KeyBudget(),
            created_at=0.0,
            expires_at=key.expires_at,
        )
        for key in reversed(tuple(keys))
    }
    if found:
        log.warning("the state was lost: %s API keys are taken from the last board", len(found))
    return list(found.values())


def stored_key(body: Mapping[str, Any]) -> StoredKey:
    """Return the key that a request describes. Raises ValueError, TypeError."""
    return StoredKey(
        name=body["name"],
        sha256=body["sha256"],
        signing=body["signing"],
        limits=KeyLimits.from_json(body["limits"]),
        budget=KeyBudget.from_json(body["budget"]),
        created_at=0.0,
        expires_at=body["expires_at"],
    )
