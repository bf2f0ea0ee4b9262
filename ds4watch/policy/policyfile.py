"""The policy file: what an alert does, apart from what an alert is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from pydantic import BeforeValidator, Field, create_model

from ds4watch.config.document import Document
from ds4watch.config.loader import load_section
from ds4watch.config.section import Section
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.limits import LEVERS, Limits, Substitution, laxer_levers

ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class Substitute(Section):
    """A substitution in full: which model, for how much of the traffic, for which classes."""

    model: ModelName
    share: float = Field(1.0, gt=0, le=1)
    classes: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = ()


def _in_full(value: object) -> object:
    if isinstance(value, str):
        return {"model": value}
    # Beyond this step the values are no longer JSON's, and a strict tuple is no list.
    if isinstance(value, dict) and isinstance(value.get("classes"), list):
        return value | {"classes": tuple(value["classes"])}
    return value


_OTHER_FORMS: Mapping[str, Any] = {
    "substitutions": dict[ModelName, Annotated[Substitute, BeforeValidator(_in_full)]],
}
"""Levers that are written otherwise in the file than `Limits` holds them."""


def _keys() -> Iterator[tuple[str, tuple[Any, Any]]]:
    types = get_type_hints(Limits)
    for item in fields(Limits):
        lever = LEVERS[item.name]
        default = {} if item.name in _OTHER_FORMS else item.default
        key = Field(default, ge=lever.low, le=lever.high, description=lever.meaning)
        yield item.name, (_OTHER_FORMS.get(item.name, types[item.name]), key)


_Levers = create_model("_Levers", __base__=Section, **dict(_keys()))  # type: ignore[call-overload]


class Level(_Levers, Section):  # made from the table of levers
    """One rung of a ladder: a name and what the gateway is to do on it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")

    def limits(self) -> Limits:
        """Return the gateway's limits on this level."""
        values = {name: getattr(self, name) for name in LEVERS}
        values["substitutions"] = tuple(
            Substitution(asked, it.model, it.share, it.classes)
            for asked, it in sorted(values["substitutions"].items())
        )
        return Limits(**values)


class Pool(Section):
    """A ladder and how it is climbed. Level 0 is "normal" and is not written down."""

    ladder: tuple[Level, ...] = Field(min_length=1, max_length=9)
    settle_seconds: float = Field(10.0, ge=0)
    """Time on a level before the next one up."""
    clear_hold_seconds: float = Field(10.0, ge=0)
    """Calm before one level down."""


Matcher = Annotated[str, Field(min_length=1, max_length=200)]


class Binding(Section):
    """An alert whose labels equal `match` asks for `level` of `pool`."""

    match: dict[str, Matcher] = Field(min_length=1)
    pool: str = "default"
    level: int = Field(ge=1)
    jump: bool = False
    """Go to the level at once, not one at a time; for critical alerts."""


class PolicyFile(Section):
    """The whole file."""

    dry_run: bool = False
    pools: dict[str, Pool] = Field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()


def load_policy(text: str, file: str) -> PolicyFile:
    """Read a policy file. Raises ConfigError with one finding for each fault."""
    policy, document = load_section(text, file, PolicyFile)
    findings = [
        finding
        for number, binding in enumerate(policy.bindings)
        for finding in _check_binding(policy, binding, number, document)
    ]
    findings += [it for name in policy.pools for it in _check_ladder(policy, name, document)]
    if findings:
        raise ConfigError(*findings)
    return policy


def _check_binding(
    policy: PolicyFile, binding: Binding, number: int, document: Document
) -> list[Located]:
    pool = policy.pools.get(binding.pool)
    if pool is None:
        known = ", ".join(sorted(policy.pools)) or "none"
        message = f"there is no pool {binding.pool!r}"
        return [document.finding(("bindings", number, "pool"), message, mend=f"known: {known}")]
    if binding.level > len(pool.ladder):
        message = f"level {binding.level} is above the top of pool {binding.pool!r}"
        mend = f"its ladder has {len(pool.ladder)} levels"
        return [document.finding(("bindings", number, "level"), message, mend=mend)]
    return []


def _check_ladder(policy: PolicyFile, name: str, document: Document) -> list[Located]:
    levels = policy.pools[name].ladder
    return [
        document.finding(
            ("pools", name, "ladder", number, lever),
            f"level {number + 1} takes away less than level {number}",
            mend="a level says all that holds on it: repeat what holds on the one below, or more",
        )
        for number in range(1, len(levels))
        for lever in laxer_levers(levels[number - 1].limits(), levels[number].limits())
    ]
