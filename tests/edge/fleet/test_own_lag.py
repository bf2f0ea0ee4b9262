"""A canary that we did not wait for ourselves, with a worker that never answers one."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ds4watch.config.profile import Profile
from ds4watch.fleet.clients import WorkerClients
from ds4watch.fleet.deeds import Deeds
from ds4watch.fleet.ladders import Ladders, NoJournal
from ds4watch.fleet.life import Deed, Life, LifeLimits, Seen
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.tended import Tended
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.model.worker import WorkerPhase
from tests.edge.clock import SystemClock

LIMITS = LifeLimits(
    start_timeout_seconds=60,
    canary_interval_seconds=10,
    backoff_seconds=1,
    backoff_max_seconds=1,
)


class There:
    """A backend whose one worker runs, at an address."""

    def __init__(self, url: str) -> None:
        self._url = url

    def is_alive(self, _spec: WorkerSpec) -> bool:
        return True

    def url(self, _spec: WorkerSpec) -> str:
        return self._url


async def asked(url: str, *, blocked_seconds: float) -> Seen:
    """Ask a canary, with our own loop blocked for a part of the time."""
    clock = SystemClock()
    backend: Any = There(url)
    spec = WorkerSpec("w", Profile(name="p", model="m", served_names=["m"]), url=url)
    no_keys = WorkerKeys(Path(os.devnull), {})
    async with WorkerClients(generation_timeout_seconds=0.8, keys=no_keys) as client_of:
        deeds = Deeds(backend, client_of, clock, Ladders({}, NoJournal(), clock))
        deeds.lag = client_of.lag
        life = Life(phase=WorkerPhase.READY)
        asking = asyncio.create_task(deeds.do(Tended(spec, life, clock.now()), Deed.CANARY, LIMITS))
        await asyncio.sleep(0.1)
        time.sleep(blocked_seconds)  # noqa: ASYNC251 - the loop is to stand still
        return await asking


@pytest.mark.parametrize(("blocked_seconds", "is_ours"), [(0.0, False), (0.6, True)])
async def test_how_long_we_stood_still_is_told_with_an_unanswered_canary(
    blocked_seconds: float, *, is_ours: bool
) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        seen = await asked(url, blocked_seconds=blocked_seconds)
    finally:
        server.close()
    assert seen.canary_ok is False
    assert (seen.lost_ratio > 0.3) is is_ours


async def test_a_refused_canary_is_the_workers_own_however_late_we_hear_of_it() -> None:
    seen = await asked("http://127.0.0.1:9", blocked_seconds=0.3)
    assert (seen.canary_ok, seen.lost_ratio) == (False, 0.0)
