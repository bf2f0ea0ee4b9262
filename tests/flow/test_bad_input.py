"""Bad input to `up`: exit code 2, one line a fault that says where and how to mend it, no more."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flow.daemon import Daemon, listens, new_daemon


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """Yield a daemon whose settings are good but for what a test makes of them."""
    with new_daemon() as daemon:
        yield daemon


def settle(daemon: Daemon, **changes: Any) -> None:
    """Write the settings with some sections changed."""
    daemon.config.write_text(yaml.safe_dump(daemon.settings | changes), encoding="utf-8")


def refused(daemon: Daemon, *arguments: str) -> list[str]:
    """Start a daemon that has to refuse; return its words, nothing of it being left."""
    tried = daemon.command("up", *(arguments or ("--sim", *daemon.options)))
    assert tried.returncode == 2, tried.stderr
    assert tried.stdout == ""
    assert "Traceback" not in tried.stderr
    assert daemon.records() == {}
    return findings(tried)


def findings(tried: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines for a person, without the log that may come before."""
    lines = tried.stderr.splitlines()
    told = [line.removeprefix("ds4watch: ") for line in lines if line.startswith("ds4watch: ")]
    assert lines[len(lines) - len(told) :] == [f"ds4watch: {line}" for line in told]
    assert all(re.match(r"\S+Z (INFO|WARNING) ", line) for line in lines[: -len(told)])
    return told


def test_each_fault_of_the_settings_has_its_line_and_its_mending(daemon: Daemon) -> None:
    daemon.config.write_text(
        "admin:\n"
        "  prot: 9464\n"
        "gateway:\n"
        "  drain_seconds: soon\n"
        "scrape:\n"
        "  interval_seconds: 1\n"
        "  concurrency: 0\n",
        encoding="utf-8",
    )
    file = daemon.config
    assert refused(daemon) == [
        f"{file}:2: admin.prot: unknown key (did you mean `port`?)",
        f'{file}:4: gateway.drain_seconds: must be a number, got "soon"',
        f"{file}:7: scrape.concurrency: must be at least 1, got 0",
    ]


def test_a_file_that_is_no_yaml_or_not_there_is_one_line(daemon: Daemon) -> None:
    daemon.config.write_text("admin:\n  port: [9464\ngateway: {}\n", encoding="utf-8")
    (line,) = refused(daemon)
    assert line.startswith(f"{daemon.config}:3: ")
    gone = daemon.folder / "nowhere.yml"
    (line,) = refused(daemon, "--sim", "--config", str(gone))
    assert line == f"{gone}: there is no such file (name one that is there)"


def test_a_profile_without_its_model_folder_is_named(daemon: Daemon) -> None:
    folder = daemon.folder / "profiles"
    folder.mkdir()
    model = daemon.folder / "models" / "gone"
    profile = {"name": "mine", "served_names": ["mine"], "model": str(model)}
    (folder / "mine.yml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    fleet = daemon.settings["fleet"] | {
        "profiles_dir": str(folder),
        "workers": [{"profile": "mine"}],
        "vllm_python": sys.executable,
    }
    settle(daemon, fleet=fleet)
    (line,) = refused(daemon, *daemon.options)
    assert line == (
        f"{folder / 'mine.yml'}: model: there is no folder {model} "
        "(put the model there, or name another)"
    )


def test_a_profile_that_does_not_exist_is_answered_with_those_that_do(daemon: Daemon) -> None:
    settle(daemon, fleet=daemon.settings["fleet"] | {"workers": [{"profile": "sim-ful"}]})
    (line,) = refused(daemon)
    assert line.startswith(f"{daemon.config}:")
    assert "fleet.workers[0].profile: there is no profile sim-ful (known: " in line
    assert "sim-full" in line


@contextmanager
def somebody_on(port: int) -> Iterator[None]:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        yield


@pytest.mark.parametrize("setting", ["admin", "gateway"])
def test_a_port_in_use_is_named_with_its_setting(daemon: Daemon, setting: str) -> None:
    port = daemon.settings[setting]["port"]
    with somebody_on(port):
        (line,) = refused(daemon)
    assert line == (
        f"{setting}.port: 127.0.0.1:{port} is in use (stop what uses it, or set {setting}.port)"
    )
    assert not listens(daemon.admin_port)
    assert not listens(daemon.gateway_port)


def test_a_state_folder_that_cannot_be_written_is_named(daemon: Daemon) -> None:
    blocked = Path(daemon.folder, "file")
    blocked.write_text("in the way", encoding="utf-8")
    state = blocked / "state"
    (line,) = refused(daemon, "--sim", "--config", str(daemon.config), "--state", str(state))
    assert line == (
        f"{state}: state_dir: the state folder cannot be written: not a directory "
        "(make it writable, or take another folder with state_dir or --state)"
    )


def test_faults_of_a_rule_file_have_their_lines(daemon: Daemon) -> None:
    file = daemon.folder / "rules.yml"
    file.write_text(
        "groups:\n"
        "  - name: mine\n"
        "    rules:\n"
        "      - alert: A\n"
        "        expr: sum(ds4_queue_depth\n"
        "      - alert: B\n"
        "        expr: vector(1)\n"
        "        for: soon\n",
        encoding="utf-8",
    )
    expression, span = refused(daemon)
    assert expression.startswith(f"{file}:5: groups[0].rules[0].expr: A: ")
    assert span.startswith(f"{file}:8: groups[0].rules[1].for: ")


def test_faults_of_a_policy_file_have_their_lines(daemon: Daemon) -> None:
    file = daemon.folder / "policy.yml"
    file.write_text(
        "pools:\n"
        "  default:\n"
        "    ladder:\n"
        "      - {name: short, max_tokens_cap: 32}\n"
        "bindings:\n"
        "  - match: {alertname: Busy}\n"
        "    level: 2\n"
        "  - match: {alertname: Busy}\n"
        "    pool: defalt\n"
        "    level: 1\n",
        encoding="utf-8",
    )
    level, pool = refused(daemon)
    assert level == (
        f"{file}:7: bindings[0].level: level 2 is above the top of pool 'default' "
        "(its ladder has 1 levels)"
    )
    assert pool == f"{file}:9: bindings[1].pool: there is no pool 'defalt' (known: default)"


def test_a_pattern_that_matches_no_rule_file_is_named(daemon: Daemon) -> None:
    settle(daemon, rules=["rules.yml", "nothing-*.yml"])
    (line,) = refused(daemon)
    assert line.startswith(f"{daemon.config}:")
    told = f"no file matches nothing-*.yml (patterns start from {daemon.folder})"
    assert line.endswith(f": rules[1]: {told}")


def test_faults_of_rules_and_policy_are_told_together(daemon: Daemon) -> None:
    (daemon.folder / "rules.yml").write_text(
        "groups:\n  - name: g\n    rules:\n      - {alert: A, expr: 'nosuch(up)'}\n",
        encoding="utf-8",
    )
    (daemon.folder / "policy.yml").write_text("dry_run: perhaps\n", encoding="utf-8")
    rules, policy = refused(daemon)
    assert rules.startswith(f"{daemon.folder / 'rules.yml'}:4: ")
    assert policy.startswith(f"{daemon.folder / 'policy.yml'}:1: dry_run: must be true or false")
