"""Gateways and simulated workers as processes of their own, and what those hold."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from ds4watch.model.service_policy import Board
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.gateway.raw import Client
from tests.edge.gateway.support import write_board

CHAT: dict[str, Any] = {
    "model": "sim",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 4,
}
_HOLDS = re.compile(r"^holds (\d+) (\d+)$")


@dataclass(frozen=True)
class Held:
    """What a process holds at one moment."""

    tasks: int
    objects: int
    files: int
    rss_bytes: int


@dataclass
class Gateway:
    """A gateway process."""

    process: asyncio.subprocess.Process
    port: int
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))  # noqa: PTH208 - names only

    @property
    def rss_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def alarms(self) -> list[str]:
        """What it logged as an error, and stack traces."""
        return [it for it in self.said if " ERROR " in it or it.startswith("Traceback")]

    async def held(self) -> Held:
        """Return what it holds; tests' own `watched` gateways only."""
        seen = len(self.said)
        self.process.send_signal(signal.SIGUSR2)
        async with asyncio.timeout(10):
            while True:
                for line in self.said[seen:]:
                    if told := _HOLDS.match(line):
                        return Held(int(told[1]), int(told[2]), self.files, self.rss_bytes)
                await asyncio.sleep(0.02)

    async def health(self, http: aiohttp.ClientSession) -> dict[str, Any]:
        async with http.get(self.url + "/health") as response:
            return dict(await response.json())

    async def open(self) -> Client:
        """Return a connection of a client that sends what it is told to."""
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))


async def _listen(process: asyncio.subprocess.Process, said: list[str]) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        said.append(line.decode().rstrip("\n"))


@asynccontextmanager
async def gateway_of(
    state: Path, board: Board, env: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """Run a gateway as a process; it must live on, and say nothing of a fault of its own."""
    write_board(state, board)
    values = {"request_timeout_seconds": 20.0, "drain_seconds": 1.0} | settings
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.edge.gateway.watched", "--name", "g0"),
        *("--state", str(state), "--host", "127.0.0.1", "--port", "0"),
        *("--settings", json.dumps(values)),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | (env or {}),
    )
    gateway = Gateway(process, 0)
    listening = asyncio.create_task(_listen(process, gateway.said))
    try:
        gateway.port = await _port_told(gateway.said)
        yield gateway
        assert process.returncode is None, gateway.said[-5:]
        assert not gateway.alarms
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listening


async def _port_told(said: list[str]) -> int:
    async with asyncio.timeout(30):
        while True:
            for line in said:
                if " listening on " in line:
                    return int(line.rsplit(":", 1)[1])
            await asyncio.sleep(0.02)


@dataclass
class Worker:
    """A simulated worker as a process; killed, it can be started again at its place."""

    name: str
    port: int
    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = None

    @property
    def view(self) -> WorkerView:
        url = f"http://{self.host}:{self.port}"
        return WorkerView(self.name, "sim", ("sim",), url, WorkerPhase.READY, since=1.0)

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self.prefix,
            *(sys.executable, "-m", "ds4watch", "sim", "--served-model-name", "sim"),
            *("--host", self.host, "--port", str(self.port), *self.options),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            assert await self.process.stdout.readline()

    async def kill(self) -> None:
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.communicate()


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


@asynccontextmanager
async def running(workers: Iterable[Worker]) -> AsyncIterator[list[Worker]]:
    found = list(workers)
    try:
        await asyncio.gather(*(worker.start() for worker in found))
        yield found
    finally:
        await asyncio.gather(*(worker.kill() for worker in found))


def sims(count: int, *options: str) -> list[Worker]:
    ports = enumerate(free_ports(count))
    return [Worker(f"w{at}", port, options=options) for at, port in ports]


@dataclass
class Load:
    """Clients that ask one thing after the other until they are told to stop."""

    url: str
    http: aiohttp.ClientSession
    body: dict[str, Any] = field(default_factory=lambda: CHAT)
    answers: list[tuple[int, str]] = field(default_factory=list)
    """Status of each answer, and who gave it."""
    is_over: bool = False

    async def ask(self, number: int) -> None:
        body = self.body | {"user": f"u{number}"}
        while not self.is_over:
            async with self.http.post(self.url + "/v1/chat/completions", json=body) as response:
                await response.read()
                self.answers.append((response.status, response.headers.get("x-ds4-worker", "")))

    async def more(self, count: int) -> None:
        """Return once there are so many more answers."""
        enough = len(self.answers) + count
        await until(lambda: len(self.answers) >= enough)


@asynccontextmanager
async def load(gateway: Gateway, clients: int, **body: Any) -> AsyncIterator[Load]:
    """Keep so many requests open until the block ends; each is answered then."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        load = Load(gateway.url, http, CHAT | body)
        async with asyncio.TaskGroup() as asking:
            for number in range(clients):
                asking.create_task(load.ask(number))
            try:
                yield load
            finally:
                load.is_over = True


async def until(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.02)


async def until_true(is_so: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not await is_so():
            await asyncio.sleep(0.05)
