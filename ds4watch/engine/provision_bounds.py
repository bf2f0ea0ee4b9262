"""What provisioning goes by, and what of it is left for one profile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ds4watch.cost.prices import PriceEntry, price_at
from ds4watch.engine.load_ahead import ProfileFacts
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.calendar import CalendarEntry
from ds4watch.policy.provision import ProvisioningLimits

_PATIENCE_RATIO = 2.0
_LEAST_PATIENCE_SECONDS = 60.0
_SOON = (WorkerPhase.READY, WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.WARMING)


@dataclass(frozen=True, slots=True)
class ProvisionSettings:
    """What is gone by. limits: of every profile, with slots, floor and bounds still to be filled.

    sleeps: whether sleepers may be put to rest. dry_until: until then it is only told.
    """

    limits: ProvisioningLimits
    profiles: Mapping[str, ProfileFacts]
    prices: tuple[PriceEntry, ...] = ()
    calendar: tuple[CalendarEntry, ...] = ()
    min_hot: int = 0
    full_ratio: float = 1.0
    max_workers: int | None = None
    budget: Nanos | None = None
    coverage: float = 0.8
    look_seconds: float = 5.0
    patience_seconds: float | None = None
    sleeps: bool = False
    enabled: bool = True
    dry_until: UnixSeconds = 0.0


def limits_of(settings: ProvisionSettings, profile: str) -> ProvisioningLimits:
    """Return the limits with the slots of a profile."""
    known = settings.profiles.get(profile)
    return settings.limits if known is None else replace(settings.limits, slots=known.slots)


def bounds(
    settings: ProvisionSettings,
    profile: str,
    others: Sequence[WorkerView],
    *,
    goal: int,
    least: int,
    lead_seconds: float,
    now: UnixSeconds,
) -> ProvisioningLimits:
    """Return what the workers of other profiles that are on leave of the fleet's bounds.

    goal: so many of all are to be ready. least: so many of this profile, whatever others have.
    """
    hot = sum(it.phase is WorkerPhase.READY for it in others)
    soon = sum(it.phase in _SOON for it in others)
    ceiling, budget = settings.max_workers, settings.budget
    if ceiling is not None:
        ceiling = max(0, ceiling - len(others))
    if budget is not None:
        budget = max(
            0, budget - sum(price_at(settings.prices, it.profile, now, it.url) for it in others)
        )
    patience = max(_PATIENCE_RATIO * lead_seconds, _LEAST_PATIENCE_SECONDS)
    return replace(
        limits_of(settings, profile),
        floor=max(least, goal - soon),
        least_hot=max(least, goal - hot),
        ceiling=ceiling,
        budget=budget,
        patience_seconds=settings.patience_seconds or patience,
    )
