"""A person's hand on a running daemon: a second start, holds, many commands at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flow.daemon import Daemon, Stream, ask, new_daemon, until

pytestmark = pytest.mark.slow

TICKS = "ds4_tick_seconds_count"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.up()
        yield daemon


def test_a_second_daemon_on_the_folder_is_refused_and_harms_nothing(daemon: Daemon) -> None:
    pids = daemon.note_pids()
    second = daemon.command("up", "--sim", *daemon.options)
    assert second.returncode == 2
    assert second.stdout == ""
    (line,) = second.stderr.splitlines()
    assert daemon.process is not None
    assert line == (
        f"ds4watch: {daemon.state}: another daemon, process {daemon.process.pid}, runs on this "
        "state folder (stop it with `ds4watch down`, or take another folder with --state)"
    )
    assert daemon.is_ready()
    assert daemon.note_pids() == pids
    assert daemon.complete().status == 200


def test_a_hold_stops_the_level_and_resume_lets_it_go_on(daemon: Daemon) -> None:
    held = daemon.command("hold", "default", "--why", "test", *daemon.options)
    assert held.returncode == 0, held.stderr
    assert [hold["why"] for hold in daemon.status()["holds"]] == ["test"]
    with Stream(daemon, max_tokens=6000):
        assert_held_until_resumed(daemon)
    until(lambda: daemon.level() == 0, "the level taken back")


def assert_held_until_resumed(daemon: Daemon) -> None:
    until(lambda: daemon.audit("refusal"), "a refusal in the audit")
    (refusal,) = daemon.audit("refusal")
    assert refusal["detail"]["reason"] == "hold"
    assert "test" in refusal["summary"]
    assert daemon.phases("Busy") == ["firing"]
    assert daemon.level() == 0
    assert daemon.audit("plan") == []
    resumed = daemon.command("resume", "default", *daemon.options)
    assert resumed.returncode == 0, resumed.stderr
    until(lambda: daemon.level() == 1, "the level that was held back")
    assert daemon.status()["holds"] == []
    assert len(daemon.audit("refusal")) == 1


def test_many_commands_in_a_row_do_not_put_off_the_next_evaluations(daemon: Daemon) -> None:
    token = (daemon.state / "admin.token").read_text(encoding="ascii").strip()
    headers = {"Authorization": f"Bearer {token}"}
    for number in range(12):
        hold = {"seconds": 60, "why": "one of many"}
        path = f"/api/ds4/v1/holds/nothing-{number}"
        placed = ask(daemon.admin_port, path, hold, headers=headers, method="PUT")
        assert placed.status == 200, placed
    ticks = daemon.metric(TICKS)
    assert ticks is not None
    until(lambda: (daemon.metric(TICKS) or 0) >= ticks + 2, "two evaluations", seconds=3)


def test_a_rule_is_explained_with_the_values_of_its_parts(daemon: Daemon) -> None:
    told = daemon.command("rules", "explain", "Busy", *daemon.options)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0].startswith("Busy warning (group ")
    assert any(line.startswith("  wants ") for line in lines)
    assert any("ds4_running_requests: " in line for line in lines)
