"""One simulated worker: the engine, its loop, its faults, and its page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ds4watch.model.ports import Clock
from ds4watch.sim.engine import Engine, Output
from ds4watch.sim.faults import RUN_OOM_MESSAGE, Faults, FaultSwitch, crash
from ds4watch.sim.generation import Finish, Generation
from ds4watch.sim.http_meter import HttpMeter
from ds4watch.sim.meters import Meters
from ds4watch.sim.page import Page, label_value, number, template
from ds4watch.sim.process_meters import python_labels, read_process
from ds4watch.sim.settings import SimSettings

log = logging.getLogger(__name__)

_PROCESS_REFRESH_SECONDS = 10.0
"""While idle, the page of 51 KB is rendered no more often than this."""
_BYTES_PER_TOKEN = 512
_WEIGHTS, _KV_CACHE = "weights", "kv_cache"


class Event(NamedTuple):
    """A token of a choice, or its end; an abort has no token at `position`."""

    choice: int
    position: int
    finish: Finish | None


class Mailbox:
    """Where the tokens of one request arrive. Bounded by the tokens that it may generate."""

    def __init__(self, generations: Sequence[Generation]) -> None:
        self.generations = generations
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def post(self, event: Event) -> None:
        """Add an event."""
        self._events.put_nowait(event)

    async def next(self) -> Event:
        """Wait for the next event."""
        return await self._events.get()


class SimWorker:
    """Runs an engine in real time and answers for its numbers."""

    def __init__(
        self,
        settings: SimSettings,
        clock: Clock,
        faults: tuple[FaultSwitch, ...] = (),
        *,
        die: Callable[[str], None] = crash,
    ) -> None:
        self._die = die
        self.settings = settings
        self.clock = clock
        self.faults = Faults(faults)
        self.garbled = False
        self._page = Page(
            template(), replacements=_replacements(settings), max_model_len=settings.max_model_len
        )
        self.meters = Meters(self._page.edges)
        self.http = HttpMeter(self.meters)
        self.engine = Engine(settings, self.meters)
        self._mailboxes: dict[Generation, tuple[Mailbox, int]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._asleep: dict[str, int] = {}
        self._rendered: tuple[int, float, bytes] | None = None
        self.reset_counters()

    def reset_counters(self) -> None:
        """Start all counters anew, as after a restart."""
        now = self.clock.now()
        self.meters.reset()
        self.http.reset()
        for series in self._page.created_series:
            self.meters.put(series, now)
        self.meters.put("process_start_time_seconds", now)
        self.meters.put("vllm:cache_config_info", 1.0)
        self.engine.publish()
        self._publish_sleep()

    async def run(self) -> None:
        """Step the engine for ever."""
        while True:
            started_at = self.clock.monotonic()
            step = self.engine.start_step(started_at)
            if len(self.engine.running) > self.faults.most_running:
                self._die(RUN_OOM_MESSAGE)
            self.engine.publish()
            if step is None:
                self._settle()
                await self._wake.wait()
                self._wake.clear()
                continue
            await self._pass(started_at + step.seconds * self.faults.slowness)
            self._deliver(self.engine.finish_step(step, self.clock.monotonic()))
            self.engine.publish()

    async def _pass(self, until: float) -> None:
        await asyncio.sleep(max(0.0, until - self.clock.monotonic()))
        await self.faults.until_not_hung()

    def _settle(self) -> None:
        if not self.engine.inflight:
            self._idle.set()

    def submit(self, generations: Sequence[Generation]) -> Mailbox:
        """Queue the sequences of one request."""
        mailbox = Mailbox(generations)
        for choice, generation in enumerate(generations):
            self._mailboxes[generation] = (mailbox, choice)
            self.engine.add(generation)
        self._idle.clear()
        self._wake.set()
        return mailbox

    def leave(self, mailbox: Mailbox) -> None:
        """Forget a request; what of it still runs is aborted."""
        for generation in mailbox.generations:
            if self._mailboxes.pop(generation, None) is not None:
                self.engine.abort(generation)
        if not self.faults.is_hung:
            self.engine.publish()
        self._wake.set()

    def stick(self, *, on: bool) -> None:
        """Let the requests that are in the batch stand still, or go on."""
        self.engine.stuck = frozenset(self.engine.running) if on else frozenset()
        self._wake.set()

    def _deliver(self, outputs: Sequence[Output]) -> None:
        for generation, finish in ((item.generation, item.finish) for item in outputs):
            mailbox, choice = self._mailboxes[generation]
            if finish:
                del self._mailboxes[generation]
            position = generation.generated if finish is Finish.ABORT else generation.generated - 1
            mailbox.post(Event(choice, position, finish))

    async def until_idle(self) -> None:
        """Wait until no request is left."""
        await self._idle.wait()

    @property
    def is_sleeping(self) -> bool:
        """Tell whether scheduling is paused or memory is asleep."""
        return self.engine.paused or bool(self._asleep)

    async def sleep(self, level: int, mode: str) -> None:
        """Stop scheduling; from level 1 on, memory and the prefix cache go as well.

        mode: abort ends what runs, wait lets it end, keep freezes it.
        """
        if mode == "wait":
            await self.until_idle()
        elif mode == "abort":
            self._deliver(self.engine.finish_all_as_aborted(self.clock.monotonic()))
        self.engine.paused = True
        if level:
            self.engine.cache.reset()
            self._asleep = {_WEIGHTS: level, _KV_CACHE: level}
        self.engine.publish()
        self._publish_sleep()

    def wake_up(self, tags: Sequence[str]) -> bool:
        """Wake memory by tag, all of it without tags; return whether the worker is fully awake."""
        for tag in tags or (_WEIGHTS, _KV_CACHE):
            if self._asleep.pop(tag, 0) == 2 and tag == _WEIGHTS:
                self.garbled = True
        if not self._asleep:
            self.engine.paused = False
            self._wake.set()
        self._publish_sleep()
        return not self._asleep

    def _publish_sleep(self) -> None:
        level = max(self._asleep.values(), default=0)
        states = {"awake": level == 0, "weights_offloaded": level == 1, "discard_all": level == 2}
        for state, value in states.items():
            self.meters.put(f'vllm:engine_sleep_state{{sleep_state="{state}"}}', float(value))

    def page(self) -> bytes:
        """Return the metrics page; the last one again while nothing has changed."""
        now = self.clock.monotonic()
        kept = self._rendered
        if kept and kept[0] == self.meters.revision and now - kept[1] < _PROCESS_REFRESH_SECONDS:
            return kept[2]
        read_process(self.meters)
        text = self._page.render(self.meters, self.http.lines())
        self._rendered = (self.meters.revision, now, text)
        return text


def _replacements(settings: SimSettings) -> dict[str, str]:
    tokens = settings.kv_blocks * settings.block_size
    return {
        "MODEL": label_value(settings.served_names[0]),
        "PYTHON": python_labels(),
        "BLOCK_SIZE": str(settings.block_size),
        "BLOCKS": str(settings.kv_blocks),
        "KV_TOKENS": str(tokens),
        "KV_BYTES": str(tokens * _BYTES_PER_TOKEN),
        "CONCURRENCY": number(tokens / settings.max_model_len),
    }
