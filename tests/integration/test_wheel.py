"""What is built is what is installed: from an empty virtual environment, far from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds4watch import __version__
from tests.conftest import ROOT
from tests.flow.daemon import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

READY_SECONDS = 60.0
_CLEAN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
_WHERE = """
import json, sys, ds4watch
from ds4watch.config.shipped import shipped
print(json.dumps([ds4watch.__file__, str(shipped("rules")), *sys.path]))
"""


def run(argv: Sequence[str | Path], **options: Any) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT])
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_all_that_ships_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    data = "ds4watch/_data"
    assert (
        not {
            f"{data}/rules/ds4watch.yml",
            f"{data}/migrations/samples/env.py",
            f"{data}/migrations/state/versions/0001_first_schema.py",
            f"{data}/dashboards/fleet.json",
            f"{data}/dashboards/worker.json",
            f"{data}/dashboards/provisioning/datasources/ds4watch.yml",
            f"{data}/serving/policy.yml",
            f"{data}/serving/profiles/sim-full.yml",
            f"{data}/serving/systemd/ds4watch.service",
            f"{data}/serving/vllm-plugin/pyproject.toml",
            f"{data}/serving/vllm-plugin/ds4watch_vllm/stat_logger.py",
            "ds4watch/web/static/index.html",
            "ds4watch/web/static/page.css",
            "ds4watch/web/static/page.js",
            "ds4watch/web/static/parts.css",
            "ds4watch/web/static/plot.js",
            "ds4watch/web/static/vendor/uPlot.esm.js",
            "ds4watch/web/static/vendor/uPlot.LICENSE",
            "ds4watch/web/static/vendor/uPlot.min.css",
            "ds4watch/sim/page.prom",
        }
        - names
    )
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"ds4watch", f"ds4watch-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]


@dataclass(frozen=True)
class Installed:
    """ds4watch in a virtual environment of its own, with settings that keep to free ports."""

    home: Path
    state: Path
    gateway: str

    @property
    def bin(self) -> Path:
        return self.home / "venv" / "bin"

    @property
    def env(self) -> dict[str, str]:
        return _CLEAN | {"HOME": str(self.home)}

    def argv(self, *words: str) -> list[str | Path]:
        return [self.bin / "ds4watch", *words, "--config", str(self.home / "ds4watch.yml")]

    def command(self, *words: str) -> str:
        return run(self.argv(*words), cwd=self.home, env=self.env)


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, state_dir: Path) -> Installed:
    admin, gateway, first = free_ports(3)
    settings = {
        "admin": {"port": admin},
        "gateway": {"port": gateway},
        "fleet": {"first_port": first},
    }
    (tmp_path / "ds4watch.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    found = Installed(tmp_path, state_dir, f"http://127.0.0.1:{gateway}")
    run([sys.executable, "-m", "venv", tmp_path / "venv"])
    pip: list[str | Path] = [found.bin / "python", "-m", "pip", "install", "--quiet"]
    run([*pip, "-r", ROOT / "requirements.lock"], cwd=tmp_path)
    run([*pip, "--no-deps", wheel], cwd=tmp_path)
    return found


@pytest.fixture
def daemon(installed: Installed) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a daemon, with all that it started ended afterwards, whatever the test did."""
    argv = installed.argv("up", "--sim", "--state", str(installed.state))
    with (installed.home / "up.log").open("wb") as log:
        process = subprocess.Popen(
            argv, cwd=installed.home, env=installed.env, stdout=log, stderr=log
        )
    yield process
    installed.command("down", "--state", str(installed.state))
    assert process.wait(timeout=10) == 0, log_of(installed)


def log_of(installed: Installed) -> str:
    return (installed.home / "up.log").read_text(encoding="utf-8")


def wait_until_ready(installed: Installed, daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while "all workers are ready" not in log_of(installed):
        assert daemon.poll() is None, log_of(installed)
        assert time.monotonic() < deadline, log_of(installed)
        time.sleep(0.1)


def answer_to(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        return json.load(answer)


def command_lines(state: Path) -> list[str]:
    """Return the command lines of the gateways and workers of a state folder."""
    records = [json.loads(path.read_text()) for path in (state / "run").glob("*.json")]
    return [Path(f"/proc/{it['pid']}/cmdline").read_text().replace("\0", " ") for it in records]


def test_an_installed_wheel_runs_serves_and_stops(
    installed: Installed, daemon: subprocess.Popen[bytes]
) -> None:
    wait_until_ready(installed, daemon)
    ask = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    answer = answer_to(f"{installed.gateway}/v1/chat/completions", ask)
    assert answer["usage"]["completion_tokens"] == 4

    status = json.loads(installed.command("status", "--json"))
    assert status["version"] == __version__
    assert [worker["phase"] for worker in status["fleet"]] == ["ready", "ready"]

    lines = command_lines(installed.state)
    assert len(lines) == 3
    assert all(line.startswith(str(installed.bin)) for line in lines)
    assert not [line for line in lines if str(ROOT) in line]

    places = json.loads(run([installed.bin / "python", "-c", _WHERE], cwd="/", env=installed.env))
    assert places[0].startswith(str(installed.home))
    assert places[1].startswith(str(installed.home))
    assert not [place for place in places if Path(place).is_relative_to(ROOT)]

    pids = [status["pid"], *(worker["pid"] for worker in status["fleet"])]
    told = installed.command("down", "--state", str(installed.state))
    assert told.endswith("everything is stopped\n")
    daemon.wait(timeout=10)
    assert not [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
