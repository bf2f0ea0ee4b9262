"""One daemon a state folder, and folders that will not do."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ds4watch.fleet.lock import daemon_lock, make_state_dir, running_daemon
from ds4watch.model.errors import ConfigError


def test_a_second_daemon_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    with daemon_lock(tmp_path):
        assert running_daemon(tmp_path) == os.getpid()
        with pytest.raises(ConfigError) as caught, daemon_lock(tmp_path):
            pass
        assert f"process {os.getpid()}" in str(caught.value)
        assert "ds4watch down" in str(caught.value)
    assert running_daemon(tmp_path) is None
    with daemon_lock(tmp_path):
        pass


def test_an_empty_folder_has_no_daemon(tmp_path: Path) -> None:
    assert running_daemon(tmp_path) is None


def test_the_state_folder_is_for_us_alone(tmp_path: Path) -> None:
    make_state_dir(tmp_path / "deep" / "state")
    mode = (tmp_path / "deep" / "state").stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


@pytest.mark.parametrize("name", ["file/state", "x" * 120])
def test_a_folder_that_will_not_do_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        make_state_dir(tmp_path / name)
    (finding,) = caught.value.findings
    assert finding.field == "state_dir"
    assert finding.mend
    assert "\n" not in str(caught.value)
