"""A fleet that sleeps, as a person sees it: who rests, who is woken, what requests wait for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.flow.daemon import Answer, Daemon, new_daemon, until


def profile(name: str, **more: Any) -> Mapping[str, Any]:
    return {
        "name": name,
        "engine": "sim",
        "sleep": True,
        "served_names": [name],
        "max_model_len": 4096,
        **more,
    }


@contextmanager
def fleet_of(
    folder: Path,
    profiles: Sequence[Mapping[str, Any]],
    workers: Sequence[Mapping[str, Any]],
    *,
    sections: Any = None,
    **more: Any,
) -> Iterator[Daemon]:
    for it in profiles:
        (folder / f"{it['name']}.yml").write_text(yaml.safe_dump(dict(it)), encoding="utf-8")
    fleet = {"profiles_dir": str(folder), "workers": [dict(it) for it in workers], **more}
    with new_daemon(fleet=fleet, sections=sections) as daemon:
        daemon.start()
        daemon.until_ready()
        yield daemon


def phase(daemon: Daemon, worker: str) -> str:
    return str(daemon.worker(worker)["phase"])


def told(daemon: Daemon, worker: str) -> list[str]:
    return [it["summary"] for it in daemon.audit("worker") if it["target"] == worker]


def test_an_idle_worker_sleeps_and_is_woken_when_the_other_of_its_model_dies(
    tmp_path: Path,
) -> None:
    wanted: list[Mapping[str, Any]] = [{"profile": "a", "count": 2}, {"profile": "b"}]
    often = {"sleep_after_seconds": 1, "sleep_trial_days": 0, "min_hot": 1}
    with fleet_of(tmp_path, [profile("a"), profile("b")], wanted, **often) as daemon:

        def sleeper() -> str | None:
            return next(
                (it["id"] for it in daemon.status()["fleet"] if it["phase"] == "asleep"), None
            )

        first = until(sleeper, "a worker asleep")
        assert first in ("a-0", "a-1"), "the only one of its model never sleeps"
        assert any(it.startswith("put to sleep: idle for") for it in told(daemon, first))
        assert daemon.status()["pool"]["resting"][0]["worker"] == first
        assert daemon.metric("ds4_hot_workers ") == 2
        assert daemon.complete(model="a").status == 200, "the other one serves"

        other = "a-1" if first == "a-0" else "a-0"
        os.kill(daemon.note_pids()[f"worker/{other}"], signal.SIGKILL)
        until(lambda: phase(daemon, first) == "ready", "the sleeper woken")
        assert any(it.startswith("called: no ready worker serves a") for it in told(daemon, first))
        assert daemon.complete(model="a").status == 200


def test_in_the_first_week_it_is_only_told_who_would_sleep(tmp_path: Path) -> None:
    wanted: list[Mapping[str, Any]] = [{"profile": "a", "count": 2}]
    with fleet_of(tmp_path, [profile("a")], wanted, sleep_after_seconds=1, min_hot=1) as daemon:
        until(lambda: any("would be put to sleep" in it for it in told(daemon, "a-0")), "the word")
        assert [phase(daemon, it) for it in ("a-0", "a-1")] == ["ready", "ready"]
        assert daemon.status()["pool"]["trial_until"] > 0
        assert (
            "sleep is only told" in daemon.command("status", "--config", str(daemon.config)).stdout
        )


def test_a_request_for_a_spares_model_has_it_started_and_a_later_one_waits_till_it_is_warm(
    tmp_path: Path,
) -> None:
    spare = profile("b", engine_args=["--first-request-seconds=3"])
    wanted: list[Mapping[str, Any]] = [{"profile": "a"}, {"profile": "b", "count": 1, "spare": 1}]
    with fleet_of(tmp_path, [profile("a"), spare], wanted, min_hot=1) as daemon:
        assert phase(daemon, "b-0") == "absent"
        refused = daemon.complete(model="b")
        assert refused.status == 503
        assert "retry-after" in refused.headers
        until(lambda: phase(daemon, "b-0") == "warming", "a start on demand")
        answers: list[Answer] = []
        waits = threading.Thread(target=lambda: answers.append(daemon.complete(model="b")))
        waits.start()
        waits.join(30)
        assert answers[0].status == 200, "it waited for the warm-up"
        assert any(it.startswith("called: requests ask for b") for it in told(daemon, "b-0"))
        until(lambda: daemon.metric('ds4_worker_warmup_seconds{profile="b"'), "what it took")
        age = daemon.metric('ds4_worker_warmup_age_seconds{profile="b"')
        assert age is not None
        assert 0 <= age < 30


def test_a_person_may_put_a_worker_to_sleep_and_the_pool_leaves_it_so(tmp_path: Path) -> None:
    wanted: list[Mapping[str, Any]] = [{"profile": "a", "count": 2}]
    with fleet_of(tmp_path, [profile("a")], wanted) as daemon:
        config = daemon.options
        daemon.command("workers", "sleep", "a-0", "--why", "test", *config)
        until(lambda: phase(daemon, "a-0") == "asleep", "asleep")
        until(lambda: daemon.metric("ds4_hot_workers_missing ") == 1, "that one is missing is told")
        assert daemon.complete(model="a").status == 200
        assert phase(daemon, "a-0") == "asleep"
