"""Workers and the fleet as one immutable snapshot, rebuilt each tick, never edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ds4watch.model.ports import UnixSeconds


class WorkerPhase(StrEnum):
    """Where a worker stands. The metric codes are fixed for ever (see `code`)."""

    ABSENT = "absent"
    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    ASLEEP = "asleep"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    UNKNOWN = "unknown"

    @property
    def code(self) -> int:
        """Numeric metric code; never renumber."""
        return _PHASE_CODES[self]


_PHASE_CODES: dict[WorkerPhase, int] = {
    WorkerPhase.ABSENT: 0,
    WorkerPhase.STARTING: 1,
    WorkerPhase.LOADING: 2,
    WorkerPhase.WARMING: 3,
    WorkerPhase.READY: 4,
    WorkerPhase.ASLEEP: 5,
    WorkerPhase.DRAINING: 6,
    WorkerPhase.STOPPING: 7,
    WorkerPhase.FAILED: 8,
    WorkerPhase.QUARANTINED: 9,
    WorkerPhase.UNKNOWN: 10,
}


class Ability(StrEnum):
    """What a model can do beside answering text with text, as far as its profile says."""

    TOOLS = "tools"
    STRUCTURED = "structured"
    MEDIA = "media"


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """What a worker last reported; None is "not reported", which is not zero."""

    running: float | None = None
    waiting: float | None = None
    kv_usage_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker as the rest of the system sees it. `models[0]` is its own name, the rest aliases."""

    id: str
    profile: str
    models: tuple[str, ...]
    url: str
    phase: WorkerPhase
    since: UnixSeconds
    load: WorkerLoad = WorkerLoad()
    reason: str = ""
    pid: int | None = None
    max_inflight: int | None = None
    """Requests that gateways may have open at it, all together; None is no limit."""
    share: float = 1.0
    """Of the requests for its models it gets that many at most; 1 is no limit."""
    is_current: bool = True
    """It runs what the fleet is to run; False for one that is to be replaced."""
    is_for_long: bool = False
    """It is kept for long prompts."""
    max_model_len: int | None = None
    """Tokens of prompt and answer that it has room for; None is not known."""
    abilities: tuple[Ability, ...] = ()
    api_key_file: str | None = None
    """What holds the API key that it asks for; None: it asks for none."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return {
            "id": self.id,
            "profile": self.profile,
            "models": list(self.models),
            "url": self.url,
            "phase": self.phase.value,
            "since": self.since,
            "load": {
                "running": self.load.running,
                "waiting": self.load.waiting,
                "kv_usage_ratio": self.load.kv_usage_ratio,
            },
            "reason": self.reason,
            "pid": self.pid,
            "max_inflight": self.max_inflight,
            "share": self.share,
            "is_current": self.is_current,
            "is_for_long": self.is_for_long,
            "max_model_len": self.max_model_len,
            "abilities": [ability.value for ability in self.abilities],
            "api_key_file": self.api_key_file,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerView:
        """Read what `as_json` wrote. Raises KeyError or ValueError on anything else."""
        return cls(
            id=data["id"],
            profile=data["profile"],
            models=tuple(data["models"]),
            url=data["url"],
            phase=WorkerPhase(data["phase"]),
            since=data["since"],
            load=WorkerLoad(**data["load"]),
            reason=data["reason"],
            pid=data["pid"],
            max_inflight=data.get("max_inflight"),  # a daemon before this one wrote none
            share=float(data.get("share", 1.0)),  # a daemon before this one wrote none
            is_current=bool(data.get("is_current", True)),  # nor these
            is_for_long=bool(data.get("is_for_long", False)),
            max_model_len=data.get("max_model_len"),
            abilities=tuple(map(Ability, data.get("abilities", ()))),
            api_key_file=data.get("api_key_file"),
        )


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All workers at one instant."""

    at: UnixSeconds
    workers: tuple[WorkerView, ...] = ()

    def models(self) -> tuple[str, ...]:
        """Return every model name that a ready worker serves, sorted."""
        names = {
            name
            for worker in self.workers
            if worker.phase is WorkerPhase.READY
            for name in worker.models
        }
        return tuple(sorted(names))
