from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ds4watch.config.files import find_settings
from ds4watch.fleet.install import InstallPlan, units_of
from ds4watch.model.errors import ConfigError
from tests.conftest import ROOT

UNITS = "etc/systemd/system"
NAMES = {"ds4watch.service", "ds4watch-gateway@.service", "ds4watch.target"}


def install(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ds4watch", "install", "--systemd", "--root", root, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )


def test_it_writes_what_a_service_needs_and_tells_how_to_begin(tmp_path: Path) -> None:
    done = install(tmp_path, "--user", "llm")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / UNITS).iterdir()} == NAMES
    unit = (tmp_path / UNITS / "ds4watch.service").read_text(encoding="utf-8")
    program = Path(sys.executable).with_name("ds4watch")
    assert "User=llm\nGroup=llm\n" in unit
    assert f"ExecStart={program} up --config /etc/ds4watch/ds4watch.yml" in unit
    rule = tmp_path / "etc/polkit-1/rules.d/50-ds4watch.rules"
    assert 'subject.user !== "llm"' in rule.read_text(encoding="utf-8")
    settings = find_settings(tmp_path / "etc/ds4watch/ds4watch.yml", os.environ).settings
    assert (settings.fleet.backend, settings.gateway.run_by) == ("systemd", "systemd")
    assert "systemctl enable --now ds4watch.target ds4watch ds4watch-gateway@g0" in done.stdout


def test_what_a_person_changed_is_kept_and_the_new_one_lies_beside_it(tmp_path: Path) -> None:
    install(tmp_path)
    unit = tmp_path / UNITS / "ds4watch.service"
    settings = tmp_path / "etc/ds4watch/ds4watch.yml"
    theirs = unit.read_text(encoding="utf-8") + "# mine\n"
    unit.write_text(theirs, encoding="utf-8")
    settings.write_text(settings.read_text(encoding="utf-8") + "state_dir: /x\n", encoding="utf-8")
    done = install(tmp_path)
    assert done.returncode == 0, done.stderr
    assert unit.read_text(encoding="utf-8") == theirs
    assert unit.with_name("ds4watch.service.new").exists()
    assert "state_dir: /x" in settings.read_text(encoding="utf-8")
    assert "it differs from the new one" in done.stdout


def test_settings_that_do_not_fit_are_told_and_nothing_is_written(tmp_path: Path) -> None:
    settings = tmp_path / "etc/ds4watch/ds4watch.yml"
    settings.parent.mkdir(parents=True)
    settings.write_text("gateway: {port: 8400}\n", encoding="utf-8")
    done = install(tmp_path)
    assert done.returncode == 2
    assert "fleet.backend: is local" in done.stderr
    assert "gateway.run_by: is daemon" in done.stderr
    assert not (tmp_path / "etc/systemd").exists()


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = install(tmp_path, "--dry-run")
    assert "WatchdogSec=60" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("program", "user", "told"),
    [
        ("/opt/a b/ds4watch", "ds4watch", "program: /opt/a b/ds4watch cannot stand in a unit"),
        ("/opt/ds4watch", "x\nUser=root", "is no user name"),
        ("/opt/ds4watch", "Root", "is no user name"),
    ],
)
def test_what_cannot_stand_in_a_unit_is_refused(program: str, user: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        units_of(InstallPlan(Path(program), Path("/etc/x.yml"), user), {})
