"""What a person wishes of workers: kept in the state, told to the supervisor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ds4watch.fleet.start_times import StartTimes
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.fleet.wish import By, Wanted, Wish
from ds4watch.history.asked_values import WorkerWish
from ds4watch.history.rows import StartTime
from ds4watch.history.state import StateStore
from ds4watch.model.errors import RefusedError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import WorkerPhase

_WISHES = {
    "drain": Wish.DRAINED,
    "stop": Wish.STOPPED,
    "sleep": Wish.ASLEEP,
    "wake": Wish.READY,
}
_COMES_BACK = ("restart", "fresh")
_TAKES_AWAY = ("drain", "stop", "sleep", *_COMES_BACK)
_DONE = {
    "drain": "taken out of the routing",
    "stop": "to be drained and stopped",
    "start": "left to the settings again; a quarantine is lifted",
    "fresh": "to be started as its profile says, with all memory steps taken back",
    "restart": "to be drained and started anew",
    "sleep": "to be drained and put to sleep",
    "wake": "to be kept ready",
}


class PersonWishes:
    """The wishes of persons, one a worker: a new one takes the place of the last."""

    def __init__(
        self, supervisor: Supervisor, state: StateStore, clock: Clock, stored: Iterable[WorkerWish]
    ) -> None:
        self._supervisor = supervisor
        self._state = state
        self._clock = clock
        self._wishes = {wish.worker: wish for wish in stored}

    async def tell(self) -> None:
        """Tell the supervisor all that is wished."""
        wanted = {name: _wanted(wish) for name, wish in self._wishes.items()}
        await self._supervisor.wish(By.PERSON, wanted)

    async def steer(
        self, worker: str, verb: str, *, who: str, why: str, dry_run: bool = False
    ) -> str | None:
        """Store and follow a person's wish; return what is going to happen, None: no such worker.

        A dry run checks it and tells what would happen.

        Raises RefusedError if the worker cannot be that, StoreError if it cannot be stored.
        """
        view = next((it for it in self._supervisor.views() if it.id == worker), None)
        if view is None:
            return None
        limits = self._supervisor.limits_of(worker)
        if limits.is_foreign and verb not in ("drain", "start"):
            message = f"{worker} is run by somebody else: it can be drained, and started again"
            raise RefusedError(message)
        if verb == "sleep" and not limits.can_sleep:
            message = f"{worker} has no sleep mode: its profile needs `sleep: true`"
            raise RefusedError(message)
        if dry_run:
            return f"dry run: {worker}: {_DONE[verb]}; {self._left(worker, verb)}; nothing is done"
        now = self._clock.now()
        fresh = WorkerWish(worker, None, None, None, who, why, now)
        wish = _after(self._wishes.get(worker, fresh), verb, now)
        wish = replace(wish, who=who, why=why, at=now)
        await self._state.save_worker_wish(wish, f"{verb}: {why}")
        self._wishes[worker] = wish
        if verb == "fresh":
            told = f"all memory steps are taken back by {who}: {why}"
            await self._supervisor.ladders.forget(worker, told)
        await self.tell()
        return f"{worker}: {_DONE[verb]}"

    def _left(self, worker: str, verb: str) -> str:
        """Return how many workers get requests once one is what is asked of it, in words."""
        ready = {it.id for it in self._supervisor.views() if it.phase is WorkerPhase.READY}
        left = ready - {worker} if verb in _TAKES_AWAY else ready
        meanwhile = " meanwhile" if verb in _COMES_BACK else ""
        return f"{len(left)} workers are ready{meanwhile}, {len(ready)} are now"


def learned(starts: Iterable[StartTime]) -> StartTimes:
    """Return what is known of start-up times."""
    known: dict[str, list[float]] = {}
    for start in starts:
        known.setdefault(start.profile, []).append(start.took_seconds)
    return StartTimes(known)


def _after(wish: WorkerWish, verb: str, now: UnixSeconds) -> WorkerWish:
    if verb == "restart":
        is_stopped = wish.wish == Wish.STOPPED
        return replace(wish, wish=None if is_stopped else wish.wish, restart_at=now, pardon_at=now)
    if verb == "fresh":
        return replace(wish, wish=None, restart_at=now, pardon_at=now)
    if verb == "start":
        return replace(wish, wish=None, pardon_at=now)
    return replace(wish, wish=_WISHES[verb].value)


def _wanted(wish: WorkerWish) -> Wanted:
    return Wanted(
        wish=Wish(wish.wish) if wish.wish is not None else None,
        restart_at=wish.restart_at or 0.0,
        pardon_at=wish.pardon_at or 0.0,
        why=f"{wish.who}: {wish.why}" if wish.why else wish.who,
    )
