"""A damaged checkpoint under a good name never takes traffic on a real vLLM; a good one always."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.flow.daemon import Daemon, ask, new_daemon, until

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

WORKER = "tiny-full-0"
START_SECONDS = 400.0


@pytest.fixture(scope="module")
def daemon(vllm_python: Path) -> Iterator[Daemon]:
    """A worker that started well: what it gave is what it has to give."""
    fleet = {
        "vllm_python": str(vllm_python),
        "workers": [{"profile": "tiny-full"}],
        "canary_interval_seconds": 3600,
        "start_timeout_seconds": START_SECONDS,
    }
    with new_daemon(fleet=fleet) as daemon:
        daemon.start()
        until(daemon.is_ready, "a worker ready", seconds=START_SECONDS)
        shutil.copytree(daemon.state / "models/tiny-full", daemon.folder / "good")
        yield daemon


def ends(daemon: Daemon) -> list[str]:
    """Return the steps to a phase in which the worker rests, oldest first."""
    steps = [it["summary"] for it in daemon.audit("worker") if it["target"] == WORKER]
    return [it for it in steps if "→ ready" in it or "→ quarantined" in it]


def restarted(daemon: Daemon, *, by: str) -> str:
    """Start the worker's process anew; return the step to the phase that it comes to rest in."""
    before = len(ends(daemon))
    done = daemon.command("workers", by, WORKER, "--why", "a test", *daemon.options)
    assert done.returncode == 0, done.stdout + done.stderr
    return until(lambda: ends(daemon)[before:], f"{WORKER} at rest", seconds=START_SECONDS)[-1]


def test_a_good_checkpoint_passes_at_each_start(daemon: Daemon) -> None:
    for _ in range(3):
        assert "→ ready" in restarted(daemon, by="restart")
    checks = [it["summary"] for it in daemon.audit("quality") if "start check" in it["summary"]]
    assert len(checks) == 1, "only the first start set what is to be given"


@pytest.mark.parametrize("how", ["permuted", "nan", "no-head", "other-seed", "six-bits"])
def test_a_damaged_checkpoint_never_becomes_ready_and_the_good_one_does_again(
    daemon: Daemon, vllm_python: Path, how: str
) -> None:
    damaged(daemon, vllm_python, how)
    seen = restarted(daemon, by="restart")
    assert "→ quarantined" in seen, seen
    answer = ask(daemon.gateway_port, "/v1/completions", {"model": "tiny", "prompt": "1"})
    assert answer.status in (404, 503), answer.body

    mended(daemon)
    assert "→ ready" in restarted(daemon, by="start")


def test_weights_that_are_off_by_a_thousandth_are_told_though_nobody_serves_in_their_place(
    daemon: Daemon, vllm_python: Path
) -> None:
    damaged(daemon, vllm_python, "slight")
    assert "→ ready" in restarted(daemon, by="restart")
    [*_, told] = [it["summary"] for it in daemon.audit("quality") if it["target"] == WORKER]
    assert told.startswith("it may be that it is not the model that tiny-full was before")
    assert "good starts by 0.000" in told

    mended(daemon)
    assert "→ ready" in restarted(daemon, by="restart")


def damaged(daemon: Daemon, python: Path, how: str) -> None:
    """Damage the worker's model in its folder."""
    script = ROOT / "tests/data/damage_model.py"
    subprocess.run([python, script, daemon.state / "models/tiny-full", how], check=True)


def mended(daemon: Daemon) -> None:
    """Put the good weights back."""
    model = daemon.state / "models/tiny-full"
    shutil.copytree(daemon.folder / "good", model, dirs_exist_ok=True)
