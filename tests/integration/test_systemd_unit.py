from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

UNIT = ROOT / "serving" / "systemd" / "ds4watch.service"


@pytest.mark.needs("systemd-analyze")
def test_systemd_has_nothing_to_say_against_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    begun = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert begun == "ExecStart=/opt/ds4watch/bin/ds4watch up --config /etc/ds4watch/ds4watch.yml"
    copy = tmp_path / "ds4watch.service"
    copy.write_text(text.replace(begun, "ExecStart=/bin/true"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stop_of_the_service_leaves_workers_and_gateways_running() -> None:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    assert {"KillMode=process", "OOMPolicy=continue", "RestartPreventExitStatus=2"} <= set(lines)
    assert "PrivateTmp=yes" not in lines  # the sockets of running workers are in /tmp
