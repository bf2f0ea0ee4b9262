"""What goes by the calendar is seen by people and by programs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.flow.daemon import Daemon, new_daemon, until

pytestmark = pytest.mark.slow


def test_a_fold_and_its_result_are_shown_and_history_can_be_read_meanwhile() -> None:
    with new_daemon() as daemon:
        daemon.up()
        fold = until(lambda: finished(daemon, "fold"), "a fold that ended", seconds=60)
        assert fold["ok"] is True
        assert "scrapes to" in fold["result"]
        assert fold["last_succeeded_at"] == fold["last_finished_at"] >= fold["last_started_at"]
        shown = daemon.command("status", "--config", str(daemon.config))
        [line] = [it for it in shown.stdout.splitlines() if it.startswith("fold ")]
        assert fold["result"] in line
        success = daemon.metric('ds4_job_last_success_timestamp_seconds{job="fold"}')
        assert success is not None
        assert success >= fold["last_succeeded_at"]
        assert daemon.metric('ds4_job_failures_total{job="fold"}') == 0
        assert daemon.metric("ds4_store_damaged_parts_total") == 0
        assert_history_is_read_and_not_pruned(daemon)


def assert_history_is_read_and_not_pruned(daemon: Daemon) -> None:
    exported = daemon.command("history", "export", "--name", "up", *daemon.options)
    assert exported.returncode == 0, exported.stderr
    lines = exported.stdout.splitlines()
    assert lines[-1] == "# EOF"
    assert len([it for it in lines if 'worker="sim-full-0"' in it and " 1.0 " in it]) > 10
    verified = daemon.command("history", "verify", *daemon.options)
    assert verified.stdout == "all of it is sound\n"
    refused = daemon.command("history", "prune", "--before", "1h", *daemon.options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is at work here and prunes by itself" in refused.stderr


def finished(daemon: Daemon, name: str) -> dict[str, Any] | None:
    for job in daemon.status()["jobs"]:
        if job["name"] == name and job["last_finished_at"] is not None:
            return dict(job)
    return None
