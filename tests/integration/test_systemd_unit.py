"""The units as systemd's own tools read them; no live systemd runs where the tests do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

SHIPPED = ROOT / "serving" / "systemd"
UNITS = ("ds4watch.service", "ds4watch-gateway@.service", "ds4watch.target")
SERVICES = UNITS[:2]
MOST_EXPOSURE = "25"  # tenths, as --threshold takes them


def analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


def lines_of(unit: str) -> set[str]:
    return set((SHIPPED / unit).read_text(encoding="utf-8").splitlines())


@pytest.fixture
def runnable(tmp_path: Path) -> Path:
    """Return copies whose programs are on this machine."""
    for unit in UNITS:
        text = (SHIPPED / unit).read_text(encoding="utf-8")
        text = text.replace("/opt/ds4watch/bin/ds4watch", "/bin/true")
        (tmp_path / unit).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.needs("systemd-analyze")
def test_systemd_has_nothing_to_say_against_the_units(runnable: Path) -> None:
    done = analyzed("verify", *(runnable / unit for unit in UNITS))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", SERVICES)
def test_a_unit_is_little_exposed(runnable: Path, unit: str) -> None:
    done = analyzed(
        "security",
        "--offline=true",
        "--json=short",
        f"--threshold={MOST_EXPOSURE}",
        runnable / unit,
    )
    assert done.returncode == 0, done.stderr
    scores = [float(row["exposure"]) for row in json.loads(done.stdout) if row["exposure"]]
    assert scores, "systemd-analyze judged nothing"


@pytest.mark.parametrize("unit", SERVICES)
def test_what_ends_with_a_unit_is_nothing_of_the_workers(unit: str) -> None:
    lines = lines_of(unit)
    assert {"User=ds4watch", "RemoveIPC=no", "PrivateTmp=yes"} <= lines
    assert "RestartPreventExitStatus=2" in lines


def test_a_reload_and_a_hang_reach_the_daemon() -> None:
    lines = lines_of("ds4watch.service")
    assert {"Type=notify", "WatchdogSec=60", "ExecReload=/bin/kill -HUP $MAINPID"} <= lines


def test_systemd_keeps_the_admin_api_s_socket_over_a_restart() -> None:
    assert {"NotifyAccess=main", "FileDescriptorStoreMax=1"} <= lines_of("ds4watch.service")
