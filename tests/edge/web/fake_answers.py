"""What the fake daemon says: a fleet of two, its alerts, rules, audit."""

from __future__ import annotations

from typing import Any

AT = 1_767_225_600.0


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
            "runbook_url": "docs/runbooks/QueueDepthHigh.md",
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
