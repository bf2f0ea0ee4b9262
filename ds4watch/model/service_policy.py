"""The ServicePolicy and the board: what actions write and the gateway obeys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ds4watch.model.key_budget import BudgetLeft
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.limits import Limits
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerView

__all__ = ["ApiKey", "Board", "Limits", "PoolLevel", "ServicePolicy"]

DEFAULT_POOL = "default"
"""The pool of all models that are of no pool with a ladder of its own."""
_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Diversion:
    """A class of work that a model is not to answer: another one does, while it can be had."""

    model: str
    work_class: str
    serves: str


@dataclass(frozen=True, slots=True)
class PoolLevel:
    """Where the ladder of one pool stands: its models go by it, not by the whole gateway's."""

    pool: str
    profiles: tuple[str, ...]
    """Models that workers of these serve are the pool's."""
    level: int = 0
    level_name: str = "normal"
    limits: Limits = _NO_LIMITS
    ladder: tuple[Limits, ...] = (_NO_LIMITS,)
    reason: str = ""
    since: UnixSeconds = 0.0
    action: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return {
            "pool": self.pool,
            "profiles": list(self.profiles),
            "level": self.level,
            "level_name": self.level_name,
            "limits": self.limits.as_json(),
            "ladder": [limits.as_json() for limits in self.ladder],
            "reason": self.reason,
            "since": self.since,
            "action": self.action,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PoolLevel:
        """Read what `as_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            pool=data["pool"],
            profiles=tuple(data["profiles"]),
            level=data["level"],
            level_name=data["level_name"],
            limits=Limits.from_json(data["limits"]),
            ladder=tuple(Limits.from_json(limits) for limits in data["ladder"]),
            reason=data["reason"],
            since=data["since"],
            action=str(data["action"]),
        )


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """The small versioned document that the gateway obeys. `version` only ever rises.

    `ladder` holds the limits of each level from 0 up to `level`, so that a gateway without a
    daemon can take levels back one at a time once the lease has run out.
    """

    version: int = 0
    level: int = 0
    level_name: str = "normal"
    limits: Limits = _NO_LIMITS
    ladder: tuple[Limits, ...] = (_NO_LIMITS,)
    excluded_workers: tuple[str, ...] = ()
    diversions: tuple[Diversion, ...] = ()
    """As exclusions they are no part of a level, and no lease ends them."""
    reason: str = ""
    since: UnixSeconds = 0.0
    lease_seconds: float = 600.0
    action: str = ""
    """Id of the action that put the level in force; older daemons wrote none."""
    pools: tuple[PoolLevel, ...] = ()
    """Pools with a ladder of their own; all other models are of the pool `default`."""

    def of_pool(self, name: str) -> ServicePolicy:
        """Return the policy as the models of a pool go by it."""
        found = next((it for it in self.pools if it.pool == name), None)
        if found is None:
            return self if name == DEFAULT_POOL else ServicePolicy(version=self.version)
        return replace(
            self,
            level=found.level,
            level_name=found.level_name,
            limits=found.limits,
            ladder=found.ladder,
            reason=found.reason,
            since=found.since,
            action=found.action,
        )

    def with_level(self, name: str, told: ServicePolicy) -> ServicePolicy:
        """Return the policy with the version and, for a pool, the level of another."""
        if name == DEFAULT_POOL:
            return replace(told, pools=self.pools)
        pools = (_at_level(it, told) if it.pool == name else it for it in self.pools)
        return replace(self, version=told.version, pools=tuple(pools))

    @property
    def levels(self) -> dict[str, int]:
        """Return the level of each pool."""
        return {DEFAULT_POOL: self.level} | {it.pool: it.level for it in self.pools}

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return {
            "version": self.version,
            "level": self.level,
            "level_name": self.level_name,
            "limits": self.limits.as_json(),
            "ladder": [limits.as_json() for limits in self.ladder],
            "excluded_workers": list(self.excluded_workers),
            "diversions": [[it.model, it.work_class, it.serves] for it in self.diversions],
            "reason": self.reason,
            "since": self.since,
            "lease_seconds": self.lease_seconds,
            "action": self.action,
            "pools": [it.as_json() for it in self.pools],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServicePolicy:
        """Read what `as_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            version=data["version"],
            level=data["level"],
            level_name=data["level_name"],
            limits=Limits.from_json(data["limits"]),
            ladder=tuple(Limits.from_json(limits) for limits in data["ladder"]),
            excluded_workers=tuple(data["excluded_workers"]),
            diversions=tuple(Diversion(*row) for row in data.get("diversions", ())),
            reason=data["reason"],
            since=data["since"],
            lease_seconds=data["lease_seconds"],
            action=str(data.get("action", "")),  # a daemon before this one wrote none
            pools=tuple(PoolLevel.from_json(it) for it in data.get("pools", ())),
        )


def _at_level(pool: PoolLevel, told: ServicePolicy) -> PoolLevel:
    return PoolLevel(
        pool=pool.pool,
        profiles=pool.profiles,
        level=told.level,
        level_name=told.level_name,
        limits=told.limits,
        ladder=told.ladder,
        reason=told.reason,
        since=told.since,
        action=told.action,
    )


NO_LIMITS = KeyLimits()


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A gateway client. `sha256` is the hex digest of the secret; the secret is never stored.

    signing: what requests are signed with, in hex, made from the secret another way; empty: the
        secret itself is sent. It is kept out of the repr: who has it can sign.
    """

    name: str
    sha256: str
    limits: KeyLimits = NO_LIMITS
    expires_at: UnixSeconds | None = None
    left: BudgetLeft | None = None
    """What is left of its budget; None: it has none."""
    signing: str = field(default="", repr=False)
    eased: Limits | None = None
    """What it gets by while its budget is about to run out, beside the policy; None: nothing."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "limits": self.limits.as_json(),
            "expires_at": self.expires_at,
            "left": None if self.left is None else self.left.as_json(),
            "signing": self.signing,
            "eased": None if self.eased is None else self.eased.as_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ApiKey:
        """Read what `as_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        expires_at, left = data.get("expires_at"), data.get("left")
        eased = data.get("eased")
        return cls(
            data["name"],
            data["sha256"],
            KeyLimits.from_json(data.get("limits", {})),  # an older daemon wrote none
            None if expires_at is None else float(expires_at),
            None if left is None else BudgetLeft.from_json(left),
            str(data.get("signing", "")),
            None if eased is None else Limits.from_json(eased),
        )


@dataclass(frozen=True, slots=True)
class Board:
    """One versioned document for gateways: the fleet, the policy, the key table.

    No keys means that the gateway asks for none (allowed on loopback only).
    """

    version: int
    fleet: FleetSnapshot
    policy: ServicePolicy = ServicePolicy()
    keys: tuple[ApiKey, ...] = ()
    gateways: int = 0
    """Gateway processes that are alive, which share the limits; 0: not known."""
    eased_models: Mapping[str, Limits] = field(default_factory=dict)
    """What requests for a model get by while its budget is about to run out, beside the policy."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return {
            "version": self.version,
            "at": self.fleet.at,
            "workers": [worker.as_json() for worker in self.fleet.workers],
            "policy": self.policy.as_json(),
            "keys": [key.as_json() for key in self.keys],
            "gateways": self.gateways,
            "eased_models": {name: it.as_json() for name, it in self.eased_models.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Board:
        """Read what `as_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        workers = tuple(WorkerView.from_json(worker) for worker in data["workers"])
        return cls(
            version=data["version"],
            fleet=FleetSnapshot(at=data["at"], workers=workers),
            policy=ServicePolicy.from_json(data["policy"]),
            keys=tuple(ApiKey.from_json(key) for key in data["keys"]),
            gateways=int(data.get("gateways", 0)),  # a daemon before this one wrote none
            eased_models={
                str(name): Limits.from_json(it)
                for name, it in data.get("eased_models", {}).items()  # nor any of these
            },
        )
