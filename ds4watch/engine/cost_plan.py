"""Prices and budgets as the settings and profiles have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from ds4watch.config.budgets import BudgetSettings
from ds4watch.config.cost import Price
from ds4watch.config.lints.arguments import arguments_of, gpus_of
from ds4watch.config.profile import Profile
from ds4watch.config.settings import Settings
from ds4watch.cost.budgets import Budget, Period, Scope
from ds4watch.cost.prices import ANY, PriceEntry, price_entry, with_own_prices
from ds4watch.cost.storage import StoragePrice
from ds4watch.engine.signals import POOL
from ds4watch.model.limits import Limits, gentle
from ds4watch.model.money import nanos_from_decimal
from ds4watch.policy.ladder import pool_of
from ds4watch.policy.policyfile import PolicyFile
from ds4watch.scrape.gpu import GpuReport

_OFFLOADING = "--kv-offloading-size"
_GIB = 1 << 30


def prices_of(
    settings: Settings, profiles: Mapping[str, Profile], gpu: str
) -> tuple[PriceEntry, ...]:
    """Return the price list. gpu: the model of this machine's GPUs, empty if there is not one."""
    listed = [
        entry
        for price in settings.cost.prices
        if price.gpu is None or price.gpu.lower() in gpu.lower()
        for entry in _entries(price, profiles)
    ]
    own = {
        name: tuple(_own(profile))
        for name, profile in profiles.items()
        if profile.price_gpu_hour is not None
    }
    return with_own_prices(listed, own)


def _entries(price: Price, profiles: Mapping[str, Profile]) -> Iterator[PriceEntry]:
    def entry(per_hour: Decimal, gpus: int = 1, profile: str = price.profile) -> PriceEntry:
        return price_entry(
            profile,
            per_hour * gpus,
            price.valid_from.timestamp(),
            host=price.host,
            of_gpu=price.gpu is not None,
            stands_for_all=profile != price.profile,
        )

    if price.per_gpu_hour is None:
        yield entry(price.per_hour)
        return
    yield entry(price.per_gpu_hour)
    for name, profile in profiles.items():
        if price.profile in (ANY, name):
            yield entry(price.per_gpu_hour, gpus_of(profile), name)


def _own(profile: Profile) -> Iterator[tuple[float, Decimal]]:
    gpus = gpus_of(profile)
    if profile.price_gpu_hour is not None:
        yield 0.0, profile.price_gpu_hour * gpus
    for change in profile.price_changes:
        yield change.valid_from.timestamp(), change.price_gpu_hour * gpus


def gpu_model(report: GpuReport) -> str:
    """Return the name that all GPUs of this machine have; empty if there are several or none."""
    names = {it.name for it in report.readings if not it.mig}
    return names.pop() if len(names) == 1 else ""


def storage_prices_of(settings: Settings) -> tuple[StoragePrice, ...]:
    """Return the price list of what is kept."""
    return tuple(
        StoragePrice(it.what, nanos_from_decimal(it.per_gb_hour), it.valid_from.timestamp())
        for it in settings.cost.storage_prices
    )


def offload_bytes_of(profiles: Mapping[str, Profile]) -> dict[str, int]:
    """Return what a worker of each profile keeps of KV caches outside of its GPUs."""
    found = {}
    for name, profile in profiles.items():
        gib = arguments_of(profile).value(_OFFLOADING)
        if gib.replace(".", "", 1).isdecimal():
            found[name] = round(float(gib) * _GIB)
    return found


def budgets_of(settings: Settings) -> tuple[Budget, ...]:
    """Return the budgets of the settings."""
    return tuple(
        Budget(
            _scope_of(it),
            it.key or it.model or "",
            Period(it.period),
            nanos_from_decimal(it.limit),
        )
        for it in settings.cost.budgets
    )


def _scope_of(budget: BudgetSettings) -> Scope:
    if budget.key is not None:
        return Scope.KEY
    return Scope.MODEL if budget.model is not None else Scope.TOTAL


def gentle_levels(settings: Settings, policy: PolicyFile) -> tuple[Limits, ...]:
    """Return what keys are eased to before their budgets run out: two levels of the ladder."""
    first, ladder = settings.cost.ease_keys_from_level, pool_of(policy, POOL).ladder
    if first == 0:
        return ()
    return tuple(gentle(level.limits()) for level in ladder[first - 1 : first + 1])
