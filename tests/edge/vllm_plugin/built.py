"""The plugin's wheel, built and unpacked into a folder, as `pip install --target` does."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import ROOT

SOURCE = ROOT / "serving/vllm-plugin"


def build_plugin(folder: Path) -> Path:
    """Build the wheel into a folder and return it."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_plugin(folder: Path) -> Path:
    """Return a folder for $PYTHONPATH in which the plugin is installed."""
    wheel = build_plugin(folder)
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target
