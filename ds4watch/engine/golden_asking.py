"""Asks a worker of a profile one golden question, behind all users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ds4watch.config.profile import Profile
from ds4watch.cost.prices import PriceEntry, price_at
from ds4watch.engine.parts import Known
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.warm_up import low_priority
from ds4watch.fleet.worker_answers import Answer
from ds4watch.model.errors import Ds4watchError, EdgeReason, WorkerError
from ds4watch.model.money import Nanos
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.quality.golden import Question

_HOUR_SECONDS = 3600.0


class BusyError(Ds4watchError):
    """No worker of the profile has time for us now; the message says why."""


class DearError(Ds4watchError):
    """An answer was broken off: it would have cost more than it may. nanos: what it cost."""

    def __init__(self, nanos: Nanos) -> None:
        super().__init__("an answer would have cost more than it may")
        self.nanos = nanos


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer, when it came, and what the worker cost meanwhile."""

    answer: Answer
    at: UnixSeconds
    nanos: Nanos


class Asker:
    """One request at a time to a worker, where no user's request waits.

    Where the engine has priorities it is asked with the lowest. The ready workers of a profile are
    asked in turn, so that a run also warms them up.
    """

    def __init__(
        self,
        known: Known,
        client_of: Callable[[str], WorkerClient],
        *,
        profiles: Mapping[str, Profile],
        prices: Sequence[PriceEntry],
        clock: Clock,
    ) -> None:
        self._known = known
        self._client_of = client_of
        self._profiles = profiles
        self._prices = prices
        self._clock = clock
        self._turns: dict[str, int] = {}
        self._taken: set[str] = set()
        """Workers that answer us now, by URL."""
        self._without_chat: set[str] = set()
        """Profiles whose model has no chat template."""

    def ready(self) -> tuple[WorkerView, ...]:
        """Return the ready workers."""
        return tuple(it for it in self._known.fleet.workers if it.phase is WorkerPhase.READY)

    def free(self, profile: str) -> int:
        """Return how many workers of a profile have time for us."""
        return sum(self._has_time(it) for it in self.ready() if it.profile == profile)

    async def ask(self, profile: str, question: Question, most: Nanos | None = None) -> Asked:
        """Have a question answered. Raises BusyError, WorkerError, DearError.

        most: what the answer may cost at most.
        """
        worker = self._free(profile)
        price = price_at(self._prices, profile, self._clock.now(), worker.url)
        self._taken.add(worker.url)
        try:
            async with asyncio.timeout(_seconds(most, price)):
                answer = await self._answer(worker, question)
        except TimeoutError as error:
            if most is None:
                raise
            raise DearError(most) from error
        finally:
            self._taken.discard(worker.url)
        cost = round(price * answer.took_seconds / _HOUR_SECONDS)
        return Asked(answer, self._clock.now(), cost)

    def _free(self, profile: str) -> WorkerView:
        ready = [it for it in self.ready() if it.profile == profile]
        if not ready:
            message = f"no worker of {profile} is ready"
            raise BusyError(message)
        free = [it for it in ready if self._has_time(it)]
        if not free:
            message = f"users' requests wait for {profile}"
            raise BusyError(message)
        turn = self._turns[profile] = self._turns.get(profile, -1) + 1
        return free[turn % len(free)]

    def _has_time(self, worker: WorkerView) -> bool:
        return not worker.load.waiting and worker.url not in self._taken

    async def _answer(self, worker: WorkerView, question: Question) -> Answer:
        if worker.profile not in self._without_chat:
            try:
                return await self._asked(worker, question, chat=True)
            except WorkerError as error:
                if error.reason is not EdgeReason.STATUS or error.retryable:
                    raise
        answer = await self._asked(worker, question, chat=False)
        self._without_chat.add(worker.profile)
        return answer

    async def _asked(self, worker: WorkerView, question: Question, *, chat: bool) -> Answer:
        known = self._profiles.get(worker.profile)
        return await self._client_of(worker.url).answer(
            worker.models[0],
            question.prompt,
            max_tokens=question.max_tokens,
            priority=low_priority(known) if known is not None else None,
            chat=chat,
        )


def _seconds(nanos: Nanos | None, price: Nanos) -> float | None:
    """Return for how long a worker may be used for so much; None: for ever."""
    return None if nanos is None or not price else nanos / price * _HOUR_SECONDS
