"""A replay for programs."""

from __future__ import annotations

from typing import Any

from ds4watch.cli.replay_output import Shown
from ds4watch.engine.replay_story import Episode, Line
from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.numbers import plain


def replay_json(shown: Shown) -> dict[str, Any]:
    """Return all of it, JSON-ready."""
    ask, found = shown.ask, shown.found
    return {
        "history": shown.history,
        "policy": shown.policy,
        "from": ask.start,
        "to": ask.end,
        "step_seconds": ask.step_seconds,
        "evaluations": found.steps,
        "left_out": found.unwatched,
        "rules": [_line_json(line) for line in shown.story.lines()],
        "alerts": [_episode_json(it, ask.end) for it in shown.episodes],
        "actions": [
            {
                "at": plan.planned_at,
                "from_level": plan.before["level"],
                "to_level": plan.parameters["level"],
                "level_name": plan.parameters["level_name"],
                "reason": plan.reason,
                "dry_run": plan.dry_run,
            }
            for plan in found.plans
        ],
        "refusals": [
            {"at": it.at, "reason": it.reason.value, "detail": it.detail} for it in found.refusals
        ],
        "failures": [
            {"group": it.group, "rule": it.rule, "times": it.steps, "error": it.error}
            for it in found.failures.values()
        ],
        "unseen": list(found.unseen),
    }


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "name": line.rule.name,
        "group": line.rule.group,
        "severity": line.tier.value,
        "fired": line.fired,
        "alerts": line.alerts,
        "firing_seconds": line.firing_seconds,
        "longest_seconds": line.longest_seconds,
        "flapped": line.flapped,
        "pending_only": line.missed,
        "longest_pending_only_seconds": line.longest_missed_seconds,
    }


def _episode_json(it: Episode, end: UnixSeconds) -> dict[str, Any]:
    return {
        "name": it.rule.name,
        "severity": it.rule.tier.value,
        "labels": dict(it.labels),
        "annotations": dict(it.annotations),
        "pending_at": it.pending_at,
        "fired_at": it.fired_at,
        "resolved_at": it.resolved_at,
        "seconds": it.seconds(end),
        "value": plain(it.value),
        "flapped": it.again,
    }
