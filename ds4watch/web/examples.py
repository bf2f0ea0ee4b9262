"""Examples of bodies and answers, for the OpenAPI document; a test holds them to their schemas."""

from __future__ import annotations

from typing import Any

_AT = 1_767_225_600.0
_WHY = {"why": "its GPU is lent out", "who": "ann"}
_SILENCE = {
    "id": "0b8e6b6e-4b0e-4c8e-9a55-2f6c1d7e8b90",
    "matchers": ['alertname="QueueDepthHigh"', 'worker=~"tiny-.*"'],
    "starts_at": _AT,
    "ends_at": _AT + 3600,
    "who": "ann",
    "why": "load test",
    "placed_at": _AT,
    "ended_by": None,
}
_REPORT = {
    "id": "daily 1767225600",
    "period": "daily",
    "start_at": _AT - 86_400,
    "end_at": _AT,
    "currency": "USD",
    "rows": [{"name": "cost, USD", "before": 91.2, "after": 74.8}],
    "lines": [],
    "actions": ["set_level on default: 80 requests waited (applied)"],
    "cost_before": [3.8],
    "cost_after": [3.1],
}
_HOLD = {
    "target": "default",
    "until_at": _AT + 1800,
    "who": "ann",
    "why": "load test",
    "placed_at": _AT,
}
_ACTION = {
    "id": "set_level:default:7",
    "kind": "set_level",
    "target": "default",
    "status": "applied",
    "cause": "7f3f1c3a9be2d410",
    "reason": "QueueDepthHigh is firing",
    "planned_at": _AT,
    "started_at": _AT,
    "finished_at": _AT + 0.004,
    "took_seconds": 0.004,
    "detail": "level 1 (shorter-answers) obeyed after 3.1 ms",
    "dry_run": False,
    "undoes": None,
    "parameters": {"level": 1, "level_name": "shorter-answers", "version": 7},
    "before": {"level": 0},
    "after": {"level": 1},
}
_EXPLAINED = {
    "alert": {"alertname": "QueueDepthHigh", "severity": "warning"},
    "phase": "firing",
    "value": None,
    "supposed": True,
    "asks": [
        {
            "binding": 0,
            "asks_for": "level 3 of default",
            "guards": [{"guard": "step", "passed": True, "told": "from level 0 to 1"}],
            "dry_run": "",
            "then": "done",
        }
    ],
}
_COMMAND = {
    "id": 12,
    "at": _AT,
    "kind": "undo",
    "who": "ann",
    "body": {"action": "set_level:default:7", "why": "the queue is gone"},
    "status": "waiting",
    "told": "",
    "finished_at": None,
}
_WORKER = {
    "id": "tiny-full-1",
    "profile": "tiny-full",
    "models": ["tiny-full"],
    "url": "http://127.0.0.1:8101",
    "phase": "ready",
    "since": _AT,
    "reason": "",
    "load": {"running": 8.0, "waiting": 2.0, "kv_usage_ratio": 0.31},
    "signals": {"ds4_queue_depth": 2.0},
}
_ALERT = {
    "name": "QueueDepthHigh",
    "severity": "warning",
    "phase": "firing",
    "since": _AT,
    "value": 23.0,
    "labels": {"alertname": "QueueDepthHigh", "severity": "warning", "worker": "tiny-full-1"},
    "summary": "23 requests wait on tiny-full-1",
    "runbook_url": "docs/runbooks/QueueDepthHigh.md",
    "held": False,
    "fingerprint": "7f3f1c3a9be2d410",
    "silenced_by": [],
}
_AUDIT = {
    "id": 42,
    "at": _AT,
    "kind": "hold",
    "who": "ann",
    "target": "default",
    "summary": "hold on default by ann: load test",
    "detail": {},
}
_CHANGE = {"number": 3, "status": "running", "stage": "watching", "paused": False}
_PLAN = {
    "plan": "0123456789abcdef",
    "begun": True,
    "ready_at_least": 2,
    "steps": [{"number": 1, "do": "replace", "worker": "tiny-full-1"}],
    "unchanged": ["tiny-quantized-1"],
}
_KEY = {"name": "team-a", "sha256": "ab" * 32, "budget": {"day": 5_000_000_000}, "why": "new"}
_SPENT = {"hour_at": _AT, "worker": "tiny-full-1", "profile": "tiny-full", "part": "idle"}
_TARGET = {"scrapePool": "fleet", "scrapeUrl": "http://127.0.0.1:8101/metrics", "health": "up"}

ANSWERS: dict[tuple[str, str], Any] = {
    ("get", "/health"): {"status": "ok", "at": _AT},
    ("get", "/ready"): {"ready": True, "waiting_for": []},
    ("get", "/status"): {"version": "0.1.0", "at": _AT, "fleet": [_WORKER], "alerts": [_ALERT]},
    ("get", "/workers"): {"workers": [_WORKER], "next_cursor": None},
    ("get", "/workers/{worker}"): _WORKER,
    ("post", "/workers/{worker}/{verb}"): {"worker": "tiny-full-1", "told": "to be drained"},
    ("get", "/profiles"): {"profiles": [{"name": "tiny-full", "engine": "vllm"}]},
    ("get", "/gateways"): {"gateways": [{"name": "g0", "pid": 4710, "connected": True}]},
    ("get", "/targets"): {"targets": [_TARGET], "next_cursor": None},
    ("get", "/signals"): {
        "signals": {"ds4_queue_depth": 2.0},
        "workers": {"tiny-full-1": {"ds4_queue_depth": 2.0}},
    },
    ("get", "/alerts"): {"alerts": [_ALERT], "next_cursor": None},
    ("get", "/silences"): {"silences": [_SILENCE], "next_cursor": None},
    ("post", "/silences"): _SILENCE | {"dry_run": False, "told": "mutes QueueDepthHigh (warning)"},
    ("get", "/silences/{silence_id}"): _SILENCE,
    ("delete", "/silences/{silence_id}"): {"told": "tells of QueueDepthHigh (warning) again"},
    ("get", "/holds"): {"holds": [_HOLD]},
    ("get", "/holds/{target}"): _HOLD,
    ("delete", "/holds/{target}"): {"told": "lets through: level 1 (shorter-answers) of default"},
    ("put", "/holds/{target}"): _HOLD
    | {"dry_run": False, "told": "holds back: level 1 (shorter-answers) of default"},
    ("get", "/actions"): {"actions": [_ACTION], "next_cursor": None},
    ("get", "/actions/{action}"): _ACTION,
    ("post", "/actions"): _COMMAND | {"kind": "act"},
    ("post", "/actions/{action}/{verb}"): _COMMAND,
    ("get", "/commands/{number}"): _COMMAND | {"status": "done", "told": "level 0"},
    ("get", "/policy"): {"version": 7, "level": 1, "reason": "QueueDepthHigh", "since": _AT},
    ("get", "/policy/explain"): {"at": _AT, "alerts": [_EXPLAINED]},
    ("get", "/cost"): {
        "currency": "USD",
        "start_at": _AT,
        "end_at": _AT + 3600,
        "costs": [_SPENT | {"nanos": 250_000_000, "method": "phase"}],
        "work": [],
        "context": [],
        "storage": [],
    },
    ("get", "/cost/sums"): {
        "currency": "USD",
        "start_at": _AT,
        "end_at": _AT + 900,
        "by": "part",
        "nanos": 250_000_000,
        "sums": [{"part": "idle", "nanos": 250_000_000}],
    },
    ("get", "/cost/why"): {
        "currency": "USD",
        "hour_at": _AT,
        "measures": [{"measure": "spent", "expected": 2, "actual": 5, "causes": {"traffic": 3}}],
    },
    ("get", "/requests"): {
        "by": "key",
        "since_at": _AT,
        "currency": "USD",
        "requests": [{"name": "team-a", "requests": 1200, "errors": 3, "nanos": 1_234_567_891}],
    },
    ("get", "/quality/comparisons"): {
        "runs": [{"id": 5, "at": _AT, "profile": "tiny-quantized", "metric": "kl", "value": 0.02}],
        "next_cursor": None,
    },
    ("get", "/quality/runs"): {
        "runs": [{"id": 3, "at": _AT, "profile": "tiny-quantized", "status": "done"}]
    },
    ("post", "/quality/runs"): {"id": 3},
    ("post", "/quality/stop"): {"told": "golden run 3 is stopped"},
    ("get", "/quality/table"): {"currency": "USD", "profiles": [], "advice": []},
    ("post", "/quality/baselines/{profile}/forget"): {"told": "the next start is taken as it is"},
    ("get", "/config"): {"admin": {"host": "127.0.0.1", "port": 9464}},
    ("get", "/rules"): {
        "rules": [
            {
                "name": "QueueDepthHigh",
                "group": "ds4watch-load",
                "expression": "sum(ds4_queue_depth)",
                "op": ">",
                "value": 23.0,
                "labels": {},
                "tiers": [
                    {
                        "severity": "warning",
                        "threshold": 50.0,
                        "beyond": -27.0,
                        "holds": False,
                        "guarded": False,
                        "for_seconds": 3.0,
                        "phase": None,
                    }
                ],
            }
        ]
    },
    ("get", "/rules/{name}"): {"rules": [{"name": "QueueDepthHigh", "severity": "warning"}]},
    ("get", "/audit"): {"audit": [_AUDIT], "next_cursor": None},
    ("get", "/fleet/change"): {"change": _CHANGE},
    ("get", "/fleet/forecast"): {"at": _AT, "enabled": True, "profiles": []},
    ("post", "/fleet/apply"): _PLAN,
    ("post", "/fleet/{verb}"): {"told": "the running step ends, no other begins"},
    ("get", "/keys"): {"keys": [{"name": "team-a", "status": "live"}]},
    ("post", "/keys"): {"told": "team-a is let in"},
    ("post", "/keys/{name}/revoke"): {"told": "team-a is let in no more"},
    ("post", "/keys/{name}/rotate"): {"told": "team-a has another secret"},
    ("post", "/hooks/alertmanager"): {
        "firing": 1,
        "resolved": 0,
        "refused": [],
        "left_out": 0,
        "known": 1,
    },
    ("get", "/reports/{period}"): _REPORT,
    ("post", "/reports/{period}"): _REPORT,
    ("post", "/reload"): {"told": "the files are checked; what comes of it is in the audit"},
    ("get", "/session"): {"role": "operator", "name": "ann"},
    ("post", "/session"): {"path": "/login?code=ds4-…", "expires_in_seconds": 300.0},
}
"""By method and path: what is answered when all is well."""

BODIES: dict[tuple[str, str], Any] = {
    ("post", "/workers/{worker}/{verb}"): _WHY,
    ("post", "/silences"): {
        "matchers": ["alertname=QueueDepthHigh"],
        "seconds": 3600,
        "why": "load test",
    },
    ("put", "/holds/{target}"): {"seconds": 1800, "why": "load test", "who": "ann"},
    ("post", "/actions"): {"name": "shorter-answers", "pool": "default", "why": "a long queue"},
    ("post", "/actions/{action}/{verb}"): {"why": "the queue is gone"},
    ("post", "/quality/runs"): {"profile": "tiny-quantized", "why": "new weights"},
    ("post", "/quality/stop"): {"why": "too many users"},
    ("post", "/quality/baselines/{profile}/forget"): {"why": "another checkpoint, on purpose"},
    ("post", "/hooks/alertmanager"): {
        "version": "4",
        "alerts": [{"status": "firing", "labels": {"alertname": "DiskFull", "host": "a"}}],
    },
    ("post", "/reload"): {"why": "another rule"},
    ("post", "/fleet/apply"): {"why": "a new version", "dry_run": True},
    ("post", "/fleet/{verb}"): _WHY,
    ("post", "/keys"): _KEY,
    ("post", "/keys/{name}/revoke"): {"why": "it leaked"},
    ("post", "/keys/{name}/rotate"): {"sha256": "cd" * 32, "grace_seconds": 3600.0},
}
"""By method and path: what is sent."""
