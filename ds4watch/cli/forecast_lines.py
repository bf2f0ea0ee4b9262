"""The load ahead in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ds4watch.cli.display import instant

_LINES = 24


def forecast_lines(found: Mapping[str, Any]) -> list[str]:
    """Return what `GET /fleet/forecast` answered, for people: at most two dozen lines a profile."""
    if not found["enabled"]:
        return ["Load is not looked ahead of: provisioning.enabled is false."]
    lines = [line for profile in found["profiles"] for line in _of_profile(profile, found)]
    until = found.get("dry_run_until")
    if until is not None:
        lines.append(f"Dry run until {instant(until)}: what would be done is only told.")
    elif found.get("dry_run"):
        lines.append("Dry run: what would be done is only told.")
    return lines or ["No workers are known yet."]


def _of_profile(profile: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    wanted = profile.get("wanted")
    now = f"{profile['hot']} ready, {profile['starting']} starting, {wanted} wanted"
    yield f"{profile['profile']}: {now}; {profile['lead_seconds']:.0f} s until one more is ready"
    if profile["refused"]:
        yield f"  {profile['refused']}"
    points = profile["points"]
    if not points:
        yield "  nothing is forecast yet: it takes two days of requests at this time of day"
        return
    yield f"  from              requests/s   {found['coverage']:.0%} between   workers"
    every = -(-len(points) // _LINES)
    for start in range(0, len(points), every):
        yield _line(points[start : start + every])


def _line(points: list[Mapping[str, Any]]) -> str:
    most = max(points, key=lambda it: float(it["high"]))
    workers = "?" if most["workers"] is None else str(most["workers"])
    between = f"{most['low']:.2f} - {most['high']:.2f}"
    return f"  {instant(points[0]['at'])}  {most['expected']:10.2f}   {between:>15}   {workers:>7}"
