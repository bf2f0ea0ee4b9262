"""Many deaths of every worker: what the last leaves is what the first left.

Twelve rounds in `make test`, fifty in `make test-long`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.flow.daemon import Daemon, is_running, kill, listens, new_daemon, session_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS, LONG_ROUNDS = 12, 50
MOST_TO_SETTLE = 10
GROWTH_BYTES = 16 << 20
"""Of the daemon over forty rounds: its history of that time is in it too."""
WORKERS = ("sim-full-0", "sim-quantized-0")


@dataclass(frozen=True, slots=True)
class Left:
    """What stands there while every worker is ready."""

    files: frozenset[str]
    descriptors: int
    resident_bytes: int


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    fleet = {"quarantine_after": 100, "restart_backoff_max_seconds": 0.2}
    with new_daemon(rules="groups: []\n", fleet=fleet) as daemon:
        daemon.up()
        yield daemon


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    is_long = request.config.getoption("--hypothesis-profile") == "long"
    return LONG_ROUNDS if is_long else ROUNDS


def left(daemon: Daemon) -> Left:
    assert daemon.process is not None
    of_daemon = Path(f"/proc/{daemon.process.pid}")
    status = dict(
        line.split(":", 1) for line in (of_daemon / "status").read_text("utf-8").splitlines()
    )
    return Left(
        files=frozenset(str(path.relative_to(daemon.state)) for path in daemon.state.rglob("*")),
        descriptors=len(list((of_daemon / "fd").iterdir())),
        resident_bytes=int(status["VmRSS"].split()[0]) << 10,
    )


def pids_of(daemon: Daemon) -> dict[str, int]:
    found = {worker: daemon.worker(worker) for worker in WORKERS}
    return {name: int(it["pid"]) for name, it in found.items() if it["phase"] == "ready"}


def all_anew(daemon: Daemon, old: dict[str, int]) -> dict[str, int] | None:
    found = pids_of(daemon)
    return found if len(found) == len(WORKERS) and not old.items() & found.items() else None


def test_kills_and_starts_leave_no_process_port_file_or_memory(daemon: Daemon, rounds: int) -> None:
    # after so many rounds what is made once has been made: caches, pools, threads
    settled = min(MOST_TO_SETTLE, rounds // 3)
    ports = set(daemon.ports())
    dead: set[int] = set()
    seen: list[Left] = []
    pids = until(lambda: all_anew(daemon, {}), "both workers ready")
    for _ in range(rounds):
        for pid in pids.values():
            kill(pid)
        dead |= set(pids.values())
        pids = until(partial(all_anew, daemon, pids), "both workers anew")
        daemon.note_pids()
        ports |= set(daemon.ports())
        assert {name: session_of(pid) for name, pid in pids.items()} == {
            name: [pid] for name, pid in pids.items()
        }
        seen.append(left(daemon))
    assert not [pid for pid in dead if is_running(pid) or session_of(pid)]
    assert not [port for port in ports - set(daemon.ports()) if listens(port)]
    assert seen[-1].files <= seen[0].files | seen[settled].files
    early, late = seen[settled:-settled], seen[-settled:]
    assert max(it.descriptors for it in late) <= max(it.descriptors for it in early) + 2
    grown = late[-1].resident_bytes - early[0].resident_bytes
    assert grown < GROWTH_BYTES, [it.resident_bytes >> 20 for it in seen]
    every = daemon.ports()
    assert daemon.command("down", *daemon.options).returncode == 0
    daemon.wait()
    daemon.assert_nothing_is_left([*ports, *every])
