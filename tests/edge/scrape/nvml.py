"""A libnvidia-ml.so.1 built for a test, whose GPUs are told by $FAKE_NVML."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.conftest import is_missing

SOURCE = Path(__file__).with_name("fake_nvml.c")


def fake_nvml(folder: Path) -> Path:
    """Build the library in a folder, for $LD_LIBRARY_PATH, and return the folder."""
    if not shutil.which("gcc"):
        is_missing("the program gcc, which builds a stand-in for libnvidia-ml.so.1, is missing")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(target), str(SOURCE)], check=True)
    return folder
