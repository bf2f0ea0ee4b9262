"""One process that plays any number of workers, each on its own port, in one event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

from aiohttp import web

from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.ports import Clock
from ds4watch.sim.app import build_app
from ds4watch.sim.clock import SystemClock
from ds4watch.sim.faults import OOM_MESSAGE, Fault, FaultSwitch, crash, parse_fault
from ds4watch.sim.settings import ServerSettings, SimSettings, check
from ds4watch.sim.worker import SimWorker

log = logging.getLogger(__name__)

Announce = Callable[[str], None]

_ABORT_SECONDS = 0.01
"""What open requests get at a stop; aiohttp takes 0 for ever."""


class RunningWorker:
    """A worker that listens. Use `start` and `stop`, or as an async context manager."""

    def __init__(
        self,
        settings: SimSettings,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        faults: tuple[FaultSwitch, ...] = (),
        clock: Clock | None = None,
        die: Callable[[str], None] = crash,
        api_keys: tuple[str, ...] = (),
    ) -> None:
        """`die` is called with its last words when memory is out; it ends the process."""
        self.worker = SimWorker(settings, clock or SystemClock(), faults, die=die)
        self._host = host
        self._port = port
        self._runner = web.AppRunner(
            build_app(self.worker, api_keys),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_ABORT_SECONDS,
        )
        self._site: web.TCPSite | None = None
        self._loop: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Base address, known once started."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen and begin to work. Raises OSError if the port is taken."""
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, self._host, self._port)
        await self._site.start()
        self._port = self._runner.addresses[0][1]
        self._loop = asyncio.create_task(self.worker.run())

    async def drain(self, timeout_seconds: float) -> None:
        """Take no new connection, and let what runs end, for so long at most."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        try:
            await asyncio.wait_for(self.worker.until_idle(), timeout_seconds)
        except TimeoutError:
            log.warning("%s: requests left after %s s are aborted", self.url, timeout_seconds)

    async def stop(self) -> None:
        """Abort what runs and close everything."""
        await self._runner.cleanup()
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def __aenter__(self) -> RunningWorker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def run(settings: SimSettings, server: ServerSettings, announce: Announce) -> int:
    """Play workers until a signal comes; return the exit code. Raises ConfigError."""
    check(settings, server)
    faults = tuple(map(parse_fault, server.faults))
    return asyncio.run(_serve(settings, server, faults, announce))


async def _serve(
    settings: SimSettings,
    server: ServerSettings,
    faults: tuple[FaultSwitch, ...],
    announce: Announce,
) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if settings.startup_seconds and await _is_stopped_within(stopped, settings.startup_seconds):
        return 0
    names = {item.fault for item in faults}
    if Fault.OOM_AT_START in names:
        return _out_of_memory()
    async with AsyncExitStack() as stack:
        workers = [
            await _started(stack, settings, server, index, faults) for index in range(server.count)
        ]
        for worker in workers:
            announce(f"simulated worker ready on {worker.url}")
        if Fault.CRASH in names:
            crash("simulated crash")
        await stopped.wait()
        if server.shutdown_timeout_seconds:
            drains = (worker.drain(server.shutdown_timeout_seconds) for worker in workers)
            await asyncio.gather(*drains)
        # At once: one after another, hundreds of workers would take seconds.
        await asyncio.gather(*(worker.stop() for worker in workers))
    return 0


async def _is_stopped_within(stopped: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(stopped.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _started(
    stack: AsyncExitStack,
    settings: SimSettings,
    server: ServerSettings,
    index: int,
    faults: tuple[FaultSwitch, ...],
) -> RunningWorker:
    port = server.port + index if server.port else 0
    worker = RunningWorker(
        settings, host=server.host, port=port, faults=faults, api_keys=server.api_keys
    )
    try:
        return await stack.enter_async_context(worker)
    except OSError as error:
        raise ConfigError(
            Located(
                f"cannot listen on {server.host}:{port}: {error.strerror or error}",
                field="--port",
                mend="choose another port, or --port 0",
            )
        ) from error


def _out_of_memory() -> int:
    sys.stderr.write(
        f"{OOM_MESSAGE}\nRuntimeError: Engine core initialization failed. "
        "See root cause above. Failed core proc(s): {}\n"
    )
    return 1
