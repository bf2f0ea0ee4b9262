"""An engine with real databases on a script, in a process of its own that may die at any step."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import aiohttp
import numpy as np

from ds4watch.actions.runner import Runner
from ds4watch.actions.set_level import SetLevel
from ds4watch.alerting.rulefile import load_rules
from ds4watch.engine.parts import EngineSettings, Known, Parts
from ds4watch.engine.restart import Stores, known_from, remember
from ds4watch.engine.rulebook import RuleBook
from ds4watch.engine.spool import Spools
from ds4watch.engine.tallies import Tallies
from ds4watch.engine.tick import Engine
from ds4watch.fleet.board import BoardPublisher, last_policy
from ds4watch.fleet.ladders import Ladders, NoJournal
from ds4watch.fleet.start_times import StartTimes
from ds4watch.history.database import Database
from ds4watch.history.live import LiveBuffer
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionKind, ActionPlan, ActionStatus
from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import RULE_PREFIX, ScrapeFailure, ScrapeResult, Target
from ds4watch.model.series import Sample, SeriesKey
from ds4watch.model.service_policy import ServicePolicy
from ds4watch.model.worker import FleetSnapshot
from ds4watch.notify.dispatcher import Channel, Dispatcher
from ds4watch.notify.webhook import Webhook
from ds4watch.policy.policyfile import load_policy
from ds4watch.scrape.gpu import GpuReport
from ds4watch.telemetry.metrics import Telemetry

STARTED_AT = 1_800_000_000.0
RULES = """\
groups:
  - name: scripted
    interval: 1s
    rules:
      - record: twice
        expr: 2 * load
      - alert: High
        expr: twice > 10
        for: 2s
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: High
        expr: twice > 30
        keep_firing_for: 2s
        labels: {severity: critical}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 0
    clear_hold_seconds: 0
    ladder:
      - {name: shorter, max_tokens_cap: 32}
      - {name: shortest, max_tokens_cap: 16}
bindings:
  - {match: {alertname: High, severity: warning}, level: 1}
  - {match: {alertname: High, severity: critical}, level: 2}
"""
LOAD: tuple[float | None, ...] = (1, 8, 8, 8, 8, 20, None, 20, 8, 8, 8, 8, 1, 1, 1, 1)
"""What is scraped at each tick; None: the scrape fails."""
TARGET = Target("w/1", "http://w1/metrics", (("job", "w"), ("worker", "w1")), group="w")
_SCHEMA = (SeriesKey("load"),)
_STEPS = frozenset(
    {
        "add_audit",
        "append",
        "claim_action",
        "claim_notification",
        "commit_tick",
        "finish_action",
        "finish_notification",
        "publish_policy",
        "send",
    }
)


@dataclass
class Clock:
    at: float = STARTED_AT

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@dataclass
class Steps:
    """Counts what is done to the world outside; the process dies before the step `killed_at`."""

    killed_at: int | None = None
    done: list[str] = field(default_factory=list)

    def take(self, name: str) -> None:
        if len(self.done) == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.done.append(name)


class Stepping:
    """Passes everything on; what counts as a step is counted first."""

    def __init__(self, inner: Any, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps
        self.idle = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._counted(name, found) if name in _STEPS else found

    def _counted(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        async def stepped(*given: Any, **named: Any) -> Any:
            self._steps.take(name)
            answer = await work(*given, **named)
            if name.startswith("claim_") and answer is None:
                self.idle.set()
            return answer

        return stepped


@dataclass
class Later:
    """Runner and dispatcher as a tick knows them; they begin when it is over."""

    in_flight: Callable[[str], bool]
    plans: list[ActionPlan]
    is_free = True

    def submit(self, plans: Iterable[ActionPlan], claimed: Collection[str]) -> None:
        assert {plan.id for plan in plans} == set(claimed)
        self.plans += plans

    def wake(self) -> None: ...


class Fleet:
    """No workers: everything scraped was discovered. Supervisor, discovery, GPUs and scraper."""

    targets = (TARGET,)
    is_settled = True
    left_out = 0
    start_times = StartTimes()

    def __init__(
        self,
        samples: SampleStore,
        clock: Clock,
        load: Sequence[float | None] = LOAD,
        series: tuple[SeriesKey, ...] = _SCHEMA,
    ) -> None:
        """Have each of `series` at `load`, tick by tick."""
        self._load = load
        self._schema = samples.intern(series)
        self._clock = clock
        self.ladders = Ladders({}, NoJournal(), clock)

    async def step(self, *_: object, **_named: object) -> None:
        return None

    def views(self) -> tuple[()]:
        return ()

    def in_doubt(self) -> frozenset[str]:
        return frozenset()

    def stopped(self) -> frozenset[str]:
        return frozenset()

    def standstills(self) -> Mapping[str, float]:
        return {}

    def note(self, *_: object) -> None: ...

    def note_prefill(self, _rates: object) -> None: ...

    def note_devices(self, _used_ratio: float | None) -> None: ...

    def stays(self) -> tuple[()]:
        return ()

    def samples(self, _fleet: object) -> list[Sample]:
        return []

    def note_served(self, answers: Iterable[object]) -> None:
        assert not list(answers)

    async def read(self) -> GpuReport:
        return GpuReport(why_not="none here")

    async def wave(self, targets: Sequence[Target], at: float) -> list[ScrapeResult]:
        assert tuple(targets) == self.targets
        load = self._load[round(at - STARTED_AT)]
        if load is None:
            failure = ScrapeFailure(EdgeReason.TIMEOUT, "no answer")
            return [ScrapeResult(TARGET, at, 0, np.empty(0), failure)]
        return [ScrapeResult(TARGET, at, self._schema.id, np.full(len(self._schema.series), load))]


class Board(BoardPublisher):
    """A board whose gateways always obey; notes each level that it is told to take."""

    def __init__(self, state_dir: Path, clock: Clock, policy: ServicePolicy) -> None:
        super().__init__(state_dir, clock, policy=policy)
        self._levels = state_dir / "levels"

    async def publish_policy(self, policy: ServicePolicy, *, timeout_seconds: float) -> bool:
        assert timeout_seconds > 0
        with self._levels.open("a") as levels:
            levels.write(f"{policy.level}\n")
        await super().publish_policy(policy, timeout_seconds=0.0)
        return True


class Daemon:
    """What `daemon.py` puts together, less what the script takes the place of."""

    def __init__(
        self,
        state_dir: Path,
        webhook_url: str,
        steps: Steps,
        *,
        channel: Channel | None = None,
        load: Sequence[float | None] = LOAD,
        rules: str = RULES,
        series: tuple[SeriesKey, ...] = _SCHEMA,
    ) -> None:
        """Tell `channel`, or what listens at the address."""
        self._channel = channel
        self._load = load
        self._rules = rules
        self._series = series
        self.opened: list[Database] = []
        self.clock = Clock()
        self.steps = steps
        self._dir = state_dir
        self._url = webhook_url
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.plans: list[ActionPlan] = []

    async def __aenter__(self) -> Self:
        stack, clock, steps = self._stack, self.clock, self.steps
        samples = SampleStore.open(self._dir / "samples.db", clock)
        stack.push_async_callback(samples.close)
        self.opened.append(samples._database)
        state = StateStore.open(self._dir / "state.db", clock)
        stack.push_async_callback(state.close)
        self.opened.append(state._database._database)
        rules = RuleBook(load_rules(self._rules, "rules.yml"))
        live = LiveBuffer(window_seconds=900.0, windows=rules.windows_read())
        restored = await state.load(clock.now())
        if restored.last_tick_at is not None:
            clock.at = restored.last_tick_at + 1
        pages = frozenset(it for it in await samples.targets() if it.startswith(RULE_PREFIX))
        stores = Stores(samples, state, live, restored, frozenset(), pages)

        telemetry = Telemetry()
        channel = self._channel
        if channel is None:
            session = await stack.enter_async_context(aiohttp.ClientSession())
            channel = Webhook(session, self._url)
        self.stepping = cast("Any", Stepping(state, steps))
        webhook = cast("Any", Stepping(channel, steps))
        board = cast(
            "Any",
            Stepping(Board(self._dir, clock, last_policy(self._dir, restored.policy)), steps),
        )
        handler = SetLevel(board, clock, lease_seconds=600.0)
        self.actions = cast("Any", Stepping(state, steps))
        runner = Runner(
            self.actions, {ActionKind.SET_LEVEL: handler}, metrics=telemetry.process, clock=clock
        )
        unfinished = (ActionStatus.PLANNED, ActionStatus.RUNNING)
        await runner.recover(it.plan for it in restored.actions if it.status in unfinished)
        dispatcher = Dispatcher(self.stepping, webhook, metrics=telemetry.process, clock=clock)
        fleet = cast("Any", Fleet(samples, clock, self._load, self._series))
        self.runner, self.dispatcher = runner, dispatcher
        parts = Parts(
            supervisor=fleet,
            discovery=fleet,
            scraper=fleet,
            gpus=fleet,
            pool=fleet,
            board=board,
            samples=cast("Any", Stepping(samples, steps)),
            state=self.stepping,
            live=live,
            rules=rules,
            policy=load_policy(POLICY, "policy.yml"),
            runner=cast("Any", Later(runner.in_flight, self.plans)),
            dispatcher=cast("Any", Later(runner.in_flight, self.plans)),
            telemetry=telemetry,
            spools=Spools(self._dir / "spool", state, {}),
            tallies=Tallies(),
        )
        self.known: Known = await known_from(stores, FleetSnapshot(clock.now()), clock)
        await remember(stores, rules, clock)
        settings = EngineSettings(1.0, "EUR", (), 3600.0)
        self.engine = Engine(parts, settings, self.known, wake=asyncio.Event(), clock=clock)
        self._tasks = [asyncio.create_task(it) for it in (dispatcher.run(), runner.run())]
        await self.stepping.idle.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def tick(self) -> None:
        """Tick, then send what is to be sent, then act, one after the other."""
        await self.engine.tick()
        self.stepping.idle.clear()
        self.dispatcher.wake()
        await self.stepping.idle.wait()
        if self.plans:
            self.actions.idle.clear()
            self.runner.submit(self.plans, [plan.id for plan in self.plans])
            self.plans.clear()
            await self.actions.idle.wait()


async def prepare(state_dir: Path) -> None:
    """Make empty databases."""
    await SampleStore.open(state_dir / "samples.db", Clock()).close()
    await StateStore.open(state_dir / "state.db", Clock()).close()


def play(state_dir: Path, webhook_url: str, killed_at: int | None) -> None:
    """Play the script from where the state folder stands; note the steps if it comes to its end."""
    steps = Steps(killed_at)
    asyncio.run(_play(state_dir, webhook_url, steps))
    (state_dir / "steps").write_text("\n".join(steps.done))


async def _play(state_dir: Path, webhook_url: str, steps: Steps) -> None:
    async with Daemon(state_dir, webhook_url, steps) as daemon:
        while daemon.clock.at < STARTED_AT + len(LOAD):
            await daemon.tick()
            daemon.clock.at += 1
