"""Workers as rows for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ds4watch.cli.display import DASH, NARROW, instant, number, percent, plain_table, shortened

_SHOWN_STANDSTILL_SECONDS = 10
_COMING = ("starting", "loading", "warming")
_PHASE_STYLES = {"ready": "green", "failed": "bold red", "quarantined": "bold red"}
_COLUMNS = ("worker", "phase", "model", "running", "waiting", "KV use", "miss", "tok/s", "")
_NARROW_COLUMNS = ("worker", "phase", "run", "wait", "KV use", "miss", "tok/s")
_BESIDE_NAMES = 56
"""What the narrow columns but the first take."""


def fleet_table(fleet: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Return the workers; where there is little room, why one is not ready stands below."""
    if not fleet:
        return Text("No workers.")
    if width < NARROW:
        return _narrow_table(fleet, width)
    table = plain_table(*_COLUMNS)
    for worker in fleet:
        table.add_row(
            worker["id"],
            _phase(worker),
            (worker.get("models") or [DASH])[0],
            *_numbers(worker),
            Text("; ".join(_notes(worker))),
        )
    return table


def _narrow_table(fleet: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    table = plain_table(*_NARROW_COLUMNS, folds=False)
    cells = max(12, width - _BESIDE_NAMES)
    for worker in fleet:
        table.add_row(shortened(worker["id"], cells), _phase(worker), *_numbers(worker))
    told = ((it, "; ".join(_notes(it))) for it in fleet if it["phase"] != "ready" or _blindness(it))
    return Group(table, *(Text(f"{it['id']}: {why}", "yellow") for it, why in told if why))


def _numbers(worker: Mapping[str, Any]) -> Iterator[str]:
    load, signals = worker.get("load") or {}, worker.get("signals") or {}
    yield number(load.get("running"))
    yield number(load.get("waiting"))
    yield percent(load.get("kv_usage_ratio"))
    yield percent(signals.get("ds4_cache_miss_ratio"))
    yield number(signals.get('ds4_tokens_per_second{kind="generated"}'))


def _phase(worker: Mapping[str, Any]) -> Text:
    text = Text(worker["phase"], style=_PHASE_STYLES.get(worker["phase"], "yellow"))
    blind = _blindness(worker)
    return text.append(f", {blind['state']}", style="yellow") if blind else text


def _notes(worker: Mapping[str, Any]) -> Iterator[str]:
    if blind := _blindness(worker):
        yield f"since {instant(blind.get('since'))}: {blind.get('why') or 'no reason given'}"
    still = worker.get("standstill_seconds") or 0
    if still >= _SHOWN_STANDSTILL_SECONDS:
        yield f"its requests have stood still for {still:.0f} s"
    wanted = worker.get("wanted") or {}
    if wanted.get("wish") not in (None, "ready", worker["phase"]):
        yield f"wanted {wanted['wish']}"
    if steps := worker.get("memory_steps"):
        yield f"started with less for want of memory: {', '.join(steps)}"
    if worker["phase"] in _COMING and worker.get("startup_seconds"):
        yield f"it usually takes {worker['startup_seconds']:.0f} s to come up"
    if worker.get("reason"):
        yield str(worker["reason"])


def _blindness(worker: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what is told of a worker whose metrics cannot be read; None if they can."""
    found: Mapping[str, Any] | None = worker.get("monitoring")
    return found if found and found.get("state") != "monitored" else None
