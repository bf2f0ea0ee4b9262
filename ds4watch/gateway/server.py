"""A gateway put together, served and drained."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.batching import BatchingSettings
from ds4watch.config.compression import CompressionSettings
from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.admission import Admission
from ds4watch.gateway.answer_scores import AnswerScores
from ds4watch.gateway.asking import Asking
from ds4watch.gateway.boards import read_board
from ds4watch.gateway.compressing import PromptCompressor
from ds4watch.gateway.control import ControlClient
from ds4watch.gateway.counting import LengthTeller, TokenizeEndpoint
from ds4watch.gateway.entry import Entry
from ds4watch.gateway.files import connections_within_files
from ds4watch.gateway.forward import Forwarder
from ds4watch.gateway.handlers import Handlers
from ds4watch.gateway.http.parties import Bounds
from ds4watch.gateway.http.pool import Pool
from ds4watch.gateway.http.server import HttpServer
from ds4watch.gateway.logprob_scorer import LogprobScorer, WorkerPost
from ds4watch.gateway.output_rules import OutputRules
from ds4watch.gateway.prefix_window import PrefixWindow, WindowCounts
from ds4watch.gateway.relay import Relay
from ds4watch.gateway.replay_memory import ReplayMemory
from ds4watch.gateway.spool import Spool
from ds4watch.gateway.state import GatewayState
from ds4watch.gateway.trust import tls_context
from ds4watch.gateway.waiting import WaitingRoom
from ds4watch.gateway.worker_keys import WorkerKeys
from ds4watch.model.ports import Clock
from ds4watch.model.worker import WorkerView
from ds4watch.routing.choice import Ask, RouteDecision
from ds4watch.routing.lengths import Lengths
from ds4watch.shaping.batching import Windows

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 0.5
_DRAIN_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """What one gateway process is told at its start. Port 0 picks a free one."""

    name: str
    state_dir: Path
    host: str
    port: int
    settings: GatewaySettings


@dataclass(frozen=True, slots=True)
class Serving:
    """A gateway that listens."""

    port: int
    state: GatewayState
    windows: WindowCounts


@asynccontextmanager
async def serving(options: GatewayOptions, clock: Clock) -> AsyncIterator[Serving]:
    """Serve until the block ends, then drain. Raises OSError if the port cannot be had."""
    settings = options.settings
    state = GatewayState(
        clock=clock,
        draw=random.Random().random,  # noqa: S311 - of workers, nothing to guess
        retry_budget_ratio=settings.retry_budget_ratio,
        routing=settings.routing,
        processes=settings.processes,
        room=WaitingRoom(settings.admission.queue_length, settings.admission.queue_wait_seconds),
    )
    board = read_board(options.state_dir / "board.json")
    if board is not None:
        state.apply(board)
    rules = OutputRules(Path(settings.output_filter) if settings.output_filter else None)
    scores = AnswerScores(clock, every=settings.score_every)
    async with AsyncExitStack() as stack:
        spool = await stack.enter_async_context(_spooling(options))
        pool = Pool(
            connect_seconds=settings.connect_timeout_seconds,
            answer_seconds=settings.request_timeout_seconds,
            tls=tls_context(settings.tls_ca_file),
        )
        stack.callback(pool.close)
        stack.enter_context(state.chooser.lag)
        window = _window(settings.batching, clock)
        keys = WorkerKeys(clock)
        asking = Asking(pool, keys)
        compressor = _compressor(settings.compression, state, asking)
        stack.push_async_callback(compressor.close)
        lengths = Lengths(settings.routing)
        admission = Admission(settings, state, clock, compressor, lengths)
        forwarder = Forwarder(
            state,
            Relay(pool, clock, rules=rules, scores=scores, keys=keys),
            window,
            settings=settings,
            lengths=_length_teller(lengths, settings, state, asking),
            clock=clock,
        )
        handlers = Handlers(
            options.name,
            settings=settings,
            entry=_entry(options, state, clock, stack),
            state=state,
            admission=admission,
            forwarder=forwarder,
            spool=spool,
            clock=clock,
        )
        control = ControlClient(
            options.name,
            options.state_dir / "control.sock",
            state,
            lambda: {
                "filtered": [[*which, count] for which, count in rules.found.items()],
                "scores": scores.sums,
                **admission.stats(),
                **window.stats(),
                **compressor.stats(),
            },
        )
        await stack.enter_async_context(_running(control.run()))
        await stack.enter_async_context(_running(rules.run()))
        port = await stack.enter_async_context(
            _listening(options, handlers, state, admission.connection_refused)
        )
        log.info("gateway %s listening on http://%s:%s", options.name, options.host, port)
        yield Serving(port=port, state=state, windows=window.counts)


def _compressor(
    settings: CompressionSettings, state: GatewayState, asking: Asking
) -> PromptCompressor:
    model = settings.scorer_model
    if model is None:
        return PromptCompressor(settings)
    return PromptCompressor(settings, LogprobScorer(model, WorkerPost(model, state, asking)))


def _window(settings: BatchingSettings, clock: Clock) -> PrefixWindow:
    windows = Windows(
        answering_seconds=settings.answering_seconds,
        generation_seconds=settings.generation_seconds,
    )
    return PrefixWindow(windows, clock, prefix_chars=settings.prefix_chars)


def _entry(
    options: GatewayOptions, state: GatewayState, clock: Clock, stack: AsyncExitStack
) -> Entry:
    memory = ReplayMemory(options.state_dir / "replay.bin")
    stack.callback(memory.close)
    return Entry(
        state,
        options.settings.signature,
        memory,
        clock,
        needs_key=options.settings.require_key or not is_loopback(options.host),
    )


def is_loopback(host: str) -> bool:
    """Return whether an address to bind is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _length_teller(
    lengths: Lengths, settings: GatewaySettings, state: GatewayState, asking: Asking
) -> LengthTeller:
    def worker_for(model: str) -> WorkerView | None:
        route = state.chooser.choose(Ask(model))
        return route.worker if isinstance(route, RouteDecision) else None

    endpoint = TokenizeEndpoint(asking, settings.routing.tokenize_seconds)
    return LengthTeller(lengths, endpoint, worker_for)


@asynccontextmanager
async def _spooling(options: GatewayOptions) -> AsyncIterator[Spool]:
    spool = Spool(options.state_dir / "spool" / f"{options.name}.jsonl")
    task = asyncio.create_task(spool.run())
    try:
        yield spool
    finally:
        spool.close()
        await task


@asynccontextmanager
async def _running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def _listening(
    options: GatewayOptions,
    handlers: Handlers,
    state: GatewayState,
    turned_away: Callable[[], None],
) -> AsyncIterator[int]:
    bounds = Bounds(
        max_connections=connections_within_files(options.settings),
        max_body_bytes=options.settings.max_body_bytes,
        **options.settings.clients.model_dump(),
    )
    server = HttpServer(handlers.handle, handlers.refuse, bounds, turned_away)
    try:
        yield await server.start(options.host, options.port)
        state.draining = True
        server.stop_listening()
        await _drained(state, options.settings.drain_seconds)
    finally:
        await server.close(_CLOSE_SECONDS)


async def _drained(state: GatewayState, seconds: float) -> None:
    """Wait until no request is open, `seconds` at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while state.inflight.total or state.room.size:  # noqa: ASYNC110 - looked at once, at the very end
                await asyncio.sleep(_DRAIN_LOOK_SECONDS)
    state.cut_off = True
    if state.inflight.total:
        log.warning("%s requests are still open after the drain: cut off", state.inflight.total)
