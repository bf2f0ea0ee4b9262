"""Keeps what each profile gave at its last start, and says whether a new worker gives the same."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ds4watch.engine.start_baseline import (
    PREFIX,
    Baseline,
    baseline_of,
    begun,
    model_of,
    too_many,
)
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.history.rows import AuditEntry, AuditKind
from ds4watch.model.errors import StoreError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.quality.fingerprint import Fingerprint, checksum, unlike

log = logging.getLogger(__name__)


class BaselineStore(Protocol):
    """Where it is kept."""

    async def keep_value(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name; None forgets it. Raises StoreError."""

    async def add_audit(self, *entries: AuditEntry) -> None:
        """Store audit rows. Raises StoreError."""


class StartCheck:
    """What a profile gave first is what all its workers are compared with, until a person says so.

    A profile that names another model, or other arguments, is another one. Of later starts only
    what they differ by is learnt: a model that drifts in small steps is told too. What is only a
    doubt keeps no worker from serving that is missed, and is told: `doubts` says why, by worker.
    """

    def __init__(
        self,
        kept: Mapping[str, Any],
        store: BaselineStore,
        clock: Clock,
        *,
        is_missed: Callable[[str], bool] = lambda _profile: False,
        device: Callable[[], str] = lambda: "",
    ) -> None:
        """is_missed: whether a profile, or the fleet, has too few workers that serve.

        device: the kind of this machine's GPUs.
        """
        self._store = store
        self._clock = clock
        self._is_missed = is_missed
        self._device = device
        self._baselines: dict[str, Baseline] = {}
        self.doubts: dict[str, Doubt] = {}
        """By worker, since the daemon's start; until it starts without, or a person accepts it."""
        for name, value in kept.items():
            known = baseline_of(value) if name.startswith(PREFIX) else None
            if known is not None:
                self._baselines[name] = known

    async def judge(
        self, spec: WorkerSpec, given: Fingerprint, version: str, *, again: Fingerprint
    ) -> str:
        """Return why a worker must not serve; empty if it may.

        version: of its engine. again: what it gave when asked once more, one by one.
        """
        now, device = self._clock.now(), self._device()
        mine = begun(spec.profile, given, again, version=version, device=device, at=now)
        before = self._baselines.get(mine.name)
        if before is None:
            await self._begin(spec.id, mine)
            return ""
        found = unlike(before.given, given, before.noise)
        if found is None:
            self.doubts.pop(spec.id, None)
            await self._keep(before.with_start(given, again, now))
            return ""
        profile = spec.profile.name
        told = (
            f"it is not the model that {profile} was before ({found.told}; checksum "
            f"{checksum(given)}, it was {checksum(before.given)}): if the new one is right, "
            f"`ds4watch quality accept {profile}` and start it"
        )
        if not found.is_certain and self._is_missed(profile):
            await self._doubt(
                spec.id, profile, f"it may be that {told}; it is missed, so it serves"
            )
            return ""
        return told

    def judge_silent(self, spec: WorkerSpec, why: str) -> str:
        """Return why a worker that tells nothing must not serve; empty if its model never did."""
        profile, model = spec.profile.name, model_of(spec.profile)
        known = {(it.profile, it.model) for it in self._baselines.values()}
        if (profile, model) not in known:
            return ""
        return (
            f"it tells no log-probabilities, as {profile} did before ({why}): if that is right, "
            f"`ds4watch quality accept {profile}` and start it"
        )

    async def forget(self, profile: str, *, who: str, why: str) -> bool:
        """Have the next start of a profile be its new baseline; False if none is kept."""
        names = [name for name, it in self._baselines.items() if it.profile == profile]
        if not names:
            return False
        for name in names:
            await self._store.keep_value(name, None)
            del self._baselines[name]
        for worker in [name for name, it in self.doubts.items() if it.profile == profile]:
            del self.doubts[worker]
        summary = f"what {profile} gives at its next start is accepted: {why}"
        entry = AuditEntry(self._clock.now(), AuditKind.QUALITY, profile, summary, who=who)
        await self._store.add_audit(entry)
        return True

    async def _begin(self, worker: str, mine: Baseline) -> None:
        """Take what is given at a new place for what is to be given there, and tell of a change."""
        others = [
            it
            for it in self._baselines.values()
            if (it.profile, it.model) == (mine.profile, mine.model)
        ]
        found = [unlike(it.given, mine.given) for it in others]
        told = f"checksum {checksum(mine.given)} is what it is to give"
        self.doubts.pop(worker, None)
        if found and all(found):
            moved = next(it.told for it in found if it is not None)
            told += f", with another engine, GPU or batch than before: {moved}"
            self.doubts[worker] = Doubt(mine.profile, told)
            log.warning("%s: start check of %s: %s", worker, mine.profile, told)
        entry = _entry(self._clock.now(), mine.profile, f"start check of {mine.profile}: {told}")
        await self._keep(mine, entry)

    async def _keep(self, mine: Baseline, *entries: AuditEntry) -> None:
        """Keep it, and forget what was not used for longest if there are too many."""
        self._baselines[mine.name] = mine
        old = too_many(self._baselines.values())
        for it in old:
            del self._baselines[it.name]
        try:
            await self._store.keep_value(mine.name, mine.as_json())
            for it in old:
                await self._store.keep_value(it.name, None)
            await self._store.add_audit(*entries)
        except StoreError as error:
            log.warning("what %s gives at a start could not be kept: %s", mine.profile, error)

    async def _doubt(self, worker: str, profile: str, told: str) -> None:
        log.warning("%s: %s", worker, told)
        self.doubts[worker] = Doubt(profile, told)
        with contextlib.suppress(StoreError):
            await self._store.add_audit(_entry(self._clock.now(), worker, told))


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a worker that serves may be another model."""

    profile: str
    told: str


def is_missed(workers: Iterable[WorkerView], profile: str, min_hot: int) -> bool:
    """Return whether nobody of a profile is ready, or of all fewer than `min_hot`."""
    ready = [it.profile for it in workers if it.phase is WorkerPhase.READY]
    return profile not in ready or len(ready) < min_hot


def doubt_samples(doubts: Mapping[str, Doubt]) -> list[Sample]:
    """Return the workers that serve though their start gave something else than before."""
    return [
        Sample("ds4_start_check_doubt", labels_of({"worker": worker, "profile": it.profile}), 1.0)
        for worker, it in doubts.items()
    ]


def _entry(at: UnixSeconds, target: str, summary: str) -> AuditEntry:
    return AuditEntry(at, AuditKind.QUALITY, target, summary)
