"""A sample of each kind of message, for `ds4watch notify test` and the docs."""

from __future__ import annotations

from ds4watch.alerting.grouping import Group, Member, News, Note, Told, Why
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import labels_of
from ds4watch.notify.group_channel import Digest, Telling

DAY_SECONDS = 86_400.0


def sample_tellings(at: UnixSeconds) -> list[tuple[str, Telling]]:
    """Return, with a name each: an alert, an action, a question, a report."""
    return [
        ("alert", Telling(sample_group(at), Why.FIRST, at)),
        ("action", _told(_action(at), at)),
        ("question", _told(_question(at), at)),
        ("report", _told(_report(at), at)),
    ]


def sample_digest(at: UnixSeconds) -> Digest:
    """Return what is told after an outage."""
    return Digest(f"test-digest-{at:.0f}", at - 1800, at, (sample_group(at),))


def sample_group(at: UnixSeconds, *, firing: bool = True) -> Group:
    """Return an alert of two tiers' worth."""
    annotations = labels_of(
        {
            "summary": "this is a test: 80 requests wait",
            "description": "Nothing is wrong. Sent by `ds4watch notify test`.",
            "runbook_url": "docs/runbooks/QueueDepthHigh.md",
        }
    )
    members = tuple(
        Member(
            News(
                f"test {worker}",
                worker,
                firing,
                at,
                value,
                labels=labels_of(
                    {"alertname": "QueueDepthHigh", "severity": tier, "worker": worker}
                ),
                annotations=annotations,
            ),
            at - 90,
            Told.NOTHING,
        )
        for worker, tier, value in (("w1", "critical", "80.0"), ("w2", "warning", "55.0"))
    )
    labels = labels_of({"alertname": "QueueDepthHigh"})
    return Group(f"test{at % 1e9:.0f}", labels, at - 90, members)


def _told(note: Note, at: UnixSeconds) -> Telling:
    return Telling(Group(f"{note.kind[:6]}{at % 1e9:.0f}", (), at, notes=(note,)), Why.NOTE, at)


def _action(at: UnixSeconds) -> Note:
    payload = {
        "action": "test",
        "what": "set_level",
        "target": "default",
        "reason": "this is a test; nothing was done",
        "parameters": {"level": "1"},
    }
    return Note("test action", "action", at, payload)


def _question(at: UnixSeconds) -> Note:
    payload = {
        "action": "test",
        "what": "restart",
        "target": "w1",
        "reason": "this is a test; nothing will be done",
        "expires_at": at + 600,
    }
    return Note("test question", "approval", at, payload)


def _report(at: UnixSeconds) -> Note:
    end_at = at - at % DAY_SECONDS
    payload = {
        "id": "test",
        "period": "daily",
        "start_at": end_at - DAY_SECONDS,
        "end_at": end_at,
        "currency": "USD",
        "rows": [
            {"name": "cost, USD", "before": 91.2, "after": 74.8},
            {"name": "tokens a second", "before": 5210.0, "after": 5388.0},
            {"name": "P99 of a request, s", "before": 8.4, "after": 3.1},
        ],
        "lines": ["this is a test: the figures are made up"],
        "actions": ["set_level on default: 80 requests waited (applied)"],
        "cost_before": [3.8 + 0.1 * (hour % 5) for hour in range(24)],
        "cost_after": [3.0 + 0.1 * (hour % 4) for hour in range(24)],
    }
    return Note("test report", "report", at, payload)
