"""Keeps what each profile gave at its last start, and says whether a new worker gives the same."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

from ds4watch.config.profile import Profile
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock
from ds4watch.quality.fingerprint import (
    Fingerprint,
    as_document,
    checksum,
    from_document,
    unlike,
)

log = logging.getLogger(__name__)

PREFIX = "start_check:"
_DECISIVE = {"engine", "model", "prepare", "prepare_args", "precision", "engine_args"}


class BaselineStore(Protocol):
    """Where it is kept."""

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name. Raises StoreError."""

    async def add_audit(self, *entries: AuditEntry) -> None:
        """Store audit rows. Raises StoreError."""


class StartCheck:
    """What a profile gave first is what all its workers are compared with, until a person says so.

    A profile that names another model, or other arguments, is another one. Later starts change
    nothing: a model that drifts in small steps is told too.
    """

    def __init__(self, kept: Mapping[str, Any], store: BaselineStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._baselines: dict[str, Fingerprint] = {}
        for name, value in kept.items():
            known = from_document(value) if name.startswith(PREFIX) else None
            if known:
                self._baselines[name.removeprefix(PREFIX)] = known

    async def judge(self, spec: WorkerSpec, given: Fingerprint) -> str:
        """Return why a worker must not serve; empty if it may."""
        profile, key = spec.profile.name, _key(spec.profile)
        before = self._baselines.get(key)
        if before is None:
            await self._keep(key, profile, given)
            return ""
        told = unlike(before, given)
        if not told:
            return ""
        return (
            f"it is not the model that {profile} was before ({told}; checksum {checksum(given)}, "
            f"it was {checksum(before)}): if the new one is right, `ds4watch quality accept "
            f"{profile}` and start it"
        )

    async def forget(self, profile: str, *, who: str, why: str) -> bool:
        """Have the next start of a profile be its new baseline; False if none is kept."""
        keys = [it for it in self._baselines if it.partition("@")[0] == profile]
        if not keys:
            return False
        for key in keys:
            await self._store.keep_value(PREFIX + key, None)
            del self._baselines[key]
        summary = f"what {profile} gives at its next start is accepted: {why}"
        entry = AuditEntry(self._clock.now(), AuditKind.QUALITY, profile, summary, who=who)
        await self._store.add_audit(entry)
        return True

    async def _keep(self, key: str, profile: str, given: Fingerprint) -> None:
        self._baselines[key] = given
        summary = f"start check of {profile}: checksum {checksum(given)} is what it is to give"
        entry = AuditEntry(self._clock.now(), AuditKind.QUALITY, profile, summary)
        try:
            await self._store.keep_value(PREFIX + key, as_document(given))
            await self._store.add_audit(entry)
        except StoreError as error:
            log.warning("what %s gives at a start could not be kept: %s", profile, error)


def _key(profile: Profile) -> str:
    """Return a name for what a profile runs: its own name, and a digest of what answers follow."""
    runs = profile.model_dump(mode="json", include=_DECISIVE)
    digest = sha256(json.dumps(runs, sort_keys=True).encode()).hexdigest()
    return f"{profile.name}@{digest[:16]}"
