"""A worker and its supervisor in a few lines, for random walks through the machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from ds4watch.fleet.life import Deed, Life, LifeLimits, Seen, Work, started
from ds4watch.fleet.lifecycle import MAY_DIE, advance, deed, wished
from ds4watch.fleet.wish import AS_SET, Wanted
from ds4watch.model.worker import WorkerPhase

LIMITS = LifeLimits(
    start_timeout_seconds=60.0,
    canary_interval_seconds=10.0,
    backoff_seconds=2.0,
    backoff_max_seconds=20.0,
    drain_seconds=30.0,
    can_sleep=True,
)


@dataclass(slots=True)
class World:
    """One worker as it is, and as the machine believes it to be. A step is half a second."""

    limits: LifeLimits = LIMITS
    wanted: Wanted = AS_SET
    life: Life = field(default_factory=Life)
    now: float = 1000.0
    processes: int = 0
    asleep: bool = False
    hung: bool = False
    survives: bool = False
    """Something of it does not go at SIGKILL."""
    answered_at: float = -1.0
    begun_at: float = 0.0
    quiet_since: float | None = None

    def step(self, *, busy: bool = False) -> None:
        """Look once, as the supervisor does."""
        self.now += 0.5
        work = self._work(busy=busy)
        self.life = wished(self.life, self.wanted, self.limits, self.now, work)
        todo = deed(self.life, self.limits, self.now, self.wanted, work)
        if todo is Deed.START:
            self._start()
            return
        seen = self._do(todo)
        life = advance(self.life, seen, self.limits, self.now, work)
        self.life = wished(life, self.wanted, self.limits, self.now, work)

    def kill(self) -> None:
        """Let its leader die; what it started may live on."""
        if self.processes and not self.survives:
            self.processes = 0

    def _work(self, *, busy: bool) -> Work:
        if busy or not self.processes:
            self.quiet_since = None
            return Work(is_busy=busy)
        self.quiet_since = self.quiet_since or self.now
        return Work(quiet_since=self.quiet_since, quiet_until=self.now)

    def _start(self) -> None:
        if not self.limits.is_foreign:
            assert self.processes == 0, "two processes for one worker"
            self.processes, self.asleep, self.hung = 1, False, False
        self.begun_at = self.now
        self.life = started(self.life, self.now)

    def _do(self, todo: Deed) -> Seen:
        if todo is Deed.STOP:
            self.processes = self.processes if self.survives else 0
            gone = self.processes == 0
            return Seen(alive=False, gone=gone, detail="" if gone else "process 7")
        if self.processes == 0 or self.life.phase not in (*MAY_DIE, WorkerPhase.UNKNOWN):
            return Seen(alive=False)
        match todo:
            case Deed.PROBE:
                return Seen(alive=True, healthy=True, sleeping=self.asleep)
            case Deed.CANARY:
                return self._canary()
            case Deed.SLEEP:
                self.asleep = self.asleep or not self.hung
                return Seen(alive=True, slept=self.asleep, detail="no answer")
            case Deed.WAKE:
                self.asleep = self.asleep and self.hung
                return Seen(alive=True, woke=not self.asleep, detail="no answer")
            case Deed.ASK_ASLEEP:
                return Seen(alive=True, sleeping=self.asleep)
            case _:
                return Seen(alive=True)

    def _canary(self) -> Seen:
        if self.asleep or self.hung:
            return Seen(
                alive=True, asked_at=self.now, canary_ok=False, sleeping=self.asleep, detail="-"
            )
        self.answered_at = self.now
        return Seen(alive=True, canary_ok=True, asked_at=self.now)
