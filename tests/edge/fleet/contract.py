"""The contract of `Backend`, as tests that a class for each backend inherits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import WorkerError
from tests.edge.fleet.fleets import (
    Fleet,
    answers,
    port_of,
    processes_with,
    read,
    sim,
    until,
    until_up,
)


class Contract:
    """Inherit and give a fixture `fleet`."""

    @pytest.fixture(autouse=True)
    async def _nothing_is_left(self, fleet: Fleet) -> AsyncIterator[None]:
        yield
        await (await fleet.daemon()).adopt(())

    async def test_a_worker_is_started_answers_and_how_it_died_is_told(self, fleet: Fleet) -> None:
        backend, spec = await fleet.daemon(), sim()
        assert await backend.adopt([spec]) == {}
        assert not backend.is_alive(spec)
        assert backend.url(spec) == ""
        await backend.start(spec)
        url = await until_up(backend, spec)
        assert backend.is_alive(spec)
        assert backend.exit_code(spec) is None
        (pid,) = processes_with(f"--port {port_of(url)}")
        assert backend.pid(spec) in (None, pid)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not backend.is_alive(spec), "a death that is noticed")
        assert backend.exit_code(spec) == -signal.SIGKILL
        assert await (await fleet.daemon()).adopt([spec]) == {}  # of a dead one, nothing
        assert await backend.stop(spec)
        assert await backend.stop(spec)  # once more is no mistake
        assert await backend.left() == ()

    async def test_what_a_worker_says_is_in_its_log(self, fleet: Fleet) -> None:
        backend, spec = await fleet.daemon(), sim("sim-0", "--no-such-option")
        await backend.start(spec)
        await until(lambda: not backend.is_alive(spec), "the end of a worker that cannot start")
        assert backend.exit_code(spec) == 2
        await until(lambda: "--no-such-option" in read(backend.log_path(spec)), "its last words")
        assert await backend.stop(spec)

    async def test_workers_outlive_the_daemon_and_those_still_wanted_are_the_next_ones(
        self, fleet: Fleet
    ) -> None:
        first, kept, changed = await fleet.daemon(), sim("sim-0"), sim("sim-1")
        await asyncio.gather(first.start(kept), first.start(changed))
        urls = [await until_up(first, spec) for spec in (kept, changed)]
        assert urls[0] != urls[1]
        second, as_wanted = await fleet.daemon(), sim("sim-1", "--dev-mode")
        assert list(await second.adopt([kept, as_wanted])) == [kept.id]
        assert second.is_alive(kept)
        assert (second.url(kept), second.pid(kept)) == (urls[0], first.pid(kept))
        assert not second.is_alive(as_wanted)
        assert not processes_with(f"--port {port_of(urls[1])}")
        assert await second.stop(kept)
        assert not second.is_alive(kept)
        assert not processes_with(f"--port {port_of(urls[0])}")
        assert not await answers(urls[0])

    async def test_what_cannot_be_executed_is_dead_or_refused_and_leaves_nothing(
        self, fleet: Fleet
    ) -> None:
        backend = await fleet.daemon()
        profile = Profile(name="none", engine=Engine.VLLM, served_names=("m",), model="/none")
        spec = WorkerSpec("none-0", profile)
        with contextlib.suppress(WorkerError):
            await backend.start(spec)
        await until(lambda: not backend.is_alive(spec), "the end of what cannot be executed")
        assert await backend.stop(spec)
        assert await (await fleet.daemon()).adopt([spec]) == {}

    async def test_somebody_elses_worker_is_alive_and_left_alone(self, fleet: Fleet) -> None:
        backend = await fleet.daemon()
        spec = WorkerSpec("theirs", sim().profile, url="http://127.0.0.1:9/")
        assert await backend.adopt([spec]) == {}
        await backend.start(spec)
        assert backend.is_alive(spec)
        assert backend.url(spec) == "http://127.0.0.1:9"
        assert (backend.pid(spec), backend.exit_code(spec)) == (None, None)
        assert backend.preparing(spec) == ""
        assert await backend.stop(spec)
        assert backend.is_alive(spec)
