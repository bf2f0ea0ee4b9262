"""What a tick works with, goes by, and carries over to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ds4watch.actions.runner import Runner
from ds4watch.cost.book import CostBook
from ds4watch.cost.budgets import BudgetBook
from ds4watch.cost.prices import PriceEntry
from ds4watch.cost.recent import RecentHours
from ds4watch.cost.turns import Turns
from ds4watch.engine.api_keys import ApiKeys
from ds4watch.engine.external_alerts import ExternalAlerts
from ds4watch.engine.model_easing import ModelEasing
from ds4watch.engine.provision import Provisioning
from ds4watch.engine.remote_rounds import Rounds
from ds4watch.engine.route_judge import RouteJudge
from ds4watch.engine.rulebook import RuleBook
from ds4watch.engine.sight import Sight
from ds4watch.engine.signals import QualityReading, RequestTotals
from ds4watch.engine.spool import Spools
from ds4watch.engine.start_check import Doubt
from ds4watch.engine.steering import Steering
from ds4watch.engine.tallies import Tallies
from ds4watch.engine.warm_pool import WarmPool
from ds4watch.fleet.board import BoardPublisher
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.live import LiveBuffer
from ds4watch.history.rows import JobRun
from ds4watch.history.samples import SampleStore
from ds4watch.history.state import StateStore
from ds4watch.model.action import Hold
from ds4watch.model.alert import AlertState
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import Sample
from ds4watch.model.silence import Silence
from ds4watch.model.usage import RequestOutcome, RequestRecord
from ds4watch.model.work import works_of
from ds4watch.model.worker import FleetSnapshot
from ds4watch.notify.dispatcher import Dispatcher
from ds4watch.policy.ladder import LadderState
from ds4watch.policy.policyfile import PolicyFile
from ds4watch.scrape.discovery import Discovery
from ds4watch.scrape.gpu_watch import GpuWatch
from ds4watch.scrape.wave import Scraper
from ds4watch.telemetry.metrics import Telemetry


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a tick goes by."""

    interval_seconds: float
    currency: str
    prices: tuple[PriceEntry, ...]
    quality_max_age_seconds: float
    golden_max_age_seconds: float = 172_800.0
    slo_seconds: float = 1.2


@dataclass(frozen=True, slots=True)
class Parts:
    """What a tick works with."""

    supervisor: Supervisor
    discovery: Discovery
    scraper: Scraper
    gpus: GpuWatch
    board: BoardPublisher
    samples: SampleStore
    state: StateStore
    live: LiveBuffer
    rules: RuleBook
    policy: PolicyFile
    runner: Runner
    dispatcher: Dispatcher
    telemetry: Telemetry
    spools: Spools
    pool: WarmPool
    tallies: Tallies
    keys: ApiKeys | None = None
    models: ModelEasing | None = None
    provision: Provisioning | None = None
    """None: load is not looked ahead of."""
    external: ExternalAlerts | None = None
    """Alerts of others; None: nobody hands any on."""
    steering: Steering | None = None
    """What acts on workers and answers persons; None: nobody does."""
    rounds: Rounds | None = None
    """Of questions to the server that evaluates rules, if one does."""
    may_act: Callable[[], bool] = lambda: True
    """Whether this daemon leads; asked before what is done, not written."""


@dataclass(slots=True)
class Known:
    """What the engine carries from one tick to the next; all of it restored at a start."""

    alerts: tuple[AlertState, ...] = ()
    ladders: Mapping[str, LadderState] = field(default_factory=dict)
    """By pool."""
    plan_version: int = 0
    """The highest number of a plan of an earlier daemon."""
    holds: tuple[Hold, ...] = ()
    silences: tuple[Silence, ...] = ()
    """Those in force, and those to come."""
    totals: RequestTotals = field(default_factory=RequestTotals)
    spent: Nanos = 0
    spent_today: Nanos = 0
    today_at: UnixSeconds = 0.0
    failed_rules: tuple[Sample, ...] = ()
    charged_until: dict[str, UnixSeconds] = field(default_factory=dict)
    quality: tuple[QualityReading, ...] = ()
    start_doubts: Mapping[str, Doubt] = field(default_factory=dict)
    """Of the start check, by worker."""
    samples: Iterable[Sample] = ()
    fleet: FleetSnapshot = field(default_factory=lambda: FleetSnapshot(at=0.0))
    targets: tuple[Target, ...] = ()
    scraped: dict[str, ScrapeResult] = field(default_factory=dict)
    """The last scrape of each target, by its name."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """Of each ready worker, whether its metrics can be read."""
    per_hour: Nanos = 0
    prefill_ratios: Mapping[str, float] = field(default_factory=dict)
    """Of workers, over the last minute; one whose requests were not timed is not in it."""
    cost: CostBook = field(default_factory=CostBook)
    budgets: BudgetBook = field(default_factory=lambda: BudgetBook(()))
    recent: RecentHours = field(default_factory=RecentHours)
    turns: Turns = field(default_factory=Turns)
    served_at: dict[str, UnixSeconds] = field(default_factory=dict)
    """When each worker last answered somebody."""
    routes: RouteJudge = field(default_factory=RouteJudge)
    carried_at: UnixSeconds = 0.0
    """When the book was last stored."""
    jobs: dict[str, JobRun] = field(default_factory=dict)
    pages: frozenset[str] = frozenset()
    """Pages of rules that have a past."""
    unclaimed: frozenset[str] = frozenset()
    """Discovered targets with a past that discovery has not spoken of yet."""

    def note_work(self, record: RequestRecord) -> None:
        """Take in what a request that is booked took of workers."""
        for place, work in works_of(record):
            self.recent.add_work(record.ended_at, place, work)
        if record.outcome is RequestOutcome.OK:
            before = self.served_at.get(record.worker, 0.0)
            self.served_at[record.worker] = max(before, record.ended_at)
