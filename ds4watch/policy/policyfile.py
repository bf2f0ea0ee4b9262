"""The policy file: what an alert does, apart from what an alert is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ds4watch.config.document import Document
from ds4watch.config.loader import load_section
from ds4watch.config.section import Section
from ds4watch.model.errors import ConfigError, Located
from ds4watch.model.service_policy import Limits


class Level(Section):
    """One rung of a ladder: a name and what the gateway is to do on it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    max_tokens_cap: int | None = Field(None, ge=1)
    max_inflight: int | None = Field(None, ge=1)
    substitutions: dict[str, str] = Field(default_factory=dict)
    shed_below_priority: int | None = Field(None, ge=0, le=10)
    max_turns: int | None = Field(None, ge=1)

    def limits(self) -> Limits:
        """Return the gateway's limits on this level."""
        return Limits(
            max_tokens_cap=self.max_tokens_cap,
            max_inflight=self.max_inflight,
            substitutions=tuple(sorted(self.substitutions.items())),
            shed_below_priority=self.shed_below_priority,
            max_turns=self.max_turns,
        )


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
