"""Small scripted workers, and a gateway in this process before them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.clock import SystemClock
from ds4watch.gateway.server import GatewayOptions, Serving, serving
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import ApiKey, Board, ServicePolicy
from ds4watch.model.usage import RequestRecord
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView

USAGE = {
    "prompt_tokens": 7,
    "total_tokens": 10,
    "completion_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 4},
}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def event(data: Any) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def delta(text: str, at: int) -> bytes:
    usage = {"prompt_tokens": 7, "total_tokens": 7 + at, "completion_tokens": at}
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return event({**SHELL, "choices": [choice], "usage": usage})


SHELL = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DONE = event({**SHELL, "choices": [], "usage": USAGE}) + b"data: [DONE]\n\n"

Script = Callable[["FakeWorker", web.Request], Awaitable[web.StreamResponse]]


async def answer(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
    """Answer well, as asked: streamed or not."""
    body = worker.bodies[-1]
    if not body.get("stream"):
        message = {"role": "assistant", "content": "Hello"}
        choice = {"index": 0, "message": message, "text": "Hello", "finish_reason": "stop"}
        kind = "chat.completion" if "messages" in body else "text_completion"
        told = {"id": "c1", "object": kind, "created": 1, "model": body["model"]}
        return web.json_response({**told, "choices": [choice], "usage": USAGE})
    response = await begin(request)
    for at, text in enumerate(("Hel", "lo", "!"), start=1):
        await response.write(delta(text, at))
    await response.write(DONE)
    return response


async def begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


def status(code: int) -> Script:
    async def script(_worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no", "code": code}}, status=code)

    return script


@dataclass
class FakeWorker:
    """A worker that does as its script says and notes what it was asked."""

    name: str
    script: Script = answer
    models: tuple[str, ...] = ("m",)
    phase: WorkerPhase = WorkerPhase.READY
    bodies: list[dict[str, Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    tokens: int | None = None
    """What /tokenize says; None: there is no such thing."""
    counted: list[dict[str, Any]] = field(default_factory=list)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/{path:.*}", self._serve)
        app.router.add_post("/tokenize", self._tokenize)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.raw.append(await request.read())
        self.bodies.append(json.loads(self.raw[-1]))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.arrived.set()
        try:
            return await self.script(self, request)
        except asyncio.CancelledError:
            self.dropped.set()
            raise

    async def _tokenize(self, request: web.Request) -> web.Response:
        self.counted.append(await request.json())
        if self.tokens is None:
            raise web.HTTPNotFound
        return web.json_response({"count": self.tokens, "tokens": [7] * self.tokens})

    def view(self, **more: Any) -> WorkerView:
        url = f"http://127.0.0.1:{self.port}"
        return WorkerView(self.name, "p", self.models, url, self.phase, since=1000.0, **more)


def dead_worker(name: str) -> WorkerView:
    """Return a worker at a port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return WorkerView(name, "p", ("m",), f"http://127.0.0.1:{port}", WorkerPhase.READY, since=1.0)


def board_of(
    *workers: WorkerView,
    policy: ServicePolicy | None = None,
    keys: tuple[ApiKey, ...] = (),
    version: int = 1,
) -> Board:
    return Board(version, FleetSnapshot(1000.0, workers), policy or ServicePolicy(), keys)


def write_board(state: Path, board: Board) -> None:
    (state / "board.json").write_text(json.dumps(board.as_json()))


@dataclass
class Front:
    """The gateway as its clients meet it."""

    serving: Serving
    state_dir: Path
    http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.serving.port}"

    def post(self, body: Any, path: str = "/v1/chat/completions", **more: Any) -> Any:
        given = {"data": body} if isinstance(body, bytes) else {"json": body}
        return self.http.post(self.url + path, **given, **more)

    def choose_first(self, worker: str) -> None:
        """Make every other worker look busy, so that `worker` is tried first."""
        for view in self.serving.state.board.fleet.workers:
            if view.id != worker:
                self.serving.state.inflight.by_worker[view.id] = 100


def records_in(state_dir: Path, name: str = "g0") -> list[RequestRecord]:
    path = state_dir / "spool" / f"{name}.jsonl"
    if not path.exists():
        return []
    return [RequestRecord.from_json(json.loads(line)) for line in path.read_bytes().splitlines()]


async def records(front: Front, count: int = 1) -> list[RequestRecord]:
    """Return the spool's records once there are so many."""
    async with asyncio.timeout(5):
        while len(found := records_in(front.state_dir)) < count:
            await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def front_of(
    state_dir: Path,
    board: Board | None,
    *,
    host: str = "127.0.0.1",
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[Front]:
    """Run a gateway in this process, by the real clock if none is given."""
    if board is not None:
        write_board(state_dir, board)
    values = {"drain_seconds": 1.0, "request_timeout_seconds": 20.0} | settings
    options = GatewayOptions("g0", state_dir, host, 0, GatewaySettings(**values))
    async with (
        serving(options, clock or SystemClock()) as running,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http,
    ):
        yield Front(running, state_dir, http)
