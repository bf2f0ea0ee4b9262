"""One daemon of several on a PostgreSQL: its lease, and what is told of who leads."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from ds4watch.actions.runner import Done, Handler
from ds4watch.config.settings import Settings
from ds4watch.engine.leadership import Leadership
from ds4watch.history.lease import Lease, LeaseFence, LeaseStore, Replica, spool_prefix
from ds4watch.history.place import Place as History
from ds4watch.model.action import ActionPlan
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.ports import Clock


@dataclass(frozen=True, slots=True)
class Held:
    """The lease as this daemon has to do with it."""

    store: LeaseStore
    fence: LeaseFence
    leadership: Leadership

    @property
    def spool_owner(self) -> str:
        """What the names of our spools begin with in the database."""
        return spool_prefix(self.fence.holder)

    @property
    def message(self) -> str:
        """What the audit says of a daemon that begins to lead, or leads on.

        A number is given out once, so only one daemon ever says of it that it leads.
        """
        if self.leadership.was_regained:
            return f"this daemon leads on under lease number {self.fence.number}, {_REGAINED}"
        return f"this daemon leads, lease number {self.fence.number}"


async def open_lease(
    history: History, settings: Settings, holder: str, clock: Clock, stack: AsyncExitStack
) -> Held:
    """Open the lease of a database on a server; it is not taken yet. Raises what Database does."""
    host = socket.gethostname()
    admin_url = f"http://{settings.admin.host}:{settings.admin.port}"
    seconds = settings.store.lease_seconds
    replica = Replica(holder, host, admin_url)
    store = LeaseStore.open(history, replica, clock, seconds=seconds)
    stack.push_async_callback(store.close)
    fence = LeaseFence(holder)
    leadership = Leadership(store, seconds=seconds, elapsed=elapsed, took=fence.take)
    return Held(store, fence, leadership)


_REGAINED = "which it had lost count of and nobody else had meanwhile"


class WhileLeading:
    """A handler that does nothing once the lease may be another daemon's.

    The database refuses what is written then; what is done elsewhere has to be refused here.
    """

    def __init__(self, inner: Handler, may_act: Callable[[], bool]) -> None:
        self._inner = inner
        self._may_act = may_act

    async def run(self, plan: ActionPlan) -> Done:
        """Do it. Raises StoreError if we do not lead any more."""
        if not self._may_act():
            raise StoreError("the lease ran out before it was begun", reason=EdgeReason.LOCKED)
        return await self._inner.run(plan)

    def is_in_force(self, plan: ActionPlan) -> bool:
        """Return whether the action's effect is there."""
        return self._inner.is_in_force(plan)


def elapsed() -> float:
    """Return seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def leader_json(lease: Lease | None) -> dict[str, Any] | None:
    """Return who leads, as the admin API shows it."""
    if lease is None:
        return None
    return {
        "number": lease.number,
        "host": lease.host,
        "admin_url": lease.admin_url,
        "since": lease.taken_at,
        "left_seconds": lease.left_seconds,
    }
