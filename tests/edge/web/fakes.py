from __future__ import annotations

import copy
import gzip
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ds4watch.access.keys import digest
from ds4watch.access.roles import Role
from ds4watch.alerting.external import read_webhook
from ds4watch.alerting.silences import read_matchers
from ds4watch.history.rows import GivenAnswer
from ds4watch.model.errors import ConfigError, EdgeReason, Located, RefusedError, StoreError
from ds4watch.model.question import Question
from ds4watch.web.gate import Tokens
from ds4watch.web.listen import Tls, bind
from ds4watch.web.ports import Ports
from ds4watch.web.serve import admin_server
from ds4watch.web.server import AdminServer
from ds4watch.web.tokens import TokenEntry, TokenTable

AT = 1_767_225_600.0
SECRETS = {role: f"secret-of-the-{role}" for role in Role}
TOKENS = TokenTable(
    tuple(
        TokenEntry(role, digest(secret), role.value, is_local=True)
        for role, secret in SECRETS.items()
    )
)


def worker(name: str, phase: str = "ready", **load: float | None) -> dict[str, Any]:
    return {
        "id": name,
        "profile": name.rpartition("-")[0],
        "models": [name.rpartition("-")[0], "sim"],
        "url": "http://127.0.0.1:8101",
        "phase": phase,
        "since": AT - 300,
        "load": {"running": None, "waiting": None, "kv_usage_ratio": None} | load,
        "reason": "" if phase == "ready" else "loading the model",
        "pid": 4711,
        "signals": {
            "ds4_cache_miss_ratio": 0.25,
            'ds4_tokens_per_second{kind="prompt"}': 812.5,
            'ds4_tokens_per_second{kind="generated"}': 143.25,
        }
        if phase == "ready"
        else {},
        "log": f"/var/lib/ds4watch/logs/{name}.log",
    }


STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "pid": 4700,
    "state_dir": "/var/lib/ds4watch",
    "at": AT,
    "started_at": AT - 1000,
    "admin_url": "http://127.0.0.1:9464",
    "gateway_url": "http://127.0.0.1:8400",
    "waiting_for": ["sim-quantized-1 to load its model"],
    "fleet": [
        worker("sim-full-1", running=8.0, waiting=23.0, kv_usage_ratio=0.812),
        worker("sim-quantized-1", "loading"),
    ],
    "gateways": [
        {"name": "g0", "pid": 4710, "connected": True, "policy_version": 7, "inflight": 31}
    ],
    "signals": {
        "ds4_queue_depth": 23.0,
        "ds4_cache_miss_ratio": 0.25,
        "ds4_prefill_token_ratio": None,
        "ds4_gpu_memory_used_bytes": None,
        "ds4_retry_count_total": 2.0,
    },
    "alerts": [
        {
            "name": "QueueDepthHigh",
            "severity": "warning",
            "phase": "firing",
            "since": AT - 42,
            "value": 23.0,
            "labels": {"worker": "sim-full-1"},
            "summary": "23 requests wait on sim-full-1",
            "held": False,
            "fingerprint": "00000000000000aa",
            "silenced_by": [],
        },
        {
            "name": "CacheMissHigh",
            "severity": "info",
            "phase": "pending",
            "since": AT - 5,
            "value": 0.25,
            "labels": {},
            "summary": "a quarter of the prompt tokens miss the cache",
            "held": True,
            "fingerprint": "00000000000000bb",
            "silenced_by": ["0b8e6b6e-4b0e-4c8e-9a55-2f6c1d7e8b90"],
        },
    ],
    "policy": {
        "version": 7,
        "level": 2,
        "level_name": "cheaper-sibling",
        "limits": {
            "max_tokens_cap": 16,
            "max_inflight": None,
            "substitutions": [["sim-full", "sim-quantized"]],
            "shed_below_priority": None,
        },
        "ladder": [],
        "excluded_workers": [],
        "reason": "QueueDepthHigh on sim-full-1",
        "since": AT - 30,
        "lease_seconds": 600.0,
    },
    "holds": [],
    "jobs": [
        {
            "name": "fold",
            "last_started_at": AT - 20,
            "last_finished_at": AT - 19,
            "took_seconds": 0.412,
            "result": "1200 scrapes to 2 chunks, 1,228.0 KiB to 204.5 KiB; 4 roll-ups joined",
            "ok": True,
            "last_succeeded_at": AT - 19,
        },
        {
            "name": "prune",
            "last_started_at": AT - 500,
            "last_finished_at": AT - 499,
            "took_seconds": 1.0,
            "result": "database or disk is full",
            "ok": False,
            "last_succeeded_at": AT - 1100,
        },
        {
            "name": "quality",
            "last_started_at": AT - 2,
            "last_finished_at": None,
            "took_seconds": None,
            "result": "",
            "ok": None,
            "last_succeeded_at": None,
        },
    ],
    "cost": {
        "currency": "USD",
        "per_hour": "1.90",
        "spent_today": "0.0317",
        "spent_total": "12.48",
    },
}
AUDIT: list[dict[str, Any]] = [
    {"id": 4, "at": AT - 30, "kind": "action", "who": "ds4watch", "target": "default",
     "summary": "level 1 to 2 (cheaper-sibling): QueueDepthHigh is firing"},
    {"id": 3, "at": AT - 42, "kind": "alert", "who": "ds4watch", "target": "sim-full-1",
     "summary": "QueueDepthHigh pending to firing, value 23"},
    {"id": 2, "at": AT - 52, "kind": "alert", "who": "ds4watch", "target": "sim-full-1",
     "summary": "QueueDepthHigh inactive to pending, value 11"},
    {"id": 1, "at": AT - 1000, "kind": "daemon", "who": "root", "target": "",
     "summary": "started, version 0.1.0"},
]  # fmt: skip

COST: dict[str, Any] = {
    "currency": "EUR",
    "context": [
        {
            "hour_at": 0.0,
            "profile": "p",
            "band": band,
            "requests": 2,
            "prompt_tokens": 1000,
            "cached_tokens": 250,
            "again_tokens": 100,
            "completion_tokens": 100,
            "held_ms": 4000,
            "prefill_ms": 1000,
            "decode_ms": 3000,
            "wasted_ms": 0,
            "kv_token_ms": 2_000_000,
            "nanos": nanos,
        }
        for band, nanos in (("2k", 1_500_000_000), ("1k", 10**9))
    ],
    "storage": [
        {
            "hour_at": 0.0,
            "what": "history",
            "nanos_per_gb_hour": 54_795,
            "byte_seconds": 36 * 10**14,
            "nanos": 54_795_000,
        }
    ],
    "costs": [
        {
            "hour_at": 0.0,
            "worker": "w0",
            "profile": "p",
            "part": "busy",
            "method": "none",
            "nanos": 2_500_000_000,
        },
        {
            "hour_at": 0.0,
            "worker": "w0",
            "profile": "p",
            "part": "idle",
            "method": "none",
            "nanos": 500_000_001,
        },
        {
            "hour_at": 3600.0,
            "worker": "w1",
            "profile": "q",
            "part": "idle",
            "method": "none",
            "nanos": 10**9,
        },
    ],
    "work": [
        {
            "hour_at": 0.0,
            "key": key,
            "model": "tiny",
            "requests": 2,
            "prompt_tokens": 1000,
            "cached_tokens": 250,
            "completion_tokens": 100,
            "nanos": nanos,
        }
        for key, nanos in (("alice", 2_000_000_001), ("bob", 10**9))
    ],
}
WHY: dict[str, Any] = {
    "currency": "EUR",
    "measures": [
        {
            "measure": "spent",
            "expected": 2 * 10**9,
            "actual": 5 * 10**9,
            "causes": {"traffic": 10**9, "price": 2 * 10**9, "idle": 0},
        }
    ],
}

EXPLAINED: dict[str, Any] = {
    "name": "QueueDepthHigh",
    "group": "load",
    "severity": "warning",
    "for_seconds": 3.0,
    "expression": "sum(ds4_queue_depth) > 50",
    "elements": 0,
    "error": None,
    "alerts": [{"labels": {"severity": "warning"}, "phase": "pending", "since": AT - 2}],
    "conditions": [
        {
            "expression": "sum(ds4_queue_depth)",
            "op": ">",
            "threshold": 50.0,
            "unless": False,
            "count": 1,
            "nearest": [{"labels": {}, "value": 23.0, "beyond": -27.0, "holds": False}],
        }
    ],
    "parts": [
        {
            "depth": 1,
            "expression": "sum(ds4_queue_depth)",
            "type": "vector",
            "count": 1,
            "values": [{"labels": {}, "value": 23.0}],
            "error": None,
        },
        {
            "depth": 2,
            "expression": "ds4_queue_depth",
            "type": "vector",
            "count": 2,
            "values": [
                {"labels": {"worker": "a"}, "value": 20.0},
                {"labels": {"worker": "b"}, "value": 3.0},
            ],
            "error": None,
        },
    ],
}


def _tier(severity: str, threshold: float, beyond: float, phase: str | None) -> dict[str, Any]:
    return {
        "severity": severity,
        "threshold": threshold,
        "beyond": beyond,
        "holds": beyond > 0,
        "guarded": False,
        "for_seconds": 3.0,
        "phase": phase,
    }


DISTANCES: list[dict[str, Any]] = [
    {
        "name": "QueueDepthHigh",
        "group": "load",
        "expression": "sum(ds4_queue_depth)",
        "op": ">",
        "value": 23.0,
        "labels": {},
        "tiers": [
            _tier("info", 10.0, 13.0, "firing"),
            _tier("warning", 20.0, 3.0, "firing"),
            _tier("critical", 50.0, -27.0, None),
        ],
    },
    {
        "name": "FewHotWorkers",
        "group": "load",
        "expression": "ds4_hot_workers",
        "op": "<",
        "value": 2.0,
        "labels": {"worker": "sim-full-1"},
        "tiers": [_tier("warning", 1.0, -1.0, None)],
    },
]
PLAN: dict[str, Any] = {
    "plan": "0123456789abcdef",
    "ready_at_least": 2,
    "steps": [{"number": 1, "do": "replace", "worker": "sim-full-1", "told": "replace it"}],
    "unchanged": [],
}


REQUESTS: dict[str, Any] = {
    "name": "team-a\x1b[2J",
    "requests": 1200,
    "errors": 3,
    "refused": 4,
    "shed": 5,
    "gone": 6,
    "retries": 7,
    "degraded": 8,
    "filtered": 9,
    "estimated": 2,
    "unmetered": 1,
    "prompt_tokens": 50_000,
    "cached_tokens": 20_000,
    "completion_tokens": 9_000,
    "worker_prompt_tokens": 60_000,
    "queue_seconds": 1.5,
    "lost_seconds": 0.25,
    "prefill_seconds": 40.0,
    "decode_seconds": 300.0,
    "unsplit_seconds": 80.0,
    "nanos": 1_234_567_891,
}


class FixedClock:
    def now(self) -> float:
        return AT

    def monotonic(self) -> float:
        return 0.0


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

    async def hold(self, *, target: str, seconds: float, who: str, why: str) -> dict[str, Any]:
        self.held[target] = {
            "target": target,
            "until_at": AT + seconds,
            "who": who,
            "why": why,
            "placed_at": AT,
        }
        return self.held[target]

    async def lift(self, *, target: str, who: str) -> bool:
        del who
        return self.held.pop(target, None) is not None

    async def steer(self, *, worker: str, verb: str, who: str, why: str) -> str | None:
        if worker not in {it["id"] for it in self.state["fleet"]}:
            return None
        if verb == "sleep":
            message = f"{worker} has no sleep mode"
            raise RefusedError(message)
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

    async def steer_change(self, *, verb: str, who: str, why: str) -> str:
        if not self.changes:
            message = "no rolling change is under way"
            raise RefusedError(message)
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

    async def add_key(self, *, key: Mapping[str, Any], who: str, why: str) -> None:
        if key["name"] in self.api_keys:
            message = f"there is a key {key['name']}"
            raise RefusedError(message)
        self.api_keys[key["name"]] = dict(key) | {"who": who, "why": why}

    async def revoke_key(self, *, name: str, who: str, why: str) -> bool:
        del who, why
        return self.api_keys.pop(name, None) is not None

    async def rotate_key(
        self, *, name: str, sha256: str, signing: str, grace_seconds: float, who: str, why: str
    ) -> bool:
        del grace_seconds, who, why
        if name not in self.api_keys:
            return False
        self.api_keys[name] |= {"sha256": sha256, "signing": signing}
        return True

    def wake(self) -> None:
        self.wakes += 1


ACTION: dict[str, Any] = {
    "id": "set_level:default:7",
    "kind": "set_level",
    "target": "default",
    "status": "applied",
    "cause": "00000000000000aa",
    "reason": "QueueDepthHigh is firing",
    "planned_at": AT - 30,
    "started_at": AT - 30,
    "finished_at": AT - 29.9,
    "took_seconds": 0.1,
    "detail": "level 2 obeyed",
    "dry_run": False,
    "undoes": None,
    "parameters": {"level": 2},
    "before": {"level": 1},
    "after": {"level": 2},
}
RUN: dict[str, Any] = {
    "at": AT - 100,
    "profile": "sim-quantized",
    "reference": "sim-full",
    "metric": "kl",
    "value": 0.02,
    "prompts": 8,
    "tokens": 512,
    "took_seconds": 3.0,
    "error": None,
}


class FakeDesk:
    """The port of silences, actions, commands and records, in memory."""

    def __init__(self) -> None:
        self.placed: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        self.stored_actions = [
            ACTION | {"id": f"set_level:default:{it}", "planned_at": AT + it} for it in range(7)
        ]
        self.runs = [RUN | {"id": it} for it in range(1, 6)]
        self.answers: dict[tuple[str, str], GivenAnswer] = {}
        self.events: list[dict[str, Any]] = []
        self.exported = [b"a 1 2\n", b"# EOF\n"]
        self.away = False

    async def silence(
        self, *, matchers: Sequence[str], starts_at: float | None, until: float, who: str, why: str
    ) -> dict[str, Any]:
        self._look()
        begins = AT if starts_at is None else max(AT, starts_at)
        if until <= begins:
            message = "until: the silence would end before it begins"
            raise RefusedError(message)
        found = {
            "id": f"{len(self.placed):08x}-0000-4000-8000-000000000000",
            "matchers": [str(it) for it in read_matchers(matchers)],
            "starts_at": begins,
            "ends_at": until,
            "who": who,
            "why": why,
            "placed_at": AT,
            "ended_by": None,
        }
        self.placed[str(found["id"])] = found
        return found

    async def unsilence(self, silence: str, *, who: str) -> bool:
        found = self.placed.get(silence)
        if found is None or found["ends_at"] <= AT:
            return False
        self.placed[silence] = found | {"ends_at": AT, "ended_by": who}
        return True

    async def listed_silences(self, *, over: bool) -> list[dict[str, Any]]:
        self._look()
        return [it for it in self.placed.values() if over or it["ends_at"] > AT]

    async def one_silence(self, silence: str) -> dict[str, Any] | None:
        return self.placed.get(silence)

    async def ask(self, *, kind: str, body: Mapping[str, Any], who: str) -> dict[str, Any]:
        command = {
            "id": len(self.asked) + 1,
            "at": AT,
            "kind": kind,
            "who": who,
            "body": dict(body),
            "status": "waiting",
            "told": "",
            "finished_at": None,
        }
        self.asked.append(command)
        return command

    async def reload(self, *, who: str, why: str) -> None:
        self.happen("command", f"{who} asks for a reload: {why}")

    async def command(self, number: int) -> dict[str, Any] | None:
        return self.asked[number - 1] if number <= len(self.asked) else None

    async def actions(
        self,
        *,
        limit: int,
        before: tuple[float, str] | None,
        status: str | None,
        kind: str | None,
        target: str | None,
    ) -> list[dict[str, Any]]:
        wanted = {"status": status, "kind": kind, "target": target}
        found = [
            it
            for it in reversed(self.stored_actions)
            if all(value in (None, it[key]) for key, value in wanted.items())
            and (before is None or (it["planned_at"], it["id"]) < before)
        ]
        return found[:limit]

    async def action(self, action: str) -> dict[str, Any] | None:
        return next((it for it in self.stored_actions if it["id"] == action), None)

    async def quality_runs(
        self, *, limit: int, before: int | None, profile: str | None
    ) -> list[dict[str, Any]]:
        found = [
            it
            for it in reversed(self.runs)
            if (before is None or it["id"] < before) and profile in (None, it["profile"])
        ]
        return found[:limit]

    def config(self) -> dict[str, Any]:
        return {"admin": {"port": 9464}}

    def profiles(self) -> list[dict[str, Any]]:
        return [{"name": "sim-full"}]

    async def export(
        self,
        *,
        form: str,
        start_at: float,
        end_at: float,
        targets: Sequence[str],
        names: Sequence[str],
    ) -> AsyncIterator[bytes]:
        del form, start_at, end_at, names
        if "none" in targets:
            message = "nothing is stored of none"
            raise StoreError(message, reason=EdgeReason.OTHER)
        for text in self.exported:
            yield text

    async def events_after(self, after: int, limit: int) -> list[dict[str, Any]]:
        self._look()
        return [it for it in self.events if it["id"] > after][:limit]

    async def newest_event(self) -> int:
        self._look()
        return max((it["id"] for it in self.events), default=0)

    async def given_answer(self, who: str, key: str) -> GivenAnswer | None:
        self._look()
        return self.answers.get((who, key))

    async def keep_answer(self, given: GivenAnswer) -> None:
        self.answers[given.who, given.key] = given

    def happen(self, kind: str, summary: str = "", **detail: Any) -> int:
        """Add a row to the audit and return its id."""
        number = len(self.events) + 1
        row = {"id": number, "kind": kind, "summary": summary, "detail": detail}
        self.events.append(AUDIT[0] | row)
        return number

    def _look(self) -> None:
        if self.away:
            message = "the database is away"
            raise StoreError(message, reason=EdgeReason.GONE)


class FakeQuality:
    """The port of golden questions, in memory."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.table_answer: dict[str, Any] = {}
        self.baselines = {"sim-full"}

    async def runs(self) -> list[dict[str, Any]]:
        return self.begun[::-1]

    async def table(
        self,
        profiles: Sequence[str],
        *,
        reference: str | None,
        loss_points: float,
        bound_points: float,
    ) -> dict[str, Any]:
        allowed = {"loss_points": loss_points, "bound_points": bound_points}
        asked = {"reference": reference, "allowed": allowed, "asked": list(profiles)}
        return {"currency": "EUR", "profiles": [], "advice": [], **asked, **self.table_answer}

    async def begin(
        self,
        profile: str,
        *,
        reference: str,
        questions: int,
        budget: int | None,
        who: str,
        why: str,
    ) -> int:
        if profile == "unknown":
            message = "there is no profile unknown in the fleet; there are sim-full"
            raise RefusedError(message)
        if profile == "broken-set":
            raise ConfigError(Located("`prompt` must be a text", "mine.jsonl", 7))
        run = len(self.begun) + 1
        self.begun.append(
            {
                "id": run, "at": AT, "profile": profile, "reference": reference or None,
                "status": "running", "told": "", "who": who, "why": why,
                "questions": 2 * questions, "answered": 0, "right": {}, "asked": {},
                "spent_nanos": 0, "budget_nanos": budget, "ended_at": None,
            }
        )  # fmt: skip
        return run

    async def stop(self, who: str) -> int | None:
        running = [it for it in self.begun if it["status"] == "running"]
        for it in running:
            it.update(status="stopped", told=f"stopped by {who}")
        return running[0]["id"] if running else None

    async def accept(self, profile: str, *, who: str, why: str) -> bool:
        del who, why
        known = profile in self.baselines
        self.baselines.discard(profile)
        return known


class FakeHooks:
    """The port of those who call us, in memory."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def slack(self, headers: Mapping[str, str], body: bytes) -> bool:
        del body
        if self.error is not None:
            raise self.error
        return headers.get("x-slack-signature") == "v0=right"

    async def alertmanager(self, document: Any) -> dict[str, Any]:
        handed = read_webhook(document, AT)
        found = {"firing": len(handed.firing), "resolved": len(handed.over)}
        return found | {"refused": list(handed.faults), "known": len(handed.firing)}

    async def report(self, period: str, *, tell: bool) -> dict[str, Any]:
        return {"period": period, "told": tell}


class FakeHistory:
    """The port of queries, in memory: it answers with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.error: Exception | None = None

    async def ask_body(self, question: Question) -> bytes:
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        body = b'{"status":"success","data":[]}'
        return gzip.compress(body) if question.compressed else body


class FakeFacts:
    """What a daemon with two rules, one alert and two targets tells."""

    def rule_groups(self) -> list[dict[str, Any]]:
        return copy.deepcopy(GROUPS)

    def alerts(self) -> list[dict[str, Any]]:
        return copy.deepcopy(GROUPS[0]["rules"][0]["alerts"])

    def targets(self) -> list[dict[str, Any]]:
        return [{"scrapePool": pool, "health": "up"} for pool in ("fleet", "others")]

    def metadata(self) -> dict[str, list[dict[str, str]]]:
        told = {"type": "gauge", "help": "Helps.", "unit": ""}
        return {name: [dict(told)] for name in ("a", "b", "c")}


GROUPS: list[dict[str, Any]] = [
    {
        "name": "load",
        "file": "a.yml",
        "rules": [
            {"name": "Busy", "type": "alerting", "alerts": [{"labels": {"alertname": "Busy"}}]},
            {"name": "load:sum", "type": "recording"},
        ],
    },
    {"name": "cost", "file": "b.yml", "rules": [{"name": "cost:sum", "type": "recording"}]},
]


def ports_of(daemon: FakeDaemon, queries: FakeHistory | None = None) -> Ports:
    histories = queries or FakeHistory()
    return Ports(
        daemon,
        daemon,
        FakeFacts(),
        histories,
        desk=daemon.desk,
        quality=daemon.quality,
        hooks=daemon.hooks,
    )


@asynccontextmanager
async def serving(
    daemon: FakeDaemon,
    *,
    queries: FakeHistory | None = None,
    open_reads: bool = True,
    port: int = 0,
    tokens: Tokens = TOKENS,
    tls: Tls | None = None,
) -> AsyncIterator[AdminServer]:
    server = admin_server(
        bind("127.0.0.1", port, setting="admin"),
        ports_of(daemon, queries),
        tokens=tokens,
        render_metrics=lambda: b"# HELP up x\n# TYPE up gauge\nup 1\n",
        clock=FixedClock(),
        open_reads=open_reads,
        tls=tls,
    )
    async with server:
        yield server
