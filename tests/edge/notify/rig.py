"""A channel on a real database, fed with alerts, in time that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from ds4watch.alerting.grouping import GroupSettings
from ds4watch.history.rows import TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.alert import AlertPhase, AlertState, Transition, fingerprint_of
from ds4watch.model.series import labels_of
from ds4watch.notify.group_channel import GroupChannel
from ds4watch.notify.group_sender import GroupSender
from ds4watch.notify.notifier import Notifier
from ds4watch.telemetry.metrics import Telemetry

START = 1_800_000_000.0
SETTINGS = GroupSettings()


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.at = START
        self.wall_offset = 0.0

    def now(self) -> float:
        return self.at + self.wall_offset

    def monotonic(self) -> float:
        return self.at


def transition(name: str, worker: str, at: float, *, firing: bool, tier: str) -> Transition:
    labels = labels_of({"alertname": name, "severity": tier, "worker": worker})
    return Transition(
        fingerprint=fingerprint_of(labels),
        labels=labels,
        old=AlertPhase.PENDING if firing else AlertPhase.FIRING,
        new=AlertPhase.FIRING if firing else AlertPhase.RESOLVED,
        at=at,
        value=80.0,
        reason="condition held for 3s",
        annotations=labels_of(
            {"summary": "80 requests <wait> & more", "runbook_url": "docs/runbooks/Queue.md"}
        ),
    )


@dataclass
class Rig:
    """What is between a tick and Slack."""

    place: Path
    store: StateStore
    session: aiohttp.ClientSession
    clock: Clock
    telemetry: Telemetry = field(default_factory=Telemetry)
    settings: GroupSettings = SETTINGS
    firing: dict[str, AlertState] = field(default_factory=dict)

    def attach(self, channel: GroupChannel) -> None:
        """Send to this channel; again: as a new daemon does."""
        metrics = self.telemetry.process
        self.sender = GroupSender(
            self.store, channel, self.settings, metrics=metrics, clock=self.clock
        )
        self.notifier = Notifier(
            self.store,
            {channel.name: self.sender},
            self.settings,
            metrics=metrics,
            clock=self.clock,
        )

    async def restart(self, channel: GroupChannel) -> None:
        """Open the database anew, as after a kill."""
        await self.store.close()
        self.store = StateStore.open(self.place, self.clock)
        await self.store.load(self.clock.now())
        self.attach(channel)

    async def tick(
        self, *alerts: tuple[str, str], firing: bool = True, tier: str = "warning"
    ) -> None:
        """Let alerts fire, or resolve."""
        found = [
            transition(name, worker, self.clock.now(), firing=firing, tier=tier)
            for name, worker in alerts
        ]
        for it in found:
            self.firing.pop(it.fingerprint, None)
            if firing:
                self.firing[it.fingerprint] = AlertState(
                    "rule", it.labels, AlertPhase.FIRING, it.at, it.value, fired_at=it.at
                )
        commit = TickCommit(
            at=self.clock.now(),
            alerts=tuple(self.firing.values()),
            transitions=tuple(found),
            messages=tuple(found),
        )
        await self.store.commit_tick(commit)

    async def later(self, seconds: float) -> None:
        """Let time go by, and what is due be sent."""
        self.clock.at += seconds
        await self.notifier.look()
        await self.sender.turn()

    def count(self, outcome: str, channel: str = "slack") -> float:
        line = f'ds4_notifications_total{{channel="{channel}",outcome="{outcome}"}}'
        return self.figure(line)

    def figure(self, line: str) -> float:
        page = self.telemetry.render().decode()
        found = [it for it in page.splitlines() if it.startswith(line)]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0


@asynccontextmanager
async def rig_at(folder: Path, *, timeout_seconds: float = 5.0) -> AsyncIterator[Rig]:
    clock = Clock()
    place = folder / "state.db"
    timeout = aiohttp.ClientTimeout(total=timeout_seconds)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        rig = Rig(place, StateStore.open(place, clock), session, clock)
        await rig.store.load(clock.now())
        yield rig
        await rig.store.close()
