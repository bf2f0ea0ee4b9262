"""A fleet that is changed under load: to a good version, to bad ones, over a daemon's death."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flow.daemon import Daemon, ask, new_daemon, until
from tests.flow.test_faults import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROLLING = {
    "settle_seconds": 0.2,
    "watch_seconds": 2,
    "watch_max_seconds": 30,
    "min_requests": 20,
    "canary_ratio": 0.3,
}
PATIENCE_SECONDS = 90.0
CALM = {"canary_interval_seconds": 2.0, "canary_timeout_seconds": 2.0, "drain_seconds": 10}


def profile(*arguments: str) -> str:
    return yaml.safe_dump(
        {
            "name": "m",
            "engine": "sim",
            "served_names": ["m", "sim"],
            "max_model_len": 8192,
            "max_num_seqs": 8,
            "engine_args": ["--decode-tokens-per-second=200", *arguments],
        }
    )


@contextmanager
def running(workers: int = 2) -> Iterator[Daemon]:
    fleet = {
        "profiles_dir": "profiles",
        "workers": [{"profile": "m", "count": workers}],
        "rolling": ROLLING,
        **CALM,
    }
    with new_daemon(rules="groups: []\n", fleet=fleet) as daemon:
        write(daemon)
        daemon.up()
        yield daemon


def write(daemon: Daemon, *arguments: str) -> None:
    folder = daemon.folder / "profiles"
    folder.mkdir(exist_ok=True)
    (folder / "m.yml").write_text(profile(*arguments), encoding="utf-8")


def fleet(daemon: Daemon, *arguments: str) -> str:
    done = daemon.command("fleet", *arguments, *daemon.options)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def change(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = ask(daemon.admin_port, "/api/ds4/v1/fleet/change").json()["change"]
    daemon.note_pids()
    return found


def until_ended(daemon: Daemon) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found = change(daemon)
        return found if found["status"] in ("done", "returned") else None

    return until(ended, "the change ended", seconds=PATIENCE_SECONDS)


def until_at(daemon: Daemon, at: int, stage: str) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = change(daemon)
        assert found["status"] == "running", found
        return found if (found["at"], found["stage"]) == (at, stage) else None

    return until(there, f"step {at} {stage}", seconds=PATIENCE_SECONDS)


def commands(daemon: Daemon) -> dict[str, str]:
    """Return what each worker's process was started with."""
    workers = daemon.note_pids()
    return {
        unit.removeprefix("worker/"): Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
        for unit, pid in workers.items()
        if unit.startswith("worker/")
    }


def all_run(daemon: Daemon, word: str) -> bool:
    found = commands(daemon)
    return set(found) == {"m-0", "m-1"} and all(word in it for it in found.values())


def test_a_good_change_goes_through_under_load_without_a_failed_request() -> None:
    with running() as daemon:
        write(daemon, "--seed=7")
        planned = fleet(daemon, "apply", "--dry-run")
        assert "1. start m-surge, one more" in planned
        assert "2. replace m-0" in planned
        assert not all_run(daemon, "--seed=7")
        fewest = 2
        with load(daemon) as answers:
            until(lambda: len(answers) > 20, "answers")
            fleet(daemon, "apply", "--yes", "--why", "another seed")
            assert "It is under way" in fleet(daemon, "apply", "--yes")  # once more is no harm
            while (found := change(daemon))["status"] == "running":
                ready = [it for it in daemon.status()["fleet"] if it["phase"] == "ready"]
                fewest = min(fewest, len(ready))
        assert found["status"] == "done", found
        assert set(answers) == {"200"}
        assert fewest == 2
        assert all_run(daemon, "--seed=7")
        told = [row["summary"] for row in daemon.audit("fleet")]
        assert told[0] == "rolling change begun, 4 steps: another seed"
        assert told[-1].startswith("done:")
        assert "The fleet is what the files say." in fleet(daemon, "apply", "--yes")


def test_a_killed_daemon_goes_on_where_the_change_stood_and_a_pause_holds() -> None:
    with running() as daemon:
        write(daemon, "--seed=7")
        with load(daemon) as answers:
            until(lambda: len(answers) > 20, "answers")
            fleet(daemon, "apply", "--yes")
            until_at(daemon, 2, "bringing")
            daemon.signal(signal.SIGKILL)
            daemon.wait()
            daemon.start()
            until(lambda: is_up(daemon), "the daemon is back")
            fleet(daemon, "pause", "--why", "to look")
            paused = until(lambda: waits(daemon), "the pause", seconds=PATIENCE_SECONDS)
            at = paused["at"]
            daemon.signal(signal.SIGKILL)
            daemon.wait()
            daemon.start()
            until(lambda: is_up(daemon), "the daemon is back again")
            assert (change(daemon)["paused"], change(daemon)["at"]) == (True, at)
            fleet(daemon, "resume")
            found = until_ended(daemon)
        assert found["status"] == "done", found
        assert set(answers) == {"200"}
        assert all_run(daemon, "--seed=7")


@pytest.fixture(scope="module")
def steady() -> Iterator[Daemon]:
    """A daemon whose fleet is to be the same after each of these tests as before."""
    with running() as daemon:
        yield daemon


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--fault=http_500=0.5",), "requests failed"),
        (("--fault=slow=20",), "latency"),
        (("--precision-noise=2",), "quality"),
        (("--fault=oom_at_start",), "on the new, failed"),
    ],
)
def test_a_bad_version_is_given_back_by_itself(
    steady: Daemon, arguments: tuple[str, ...], reason: str
) -> None:
    before, pids = commands(steady), steady.note_pids()
    write(steady, *arguments)
    with load(steady) as answers:
        until(lambda: len(answers) > 20, "answers")
        fleet(steady, "apply", "--yes")
        found = until_ended(steady)
    assert found["status"] == "returned", found
    assert reason in found["reason"]
    assert {it["state"] for it in found["steps"]} == {"given back", "not done"}
    assert set(answers) == {"200"}
    assert commands(steady) == before
    assert steady.note_pids() == pids
    shown = steady.command("fleet", "status", "--config", str(steady.config))
    assert "returned" in shown.stdout
    assert reason in shown.stdout


def test_what_was_given_back_is_not_started_by_the_next_daemon(steady: Daemon) -> None:
    write(steady, "--fault=oom_at_start")
    fleet(steady, "apply", "--yes")
    assert until_ended(steady)["status"] == "returned"
    pids = steady.note_pids()
    steady.signal(signal.SIGTERM)
    assert steady.wait() == 0
    steady.up()
    assert "tried and given back" in steady.log_text()
    assert steady.note_pids() == pids


def is_up(daemon: Daemon) -> bool:
    try:
        return ask(daemon.admin_port, "/api/ds4/v1/health").status == 200
    except OSError:
        return False


def waits(daemon: Daemon) -> dict[str, Any] | None:
    found = change(daemon)
    return found if found["waiting"].startswith("paused before") else None
