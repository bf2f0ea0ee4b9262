"""Keeps the targets of all groups up to date, in the background, and tells what goes wrong."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from ds4watch.model.scrape import Target
from ds4watch.scrape.groups import GroupPlan
from ds4watch.scrape.sources import FileSource, Found
from ds4watch.scrape.targets import Refusal, Resolved, resolve, without_duplicates
from ds4watch.telemetry.metrics import ProcessMetrics

FIRST_ROUND_SECONDS = 3.0
_TOLD_AT_ONCE = 5

log = logging.getLogger(__name__)


class Source(Protocol):
    """Something that lists targets."""

    refresh_seconds: float

    async def read(self) -> Found:
        """Return what is listed now; never raises for the outside's sake."""
        ...


@dataclass(slots=True)
class _Entry:
    """A source, what it said last (None before its first word), and the first time it is asked."""

    source: Source
    found: Found | None = None
    first: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Group:
    plan: GroupPlan
    entries: list[_Entry]
    resolved: Resolved = field(default_factory=Resolved)

    async def resolve(self) -> None:
        """Make targets of all that is listed; in a thread, for it can be thousands."""
        listings = list(self.plan.static)
        for entry in self.entries:
            listings += entry.found.listings if entry.found else ()
        self.resolved = await asyncio.to_thread(resolve, self.plan.rules, listings, self.resolved)


class Discovery:
    """The targets that were found. Use as an async context manager, and let `run` run.

    `targets` is the same object as long as nothing changes, and so is each unchanged target in it.
    """

    def __init__(self, plans: Sequence[GroupPlan], metrics: ProcessMetrics) -> None:
        self.targets: tuple[Target, ...] = ()
        self._plans = plans
        self._metrics = metrics
        self._groups: list[_Group] = []
        self._changing = asyncio.Lock()
        self._told_faults: dict[tuple[str, str], str] = {}
        self._told_refusals: frozenset[Refusal] = frozenset()

    async def __aenter__(self) -> Self:
        """Ask every source once; one that is slow is waited for elsewhere."""
        self._groups = [_Group(plan, _entries(plan)) for plan in self._plans]
        for group in self._groups:
            await group.resolve()
        self._publish()
        for group, entry in self._every():
            entry.first = asyncio.create_task(self._refresh(group, entry))
        if first := self._first():
            await asyncio.wait(first, timeout=FIRST_ROUND_SECONDS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._first():
            task.cancel()
        await asyncio.gather(*self._first(), return_exceptions=True)

    @property
    def is_settled(self) -> bool:
        """Whether each source has had its say: who is not in `targets` now is gone."""
        return all(entry.found is not None and entry.found.is_whole for _, entry in self._every())

    async def run(self) -> None:
        """Ask each source at its interval, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for group, entry in self._every():
                tasks.create_task(self._keep(group, entry))
            await asyncio.Event().wait()

    async def _keep(self, group: _Group, entry: _Entry) -> None:
        if entry.first is not None:
            await entry.first
        while True:
            await asyncio.sleep(entry.source.refresh_seconds)
            await self._refresh(group, entry)

    async def _refresh(self, group: _Group, entry: _Entry) -> None:
        found = await entry.source.read()
        self._tell_faults(group.plan.rules.name, entry, found)
        async with self._changing:
            before, entry.found = entry.found, found
            if before is None or before.listings != found.listings:
                await group.resolve()
                self._publish()

    def _every(self) -> list[tuple[_Group, _Entry]]:
        return [(group, entry) for group in self._groups for entry in group.entries]

    def _first(self) -> list[asyncio.Task[None]]:
        return [entry.first for _, entry in self._every() if entry.first is not None]

    def _publish(self) -> None:
        found = without_duplicates([group.resolved for group in self._groups])
        known = {target.name: target for target in self.targets}
        same = [known.get(it.name) for it in found.targets]
        targets = tuple(
            old if old == new else new for old, new in zip(same, found.targets, strict=True)
        )
        if targets != self.targets:
            log.info("discovery: %d targets, %d before", len(targets), len(self.targets))
            self.targets = targets
        counts = Counter(target.group for target in targets)
        for name in (group.plan.rules.name for group in self._groups):
            self._metrics.discovery_targets.labels(name).set(counts[name])
        self._tell_refusals(
            [*(it for group in self._groups for it in group.resolved.refusals), *found.refusals]
        )

    def _tell_refusals(self, refusals: Sequence[Refusal]) -> None:
        fresh = [it for it in dict.fromkeys(refusals) if it not in self._told_refusals]
        for refusal in fresh[:_TOLD_AT_ONCE]:
            log.warning("scrape group %s: refused %s", refusal.group, refusal.message)
        if len(fresh) > _TOLD_AT_ONCE:
            log.warning("%d more targets are refused", len(fresh) - _TOLD_AT_ONCE)
        for refusal in refusals:
            if refusal not in self._told_refusals:
                self._metrics.discovery_failures.labels(refusal.group, refusal.kind.value).inc()
        self._told_refusals = frozenset(refusals)

    def _tell_faults(self, group: str, entry: _Entry, found: Found) -> None:
        """Log the first of a row of like failures, and the recovery; count each."""
        now = {(group, fault.place): fault for fault in found.faults}
        rest = "its last list holds" if found.is_whole else "it has not listed any targets yet"
        before = {(group, it.place) for it in entry.found.faults} if entry.found else set()
        for key in before - now.keys():
            self._told_faults.pop(key, None)
            log.info("scrape group %s: %s is good again, or no longer there", *key)
        for key, fault in now.items():
            self._metrics.discovery_failures.labels(group, fault.kind.value).inc()
            if self._told_faults.get(key) != fault.message:
                self._told_faults[key] = fault.message
                log.warning("scrape group %s: %s: %s; %s", *key, fault.message, rest)


def _entries(plan: GroupPlan) -> list[_Entry]:
    files = [_Entry(FileSource(it)) for it in plan.files]
    if not plan.webs:
        return files
    web: Any = importlib.import_module("ds4watch.scrape.web_source")
    return [*files, *(_Entry(web.WebSource(it)) for it in plan.webs)]
