"""A thousand alerts at once: a handful of actions, a few lines in the audit, in virtual time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ds4watch.model.series import SeriesKey
from tests.edge.engine.scripted import STARTED_AT, Daemon, Steps, prepare

ALERTS = 1000
LOAD = (1.0, *(20.0,) * 6, *(1.0,) * 4)
SERIES = tuple(SeriesKey("load", (("queue", f"q{number}"),)) for number in range(ALERTS))
RULES = """\
groups:
  - name: flood
    interval: 1s
    rules:
      - alert: High
        expr: load > 10
        for: 2s
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
"""


@dataclass
class Told:
    name: str = "told"
    got: list[Mapping[str, Any]] = field(default_factory=list)

    async def send(self, payload: Mapping[str, Any]) -> None:
        self.got.append(payload)


async def play(folder: Path, told: Told) -> None:
    daemon = Daemon(folder, "", Steps(), channel=told, load=LOAD, rules=RULES, series=SERIES)
    async with daemon:
        while daemon.clock.at < STARTED_AT + len(LOAD):
            await daemon.engine.tick()
            if daemon.plans:
                plans, daemon.plans[:] = [*daemon.plans], []
                daemon.actions.idle.clear()
                daemon.runner.submit(plans, [plan.id for plan in plans])
                await daemon.actions.idle.wait()
            daemon.clock.at += 1


def test_a_thousand_alerts_at_once_are_one_step_up_and_one_down(tmp_path: Path) -> None:
    asyncio.run(prepare(tmp_path))
    asyncio.run(play(tmp_path, Told()))
    with closing(sqlite3.connect(tmp_path / "state.db")) as base:
        events = base.execute("SELECT new, count(*) FROM alert_events GROUP BY 1").fetchall()
        actions = base.execute("SELECT status, count(*) FROM actions GROUP BY 1").fetchall()
        audit = base.execute("SELECT kind, summary FROM audit ORDER BY id").fetchall()
    assert dict(events) == {"pending": ALERTS, "firing": ALERTS, "resolved": ALERTS}
    assert dict(actions) == {"applied": 1, "undone": 1}
    assert (tmp_path / "levels").read_text().split() == ["1", "0"]
    assert len(audit) < 20, audit
    floods = [summary for kind, summary in audit if kind == "alert"]
    assert [it.partition(",")[0] for it in floods] == [f"{ALERTS} alerts alike"] * 3
