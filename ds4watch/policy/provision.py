"""What provisioning goes by, carries on, and decides, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds


class Reason(StrEnum):
    """What asks for workers."""

    FLOOR = "floor"
    LOAD = "load"
    QUEUE = "queue"
    KV_CACHE = "kv_cache"
    FORECAST = "forecast"
    CALENDAR = "calendar"
    UNSERVED = "unserved"
    PLANNED = "planned"


class Standing(StrEnum):
    """Where a worker stands, as far as it matters here.

    LOST: down by a fault; whoever tends it brings it back, or not. LEAVING: on the way to rest.
    """

    HOT = "hot"
    COMING = "coming"
    ASLEEP = "asleep"
    AWAY = "away"
    LEAVING = "leaving"
    LOST = "lost"


class Move(StrEnum):
    """What becomes of a worker."""

    CALL = "call"
    REST = "rest"
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True)
class ProvisioningLimits:
    """What is gone by. slots: requests that one worker runs at once.

    floor: so many are always asked for. least_hot: nobody rests unless more are ready; over the
    floor while others, who are to make it up, are still on their way.
    target_ratio: share of those in use beyond which more are called. margin: what is forecast gets
    so many times its square root of slots more, as arrivals by chance spread. budget: of the
    profile, for an hour; None is no limit. patience_seconds: for so long who was called may be on
    the way.
    """

    slots: float
    floor: int = 0
    least_hot: int = 0
    ceiling: int | None = None
    budget: Nanos | None = None
    target_ratio: float = 0.75
    margin: float = 1.0
    queue_trigger: float = 50.0
    stabilise_seconds: float = 300.0
    patience_seconds: float = 600.0
    give_up_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class Unit:
    """A worker. is_ours: we may call it and have it rest; price: of an hour."""

    id: str
    standing: Standing
    is_ours: bool = True
    price: Nanos = 0


@dataclass(frozen=True, slots=True)
class Demand:
    """What asks for workers at an instant.

    in_flight: requests open, those that wait among them, over the last minute: what is over before
    anybody could be ready asks for nobody. None: not known, or too old to go by.
    ahead: the most that is forecast to be in flight until a worker called now is ready.
    """

    at: UnixSeconds
    in_flight: float | None = None
    waiting: float = 0.0
    ahead: float | None = None
    calendar: int = 0
    is_unserved: bool = False
    is_full: bool = False
    """The KV caches of the ready are nearly full."""
    planned: int = 0
    """Workers that are about to be taken away for a while."""


@dataclass(frozen=True, slots=True)
class Provision:
    """What is carried on: who is to be on, who was called when, what was wanted lately.

    ours: who was ours at the last look. wanted: the falling maxima of the stabilisation window,
    oldest first.
    """

    on: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    called_at: Mapping[str, UnixSeconds] = field(default_factory=dict)
    rested_at: Mapping[str, UnixSeconds] = field(default_factory=dict)
    given_up_until: Mapping[str, UnixSeconds] = field(default_factory=dict)
    wanted: tuple[tuple[UnixSeconds, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One worker's change, and why."""

    worker: str
    move: Move
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What is wanted and what is done. refused: what stood against more, empty if nothing did."""

    wanted: int
    kept: int
    hot: int
    coming: int
    asks: Mapping[Reason, int]
    steps: tuple[Step, ...] = ()
    refused: str = ""

    @property
    def reason(self) -> Reason:
        """What asks for the most."""
        return max(self.asks, key=lambda it: self.asks[it], default=Reason.FLOOR)
