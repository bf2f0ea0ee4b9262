"""A fleet that sleeps, as a person sees it: who rests, who is woken, what requests wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.flow.daemon import Answer, Daemon, new_daemon, until

PROFILE = {
    "engine": "sim",
    "sleep": True,
    "max_model_len": 4096,
    "engine_args": ["--first-request-seconds=0.5", "--wake-seconds=0.3"],
}


@pytest.fixture
def sleepy(tmp_path: Path) -> Iterator[Daemon]:
    """Yield a daemon of three workers that sleep soon, one of them of a model of its own."""
    for name, models in (("a", ["a", "sim"]), ("b", ["b"])):
        text = yaml.safe_dump(PROFILE | {"name": name, "served_names": models})
        (tmp_path / f"{name}.yml").write_text(text, encoding="utf-8")
    fleet = {
        "profiles_dir": str(tmp_path),
        "workers": [{"profile": "a", "count": 2}, {"profile": "b"}],
        "sleep_after_seconds": 1,
        "sleep_trial_days": 0,
        "wake_hold_seconds": 600,
        "min_hot": 1,
    }
    with new_daemon(fleet=fleet) as daemon:
        daemon.start()
        daemon.until_ready()
        yield daemon


def test_an_idle_worker_sleeps_and_is_woken_when_another_dies(sleepy: Daemon) -> None:
    def sleeper() -> str | None:
        return next((it["id"] for it in sleepy.status()["fleet"] if it["phase"] == "asleep"), None)

    first = until(sleeper, "a worker asleep")
    assert first in ("a-0", "a-1"), "the only one of its model never sleeps"
    told = [it["summary"] for it in sleepy.audit("worker") if it["target"] == first]
    assert any(it.startswith("put to sleep: idle for") for it in told)
    assert sleepy.status()["pool"]["resting"][0]["worker"] == first

    other = "a-1" if first == "a-0" else "a-0"
    answers: list[Answer] = []
    pid = sleepy.note_pids()[f"worker/{other}"]
    import os, signal

    os.kill(pid, signal.SIGKILL)
    until(lambda: sleepy.worker(first)["phase"] == "ready", "the sleeper woken")
    assert sleepy.complete(model="a").status == 200
    told = [it["summary"] for it in sleepy.audit("worker") if it["target"] == first]
    assert any(it.startswith("called: no ready worker serves a") for it in told)
