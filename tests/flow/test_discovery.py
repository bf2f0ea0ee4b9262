"""A daemon that watches workers which it did not start: simulated ones, found by a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.flow.daemon import PROGRAM, Daemon, environment, free_ports, listens, new_daemon, until

pytestmark = pytest.mark.slow

RULES = """\
groups:
  - name: flow
    rules:
      - alert: Watched
        expr: up{job="pool"} == 1
        labels: {severity: info}
        annotations: {ds4_on_no_data: hold}
"""
DEPTH = 'ds4_queue_depth{{model="sim",profile="{profile}",worker="{worker}"}}'


@contextmanager
def workers(count: int) -> Iterator[list[int]]:
    """Run simulated workers that no daemon knows of; yield their ports."""
    (first,) = free_ports(1)
    ports = list(range(first, first + count))
    process = subprocess.Popen(
        [*PROGRAM, "sim", "--port", str(first), "--count", str(count)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        until(lambda: all(map(listens, ports)), "the simulated workers")
        yield ports
    finally:
        process.terminate()
        process.wait(timeout=30)


def listed(path: Path, ports: list[int]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([{"targets": [f"127.0.0.1:{it}" for it in ports]}]))
    fresh.replace(path)


def settle(daemon: Daemon, static: int) -> None:
    step = {"source_labels": ["__address__"], "regex": ".*:(.*)", "target_label": "worker"}
    groups = [
        {
            "name": "pool",
            "file_sd_configs": [{"files": ["pool/*.json"], "refresh_seconds": 0.2}],
            "relabel_configs": [step | {"replacement": "far-$1"}],
        },
        {
            "name": "fixed",
            "interval_seconds": 1,
            "static_configs": [
                {"targets": [f"127.0.0.1:{static}"], "labels": {"profile": "llama"}}
            ],
        },
    ]
    daemon.settings["scrape"]["groups"] = groups
    daemon.settings["fleet"]["workers"] = []
    daemon.config.write_text(yaml.safe_dump(daemon.settings), encoding="utf-8")
    (daemon.folder / "pool").mkdir()


def watched(daemon: Daemon) -> set[str]:
    """Return the workers for which the alert on `up` fires."""
    return {
        it["labels"]["worker"]
        for it in daemon.status()["alerts"]
        if it["name"] == "Watched" and it["phase"] == "firing"
    }


def test_workers_of_others_are_scraped_and_end_when_they_are_taken_off_the_list() -> None:
    with new_daemon(rules=RULES) as daemon, workers(3) as ports:
        settle(daemon, static=ports[2])
        listed(daemon.folder / "pool" / "a.json", ports[:2])
        daemon.start()
        daemon.until_ready()
        first, second = (f"far-{port}" for port in ports[:2])
        until(lambda: watched(daemon) == {first, second}, "both pages read")
        fixed = DEPTH.format(profile="llama", worker=f"127.0.0.1:{ports[2]}")
        until(lambda: daemon.metric(fixed) is not None, "the page of the fixed one")
        assert daemon.metric(DEPTH.format(profile="external", worker=first)) == 0.0
        assert daemon.metric('ds4_discovery_targets{group="pool"}') == 2.0
        assert daemon.status()["fleet"] == []

        listed(daemon.folder / "pool" / "a.json", ports[:1])
        until(lambda: watched(daemon) == {first}, "the second one ended")
        assert daemon.metric(DEPTH.format(profile="external", worker=second)) is None
        assert daemon.metric('ds4_discovery_targets{group="pool"}') == 1.0


def test_what_left_the_list_while_no_daemon_ran_ends_at_the_next_start() -> None:
    with new_daemon(rules=RULES) as daemon, workers(3) as ports:
        settle(daemon, static=ports[2])
        listed(daemon.folder / "pool" / "a.json", ports[:2])
        daemon.start()
        daemon.until_ready()
        until(lambda: len(watched(daemon)) == 2, "both pages read")
        assert daemon.process is not None
        daemon.process.kill()
        daemon.wait()
        listed(daemon.folder / "pool" / "a.json", ports[:1])
        daemon.start()
        daemon.until_ready()
        until(lambda: watched(daemon) == {f"far-{ports[0]}"}, "the one that is still listed")


def test_check_names_the_groups_and_their_faults() -> None:
    with new_daemon() as daemon:
        settle(daemon, static=1)
        good = daemon.command("check", "--config", str(daemon.config))
        assert "ok  scrape groups: pool, fixed" in good.stdout.splitlines()
        (daemon.folder / "pool" / "a.json").write_text("[3]")
        bad = daemon.command("check", "--config", str(daemon.config))
        assert bad.returncode == 2
        assert "pool/a.json: [0]: must be a mapping of targets and labels" in bad.stderr
