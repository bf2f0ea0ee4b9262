"""What does not go together between profiles, and between a profile and the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from ds4watch.config.lints.arguments import arguments_of, gpus_of
from ds4watch.config.lints.findings import Advice, gib, warn
from ds4watch.config.lints.geometry import ModelFacts
from ds4watch.config.lints.gpus import GpuFacts
from ds4watch.config.lints.memory import MOST_UTILIZATION, utilization_of, weights_bytes
from ds4watch.config.lints.precision import is_full
from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import Settings, WorkerSettings

_MOST_OF_HOST = 0.9


@dataclass(frozen=True, slots=True)
class Fleet:
    """All profiles that can be read, with what is known of their models.

    examples: names of shipped profiles that nothing is run of; they clash with nobody's.
    """

    profiles: Mapping[str, Profile]
    models: Mapping[str, ModelFacts]
    settings: Settings
    examples: frozenset[str] = frozenset()


def lint_among(profile: Profile, fleet: Fleet) -> Iterator[Advice]:
    """Yield what does not go together between one profile, the others and the settings."""
    yield from _reference_faults(profile, fleet)
    yield from _name_faults(profile, fleet)
    yield from _price_faults(profile, fleet.settings)


def room_fault(
    workers: tuple[WorkerSettings, ...], profiles: Mapping[str, Profile], gpus: GpuFacts
) -> tuple[str, str] | None:
    """Return (message, mend) if the wanted workers take more GPU memory than is here."""
    wanted = [(profiles[it.profile], it.count) for it in workers if it.profile in profiles]
    shares = [
        count * gpus_of(profile) * utilization_of(arguments_of(profile))
        for profile, count in wanted
        if profile.engine is Engine.VLLM
    ]
    total, here = sum(shares), gpus.count * MOST_UTILIZATION
    if not gpus.count or total <= here:
        return None
    message = (
        f"the workers want the memory of {total:.2f} GPUs (count x GPUs x "
        f"--gpu-memory-utilization), and {gpus.count} are here, of which {here:.2f} can be had"
    )
    return message, "run fewer workers, or give each a lower --gpu-memory-utilization"


def sleep_fault(
    workers: tuple[WorkerSettings, ...], fleet: Fleet, host_bytes: int, gpus: GpuFacts
) -> tuple[str, str] | None:
    """Return (message, mend) if this host's memory cannot hold the weights of all who may sleep.

    Sleep of level 1 moves them there. On a host without a GPU nothing is moved.
    """
    if not gpus.count or fleet.settings.fleet.sleep_after_seconds is None:
        return None
    known = [
        (fleet.profiles[it.profile], it.count) for it in workers if it.profile in fleet.profiles
    ]
    weights = [
        weights_bytes(profile, fleet.models.get(profile.name, ModelFacts())) or 0.0
        for profile, count in known
        if profile.sleep and profile.engine is Engine.VLLM
        for _ in range(count)
    ]
    awake = max(0, fleet.settings.fleet.min_hot - (sum(it.count for it in workers) - len(weights)))
    asleep = sorted(weights)[awake:]
    if sum(asleep) <= host_bytes * _MOST_OF_HOST:
        return None
    message = (
        f"{len(asleep)} workers that may sleep keep {gib(sum(asleep))} of weights in this host's "
        f"memory, which has {gib(host_bytes)}"
    )
    return message, "let fewer sleep (`sleep` of the profiles), or raise min_hot"


def _reference_faults(profile: Profile, fleet: Fleet) -> Iterator[Advice]:
    if profile.reference is None:
        if not is_full(profile.precision):
            message = (
                f"{profile.precision} is quantized, and no full-precision profile is named that "
                "its answers are compared with"
            )
            yield Advice(("precision",), message, "add `reference: <profile>`")
        return
    other = fleet.profiles.get(profile.reference)
    if other is None:
        message = f"there is no profile {profile.reference} that can be read"
        yield Advice(("reference",), message, f"known: {', '.join(sorted(fleet.profiles))}")
        return
    if not is_full(other.precision):
        message = f"{other.name} is {other.precision}, so it is no full-precision reference"
        yield Advice(("reference",), message, "name the profile of the unquantized model")
    yield from _same_model_faults(profile, other, fleet)


def _same_model_faults(profile: Profile, other: Profile, fleet: Fleet) -> Iterator[Advice]:
    one, two = _numbers(profile, fleet), _numbers(other, fleet)
    if one is not None and two is not None and one != two:
        message = (
            f"{other.name} is another model: layers, KV heads and head width are "
            f"{'/'.join(map(str, two))} there, and {'/'.join(map(str, one))} here"
        )
        yield Advice(("reference",), message, "name the unquantized form of this model")
    if not set(profile.served_names) & set(other.served_names):
        message = f"serves no name that its reference {other.name} serves: neither can stand in"
        mend = f"give both a common name, such as {other.served_names[-1]}"
        yield warn(("served_names",), message, mend)


def _numbers(profile: Profile, fleet: Fleet) -> tuple[int, int, int] | None:
    said, facts = profile.geometry, fleet.models.get(profile.name)
    if said.layers and said.kv_heads and said.head_dim:
        return said.layers, said.kv_heads, said.head_dim
    shape = facts.shape if facts else None
    return (shape.layers, shape.kv_heads, shape.head_dim) if shape else None


def _name_faults(profile: Profile, fleet: Fleet) -> Iterator[Advice]:
    """Yield names that another model answers to as well; forms of one model may share them."""
    if profile.name in fleet.examples:
        return
    others = [it for name, it in sorted(fleet.profiles.items()) if name not in fleet.examples]
    for other in others:
        if other.name >= profile.name or _family(other, fleet) == _family(profile, fleet):
            continue
        for position, name in enumerate(profile.served_names):
            if name in other.served_names:
                message = f"{name} is served by {other.name} too, which is another model"
                mend = "rename it, or name the reference if it is a form of the same model"
                yield Advice(("served_names", position), message, mend)


def _family(profile: Profile, fleet: Fleet) -> tuple[str, str]:
    """Return what model a profile is a form of: that of its reference."""
    root = fleet.profiles.get(profile.reference or "", profile)
    return root.engine.value, root.model or root.name


def unpriced_fault(
    workers: tuple[WorkerSettings, ...], profiles: Mapping[str, Profile], settings: Settings
) -> tuple[str, str] | None:
    """Return (message, mend) if the price list says nothing of some who run: they cost 0."""
    own = {it.profile for it in workers}
    running = own | {it.profile for it in settings.fleet.external}
    listed = {it.profile for it in settings.cost.prices}
    priced = {it.name for it in profiles.values() if it.price_gpu_hour is not None}
    without = sorted(running - listed - priced)
    if "*" in listed or not without:
        return None
    budgets = ", and no budget counts them" if settings.cost.budgets else ""
    message = f"has no price for {', '.join(without)}: they are taken to cost nothing{budgets}"
    return message, "add a price for each, or one without profile for all others"


def _price_faults(profile: Profile, settings: Settings) -> Iterator[Advice]:
    named = [it for it in settings.cost.prices if it.profile == profile.name]
    if profile.price_gpu_hour is not None and named:
        message = f"goes before the prices that cost.prices has for {profile.name}"
        yield warn(("price_gpu_hour",), message, "leave one of the two")
    has_gpus = profile.gpus is not None or profile.gpu_kind is not None
    others = [it.per_hour for it in settings.cost.prices if it.per_gpu_hour is None]
    is_by_gpu = len(others) < len(settings.cost.prices)
    if profile.price_gpu_hour is None and not named and has_gpus and not is_by_gpu:
        rest = max(others, default=Decimal(0))
        message = (
            f"has no price: {gpus_of(profile)} GPU(s) are charged as any worker, "
            f"{rest.normalize():f} {settings.cost.currency} an hour"
        )
        path = ("gpus",) if profile.gpus is not None else ("gpu_kind",)
        yield warn(path, message, "add price_gpu_hour")
