"""Puts provisioning together from the settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from ds4watch.config.profile import Profile
from ds4watch.config.provisioning import DAYS, CalendarSettings, ProvisioningSettings
from ds4watch.engine.blueprint import Blueprint
from ds4watch.engine.load_ahead import LoadAhead, ProfileFacts
from ds4watch.engine.provision import Provisioning
from ds4watch.engine.provision_bounds import ProvisionSettings
from ds4watch.fleet.supervisor import Supervisor
from ds4watch.history.state import StateStore
from ds4watch.model.money import Nanos, nanos_from_decimal
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.policy.calendar import CalendarEntry
from ds4watch.policy.provision import ProvisioningLimits

_TRIAL_SECONDS = 7 * 86_400.0
_USUAL_SLOTS = 32
_USUAL_START_SECONDS = 300.0


def provisioning(
    blueprint: Blueprint,
    supervisor: Supervisor,
    state: StateStore,
    kept: Mapping[str, Any],
    clock: Clock,
    *,
    began_at: UnixSeconds,
) -> Provisioning:
    """Return who looks ahead of load; began_at: when ds4watch was installed, kept: what is."""
    settings = provision_settings(blueprint, began_at)
    ahead = LoadAhead(settings.profiles, supervisor.start_times, kept, coverage=settings.coverage)
    return Provisioning(supervisor, state, settings, ahead, clock)


def provision_settings(blueprint: Blueprint, began_at: UnixSeconds) -> ProvisionSettings:
    """Return what the settings say."""
    settings = blueprint.settings
    own, fleet = settings.provisioning, settings.fleet
    return ProvisionSettings(
        limits=ProvisioningLimits(
            slots=own.slots or _USUAL_SLOTS,
            target_ratio=own.target_ratio,
            margin=own.spread,
            queue_trigger=own.queue_waiting,
            stabilise_seconds=own.stabilise_seconds,
        ),
        profiles={name: _facts(it, own) for name, it in blueprint.profiles.items()},
        prices=blueprint.prices,
        calendar=tuple(_entry(it) for it in own.calendar),
        min_hot=fleet.min_hot,
        full_ratio=fleet.wake_kv_usage_ratio,
        max_workers=own.max_workers,
        budget=_nanos(own),
        coverage=own.coverage_ratio,
        look_seconds=own.look_seconds,
        patience_seconds=own.patience_seconds,
        sleeps=fleet.sleep_after_seconds is not None,
        enabled=own.enabled,
        dry_until=_dry_until(own, began_at, is_dry=blueprint.policy.dry_run),
    )


def _facts(profile: Profile, own: ProvisioningSettings) -> ProfileFacts:
    slots = own.slots or profile.max_num_seqs or _USUAL_SLOTS
    return ProfileFacts(slots, profile.expected_start_seconds or _USUAL_START_SECONDS)


def _entry(it: CalendarSettings) -> CalendarEntry:
    return CalendarEntry(
        name=it.name,
        workers=it.workers,
        days=frozenset(DAYS.index(day) for day in it.days),
        begin=it.begin,
        end=it.end,
        profile=it.profile,
        zone=ZoneInfo(it.timezone),
    )


def _nanos(own: ProvisioningSettings) -> Nanos | None:
    return None if own.budget_per_hour is None else nanos_from_decimal(own.budget_per_hour)


def _dry_until(own: ProvisioningSettings, began_at: UnixSeconds, *, is_dry: bool) -> UnixSeconds:
    """Return until when it is only told: for good, the first week, or not at all."""
    if is_dry or own.dry_run:
        return math.inf
    return 0.0 if own.dry_run is not None else began_at + _TRIAL_SECONDS
