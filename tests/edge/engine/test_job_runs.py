"""Each run of a job leaves its mark: in the store, in the status, in the metrics, in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ds4watch.engine.job_runs import JobRuns
from ds4watch.history.rows import JobRun
from ds4watch.history.state import StateStore
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.telemetry.metrics import Telemetry


class StillClock:
    """Stands at an instant until the test moves it."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


async def test_a_run_and_its_result_are_kept_and_a_failure_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, telemetry = StillClock(), Telemetry()
    store = StateStore.open(tmp_path / "state.db", clock)
    last: dict[str, JobRun] = {}
    runs = JobRuns(last, store, metrics=telemetry.process, clock=clock)

    async def good() -> str:
        clock.at += 2
        return "7 rows deleted"

    async def bad() -> str:
        raise StoreError("disk is full", reason=EdgeReason.FULL)

    await runs.run("prune", good)
    for _ in range(2):
        await runs.run("prune", bad)
    with pytest.raises(ZeroDivisionError):
        await runs.run("prune", broken)
    want = JobRun(
        "prune", 1002.0, 1002.0, 0.0, "ZeroDivisionError: a fault of ours", ok=False,
        last_succeeded_at=1002.0,
    )  # fmt: skip
    assert list(last.values()) == await store.jobs() == [want]
    page = telemetry.render().decode()
    assert 'ds4_job_failures_total{job="prune"} 3.0' in page
    assert 'ds4_job_last_success_timestamp_seconds{job="prune"} 1002.0' in page
    await runs.run("prune", good)
    told = [it.message for it in caplog.records if it.levelno == logging.WARNING]
    assert told == ["job prune failed: disk is full", "job prune succeeds again: 7 rows deleted"]
    await store.close()


async def broken() -> str:
    raise ZeroDivisionError("a fault of ours")


async def test_after_a_restart_the_last_success_is_known_at_once() -> None:
    telemetry = Telemetry()
    last = {"prune": JobRun("prune", 5.0, 6.0, 1.0, "", ok=True, last_succeeded_at=6.0)}
    JobRuns(last, Unreachable(), metrics=telemetry.process, clock=StillClock())
    assert 'timestamp_seconds{job="prune"} 6.0' in telemetry.render().decode()


class Unreachable:
    """A store that is away."""

    async def job_started(self, *_: object) -> None:
        raise StoreError("away", reason=EdgeReason.GONE)

    async def job_finished(self, *_: object, **__: object) -> None:
        raise StoreError("away", reason=EdgeReason.GONE)


async def test_a_job_runs_although_its_run_cannot_be_stored() -> None:
    last: dict[str, JobRun] = {}
    runs = JobRuns(last, Unreachable(), metrics=Telemetry().process, clock=StillClock())

    async def good() -> str:
        return "done"

    await runs.run("prune", good)
    assert (last["prune"].ok, last["prune"].result) == (True, "done")
