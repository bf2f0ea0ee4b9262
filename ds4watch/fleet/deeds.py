"""Does what the machine says for one worker, and tells what was seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ds4watch.fleet.backend import LocalBackend
from ds4watch.fleet.last_words import last_words, size_of
from ds4watch.fleet.life import Deed, LifeLimits, Seen
from ds4watch.fleet.lifecycle import MAY_DIE
from ds4watch.fleet.stillness import canary_ended, canary_sent
from ds4watch.fleet.tended import Tended
from ds4watch.model.errors import WorkerError
from ds4watch.model.ports import Clock

if TYPE_CHECKING:
    from ds4watch.fleet.client import WorkerClient

_SLEEP_LEVEL = 1
"""Weights stay in memory; from level 2 they would be garbage until loaded again."""


class Deeds:
    """The hands of the supervisor."""

    def __init__(
        self, backend: LocalBackend, client_of: Callable[[str], WorkerClient], clock: Clock
    ) -> None:
        self._backend = backend
        self._client_of = client_of
        self._clock = clock

    async def start(self, worker: Tended) -> None:
        """Start a worker. Raises WorkerError."""
        worker.begins(size_of(self._backend.log_path(worker.spec)))
        await self._backend.start(worker.spec)

    async def do(self, worker: Tended, todo: Deed, limits: LifeLimits) -> Seen:
        """Do a deed other than a start and return what was seen of the worker."""
        spec = worker.spec
        if todo is Deed.STOP:
            return Seen(alive=False, gone=await self._backend.stop(spec))
        if worker.life.phase not in MAY_DIE and todo is Deed.NOTHING:
            return Seen(alive=False)
        if not self._backend.is_alive(spec):
            return self._death_of(worker)
        if todo is Deed.NOTHING:
            return Seen(alive=True)
        client = self._client_of(self._backend.url(spec))
        if todo is Deed.CANARY:
            return await self._ask(worker, client, limits)
        return await _call(client, todo, limits)

    async def _ask(self, worker: Tended, client: WorkerClient, limits: LifeLimits) -> Seen:
        asked_at = self._clock.now()
        worker.still = canary_sent(worker.still)
        answered = False
        try:
            await client.canary(worker.spec.profile.served_names[0])
            answered = True
        except WorkerError as error:
            if not self._backend.is_alive(worker.spec):
                return self._death_of(worker)
            return Seen(
                alive=True,
                asked_at=asked_at,
                canary_ok=False,
                sleeping=await _sleeps(client) if limits.can_sleep else None,
                detail=str(error),
            )
        finally:
            worker.still = canary_ended(worker.still, answered=answered)
        return Seen(alive=True, asked_at=asked_at, canary_ok=True)

    def _death_of(self, worker: Tended) -> Seen:
        words = last_words(
            self._backend.log_path(worker.spec), worker.log_begins_at, worker.last_load
        )
        return Seen(alive=False, exit_code=self._backend.exit_code(worker.spec), detail=words)


async def _call(client: WorkerClient, todo: Deed, limits: LifeLimits) -> Seen:
    match todo:
        case Deed.PROBE:
            return await _probe(client, limits)
        case Deed.SLEEP:
            told = await _told(client.sleep(_SLEEP_LEVEL, "wait"))
            return Seen(alive=True, slept=not told, detail=told)
        case Deed.WAKE:
            told = await _told(client.wake())
            return Seen(alive=True, woke=not told, detail=told)
        case _:
            return Seen(alive=True, sleeping=await _sleeps(client))


async def _probe(client: WorkerClient, limits: LifeLimits) -> Seen:
    healthy = await client.health()
    may_sleep = healthy and limits.can_sleep
    return Seen(alive=True, healthy=healthy, sleeping=await _sleeps(client) if may_sleep else None)


async def _sleeps(client: WorkerClient) -> bool | None:
    try:
        return await client.is_sleeping()
    except WorkerError:
        return None  # not known; the canary decides


async def _told(call: Awaitable[None]) -> str:
    """Return why a call failed; empty if it did not."""
    try:
        await call
    except WorkerError as error:
        return str(error)
    return ""
