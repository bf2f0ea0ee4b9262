"""The ports of what is shown and steered, in memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ds4watch.model.errors import ConfigError, Located, RefusedError
from tests.edge.web.fake_answers import (
    AT,
    AUDIT,
    COST,
    DISTANCES,
    EXPLAINED,
    PLAN,
    REQUESTS,
    STATUS,
    WHY,
)
from tests.edge.web.fake_desk import FakeDesk, FakeHooks, FakeQuality


class FakeDaemon:
    """Both ports of the admin API, in memory."""

    def __init__(self, **changes: Any) -> None:
        self.state = copy.deepcopy(STATUS) | changes
        self.rows = list(AUDIT)
        self.held: dict[str, dict[str, Any]] = {}
        self.wakes = 0
        self.changes: list[dict[str, Any]] = []
        self.steered: list[tuple[str, str, str, str]] = []
        self.api_keys: dict[str, dict[str, Any]] = {}
        self.quality = FakeQuality()
        self.broken = False
        self.desk = FakeDesk()
        self.hooks = FakeHooks()

    def status(self) -> dict[str, Any]:
        if self.broken:
            message = "the store is gone: SECRET"
            raise RuntimeError(message)
        return self.state | {"holds": list(self.held.values())}

    async def audit(
        self, *, limit: int, before: int | None, kind: str | None
    ) -> list[dict[str, Any]]:
        rows = [row for row in self.rows if before is None or row["id"] < before]
        return [row for row in rows if kind in (None, row["kind"])][:limit]

    async def cost(self, *, start_at: float, end_at: float) -> dict[str, Any]:
        return COST | {"start_at": start_at, "end_at": end_at}

    def cost_why(self, *, at: float) -> dict[str, Any]:
        return WHY | {"hour_at": at // 3600 * 3600}

    async def requests(self, *, by: str, hours: int) -> dict[str, Any]:
        since = AT - hours * 3600
        return {"by": by, "since_at": since, "currency": "EUR", "requests": [REQUESTS]}

    def explain(self, name: str) -> list[dict[str, Any]]:
        return [EXPLAINED] if name == EXPLAINED["name"] else []

    def rules(self) -> list[dict[str, Any]]:
        return copy.deepcopy(DISTANCES)

    def explain_policy(self, labels: Mapping[str, str]) -> dict[str, Any]:
        alert = {"alert": dict(labels), "phase": "firing", "value": None, "supposed": True}
        return {"at": AT, "alerts": [alert | {"asks": []}]}

    def rule_names(self) -> list[str]:
        return [EXPLAINED["name"]]

    async def hold(
        self, *, target: str, seconds: float, who: str, why: str, dry_run: bool = False
    ) -> dict[str, Any]:
        placed = {
            "target": target,
            "until_at": AT + seconds,
            "who": who,
            "why": why,
            "placed_at": AT,
        }
        if not dry_run:
            self.held[target] = placed
        return placed | {"told": "holds back: level 1 (short) of default"}

    async def lift(self, *, target: str, who: str, dry_run: bool = False) -> str | None:
        del who
        if target not in self.held:
            return None
        if not dry_run:
            del self.held[target]
        return "lets go: level 1 (short) of default"

    async def steer(
        self, *, worker: str, verb: str, who: str, why: str, dry_run: bool = False
    ) -> str | None:
        if worker not in {it["id"] for it in self.state["fleet"]}:
            return None
        if verb == "sleep":
            message = f"{worker} has no sleep mode"
            raise RefusedError(message)
        if not dry_run:
            self.steered.append((worker, verb, who, why))
        return f"{worker}: {verb}"

    def forecast(self, hours: float) -> dict[str, Any]:
        return {"at": AT, "hours": hours, "profiles": []}

    def fleet_change(self) -> dict[str, Any] | None:
        return self.changes[-1] if self.changes else None

    async def apply(
        self, *, file: str | None, plan: str | None, dry_run: bool, who: str, why: str
    ) -> dict[str, Any]:
        if file == "/broken.yml":
            raise ConfigError(Located("unknown key", file, 3, field="fleet.worker"))
        if plan not in (None, PLAN["plan"]):
            message = "the plan is another one by now"
            raise RefusedError(message)
        if not dry_run:
            self.changes.append({"status": "running", "who": who, "why": why, "file": file})
        return PLAN | {"begun": not dry_run}

    async def steer_change(self, *, verb: str, who: str, why: str, dry_run: bool = False) -> str:
        if not self.changes:
            message = "no rolling change is under way"
            raise RefusedError(message)
        if not dry_run:
            self.changes[-1] = {"status": verb, "who": who, "why": why}
        return f"{verb}: done"

    def keys(self) -> list[dict[str, Any]]:
        return [
            {
                "name": key["name"],
                "status": "live",
                "signs": bool(key["signing"]),
                "created_at": AT,
                "expires_at": key["expires_at"],
                "revoked_at": None,
                "limits": key["limits"],
                "budget": key["budget"],
                "left": None,
            }
            for key in self.api_keys.values()
        ]

    async def add_key(
        self, *, key: Mapping[str, Any], who: str, why: str, dry_run: bool = False
    ) -> None:
        if key["name"] in self.api_keys:
            message = f"there is a key {key['name']}"
            raise RefusedError(message)
        if not dry_run:
            self.api_keys[key["name"]] = dict(key) | {"who": who, "why": why}

    async def revoke_key(self, *, name: str, who: str, why: str, dry_run: bool = False) -> bool:
        del who, why
        is_there = name in self.api_keys
        if not dry_run:
            self.api_keys.pop(name, None)
        return is_there

    async def rotate_key(
        self,
        *,
        name: str,
        sha256: str,
        signing: str,
        grace_seconds: float,
        who: str,
        why: str,
        dry_run: bool = False,
    ) -> bool:
        del grace_seconds, who, why
        if name not in self.api_keys:
            return False
        if not dry_run:
            self.api_keys[name] |= {"sha256": sha256, "signing": signing}
        return True

    def wake(self) -> None:
        self.wakes += 1
