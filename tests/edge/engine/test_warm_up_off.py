"""A level may ask that nobody is warmed up again; the warm pool obeys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from ds4watch.config.settings import FleetSettings
from ds4watch.engine.warm_pool import WarmPool, warm_settings
from ds4watch.fleet.pool import Facts
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from tests.edge.clock import SystemClock

READY = WorkerView("w", "p", ("m",), "http://x", WorkerPhase.READY, since=1.0)


class QuietSupervisor:
    """One idle worker that was warmed up long ago."""

    def __init__(self) -> None:
        self.warmed: list[str] = []

    def facts(self) -> Mapping[str, Facts]:
        return {"w": Facts(idle_since=1.0, warmed_at=1.0)}

    def warm(self, worker: str) -> None:
        self.warmed.append(worker)

    async def wish(self, *_: object) -> None:
        return None


@pytest.mark.parametrize(("may_warm", "warmed"), [(True, ["w"]), (False, [])])
async def test_a_worker_is_warmed_up_again_unless_the_level_forbids_it(
    may_warm: bool, warmed: list[str]
) -> None:
    supervisor = QuietSupervisor()
    settings = warm_settings(FleetSettings(rewarm_after_seconds=60.0), began_at=0.0)
    nothing = cast("Any", None)  # nothing changes, so nothing is stored
    pool = WarmPool(cast("Any", supervisor), nothing, settings, SystemClock())
    await pool.step(FleetSnapshot(2.0, (READY,)), (), (), may_warm=may_warm)
    assert supervisor.warmed == warmed
