"""Does what the machine says for one worker, and tells what was seen."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ds4watch.fleet.backends import Backend
from ds4watch.fleet.kernel_kills import kernel_kills, risen
from ds4watch.fleet.ladders import Ladders
from ds4watch.fleet.last_words import last_words, size_of, tail_of
from ds4watch.fleet.life import Deed, Life, LifeLimits, Remedy, Seen
from ds4watch.fleet.lifecycle import MAY_DIE
from ds4watch.fleet.oom import Death, Oom, recognise
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.served_names import expect_names
from ds4watch.fleet.start_answers import answers_apart, start_answers
from ds4watch.fleet.stillness import canary_ended, canary_sent
from ds4watch.fleet.tended import Tended
from ds4watch.fleet.warm_up import requests, warm_up
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.model.errors import EdgeReason, NoNumberError, WorkerError
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import WorkerPhase
from ds4watch.quality.fingerprint import Fingerprint
from ds4watch.telemetry.own_lag import OwnLag

if TYPE_CHECKING:
    from ds4watch.fleet.client import WorkerClient

log = logging.getLogger(__name__)

_LATELY_SECONDS = 15.0
_DEVICE_READINGS = 60
_LEAST_WARM_UP_SECONDS = 20.0
_SLEEP_LEVEL = 1
"""Weights stay in memory; from level 2 they would be garbage until loaded again."""


class Vetting(Protocol):
    """Who says whether a started worker is the model that its profile was before."""

    async def judge(
        self, spec: WorkerSpec, given: Fingerprint, version: str, *, again: Fingerprint
    ) -> str:
        """Return why it must not serve; empty if it may.

        version: of its engine. again: what it gave when asked once more, one by one.
        """
        ...

    def judge_silent(self, spec: WorkerSpec, why: str) -> str:
        """Return why a worker that tells no log-probabilities must not serve; empty if it may."""
        ...


_NOWHERE = Path(os.devnull)
"""A folder that there is never."""


class Deeds:
    """The hands of the supervisor."""

    def __init__(
        self,
        backend: Backend,
        client_of: Callable[[str], WorkerClient],
        clock: Clock,
        ladders: Ladders,
    ) -> None:
        self.vetting: Vetting | None = None
        """Who judges every worker that comes up before it is ready; None: nobody does."""
        self.keys = WorkerKeys(_NOWHERE, {})
        self.lag = OwnLag()
        self._devices: deque[tuple[UnixSeconds, float]] = deque(maxlen=_DEVICE_READINGS)
        self._ladders = ladders
        self._backend = backend
        self._client_of = client_of
        self._clock = clock

    def note_devices(self, used_ratio: float | None) -> None:
        """Take in how full the fullest device is."""
        if used_ratio is not None:
            self._devices.append((self._clock.now(), used_ratio))

    def _fullest(self) -> float | None:
        """Return how full the fullest device was lately: a death gives its memory back."""
        since = self._clock.now() - _LATELY_SECONDS
        return max((ratio for at, ratio in self._devices if at >= since), default=None)

    async def start(self, worker: Tended) -> None:
        """Start a worker. Raises WorkerError."""
        worker.begins(size_of(self._backend.log_path(worker.spec)))
        worker.kernel_kills = kernel_kills()
        worker.api_key_file = self.keys.file_of(worker.spec)
        worker.running = await self._ladders.before_start(worker.spec)
        await self._backend.start(worker.running)

    async def do(self, worker: Tended, todo: Deed, limits: LifeLimits) -> Seen:
        """Do a deed other than a start and return what was seen of the worker."""
        spec = worker.spec
        if todo is Deed.STOP:
            gone = await self._backend.stop(spec)
            detail = "" if gone else self._backend.remains(spec)
            return Seen(alive=False, gone=gone, detail=detail)
        if worker.life.phase not in MAY_DIE and todo is Deed.NOTHING:
            return Seen(alive=False)
        if not self._backend.is_alive(spec):
            return await self._death_of(worker)
        if todo is Deed.NOTHING:
            return Seen(alive=True)
        url = self._backend.url(spec)
        self.keys.note(url, worker.api_key_file)
        client = self._client_of(url)
        if todo is Deed.CANARY:
            return await self._ask(worker, client, limits)
        if todo is Deed.WARM_UP:
            return await self._warm_up(worker, client, limits)
        seen = await _call(client, todo, limits)
        if todo is Deed.PROBE:
            worker.note_log(size_of(self._backend.log_path(spec)), self._clock.now())
            seen = replace(seen, said_at=worker.said_at)
        return seen

    async def _ask(self, worker: Tended, client: WorkerClient, limits: LifeLimits) -> Seen:
        asked_at, began = self._clock.now(), self._clock.monotonic()
        worker.still = canary_sent(worker.still)
        answered, unfit = False, ""
        names = worker.spec.profile.served_names
        is_new = worker.life.phase is WorkerPhase.WARMING and not limits.is_foreign
        try:
            if is_new:
                await expect_names(client, names)
            await client.canary(names[0])
            if is_new:
                unfit = await self._vet(worker, client)
            answered = True
        except WorkerError as error:
            if not self._backend.is_alive(worker.spec):
                return await self._death_of(worker)
            return Seen(
                alive=True,
                asked_at=asked_at,
                canary_ok=False,
                lost_ratio=self._lost_ratio(began) if _is_late(error) else 0.0,
                sleeping=await _sleeps(client) if limits.can_sleep else None,
                detail=str(error),
            )
        finally:
            worker.still = canary_ended(worker.still, answered=answered)
        return Seen(alive=True, asked_at=asked_at, canary_ok=not unfit, unfit=unfit)

    def _lost_ratio(self, began: float) -> float:
        """Return for which part of the time since then we ourselves did not run."""
        waited = self._clock.monotonic() - began
        return self.lag.lost_seconds(began) / waited if waited > 0 else 0.0

    async def _vet(self, worker: Tended, client: WorkerClient) -> str:
        """Return why a worker must not serve. Raises WorkerError if it does not answer.

        An engine that never told log-probabilities is let pass: what it gives cannot be judged.
        One that told them and does not any more may well be broken. Log-probabilities that are no
        numbers are never right, whatever was given before.
        """
        if self.vetting is None:
            return ""
        profile = worker.running.profile
        try:
            given = await start_answers(client, profile.served_names[0])
            again = await answers_apart(client, profile.served_names[0])
        except NoNumberError as error:
            return (
                f"its log-probabilities are no numbers, as of damaged weights ({error}): "
                f"mend the model, then `ds4watch workers start {worker.spec.id}`"
            )
        except WorkerError as error:
            if error.retryable or error.reason not in (EdgeReason.STATUS, EdgeReason.PARSE):
                raise
            unfit = self.vetting.judge_silent(worker.running, str(error))
            if not unfit:
                log.warning("%s: its start is not checked: %s", worker.spec.id, error)
            return unfit
        version = await _version(client)
        return await self.vetting.judge(worker.running, given, version, again=again)

    async def _warm_up(self, worker: Tended, client: WorkerClient, limits: LifeLimits) -> Seen:
        """Let the worker answer its warm-up requests. One that does not is asked a canary next."""
        profile, began = worker.running.profile, self._clock.monotonic()
        asked = requests(profile, seed=int(self._clock.now()))
        worker.still = canary_sent(worker.still)
        worker.warming_until = math.inf
        told, answered = "no answer in time", False
        try:
            async with asyncio.timeout(_time_for_warm_up(worker.life, limits, self._clock.now())):
                refused = await warm_up(client, profile.served_names[0], asked)
            answered = True
        except TimeoutError:
            pass
        except WorkerError as error:
            told = str(error)
        finally:
            worker.warming_until = self._clock.now()
            worker.still = canary_ended(worker.still, answered=answered)
        if answered:
            worker.warm_up_seconds = self._clock.monotonic() - began
            worker.warmed_at = self._clock.now()
            if refused:
                log.info("%s: refused while it was warmed up: %s", worker.spec.id, refused[0])
            return Seen(alive=True, warmed=True)
        if not self._backend.is_alive(worker.spec):
            return await self._death_of(worker)
        log.warning("%s: not warmed up: %s", worker.spec.id, told)
        return Seen(alive=True, warmed=False, detail=told)

    async def _death_of(self, worker: Tended) -> Seen:
        path, begins_at = self._backend.log_path(worker.spec), worker.log_begins_at
        words = last_words(path, begins_at, worker.last_load)
        how = self._backend.exit_code(worker.spec)
        oom = recognise(
            Death(
                exit_code=how,
                log_tail=tail_of(path, begins_at),
                had_served=worker.had_served,
                kernel_kills=risen(worker.kernel_kills, kernel_kills()),
                device_used_ratio=self._fullest(),
            )
        )
        if oom is None:
            return Seen(alive=False, exit_code=how, detail=words)
        return await self._starved(worker, oom, Seen(alive=False, exit_code=how, detail=words))

    async def _starved(self, worker: Tended, oom: Oom, seen: Seen) -> Seen:
        """Return what was seen of a death for want of memory, with what is done about it."""
        step = await self._ladders.died(worker.spec, oom)
        done = f"next start with {step}" if step else "nothing is left to lower"
        remedy = Remedy.STEP_DOWN if step else Remedy.AT_END
        told = f"for want of memory ({oom.kind}) {seen.detail}; {oom.line}; {done}"
        return replace(seen, detail=told, remedy=remedy)


def _is_late(error: WorkerError) -> bool:
    return error.reason is EdgeReason.TIMEOUT


def _time_for_warm_up(life: Life, limits: LifeLimits, now: UnixSeconds) -> float:
    """Return what is left of the time for a start; a ready worker gets less, and a canary then."""
    if life.phase is WorkerPhase.READY:
        return limits.canary_interval_seconds + _LEAST_WARM_UP_SECONDS
    left = life.tried_at + limits.start_timeout_seconds - now
    return max(_LEAST_WARM_UP_SECONDS, left)


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


async def _version(client: WorkerClient) -> str:
    """Return the engine's version; empty if it tells none. Raises WorkerError if nobody answers."""
    try:
        return await client.version()
    except WorkerError as error:
        if error.retryable or error.reason not in (EdgeReason.STATUS, EdgeReason.PARSE):
            raise
        return ""


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
