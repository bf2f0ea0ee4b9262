"""What tests of all kinds share: free ports, state folders, and programs that may be missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
import yaml

from ds4watch.config.profile import Profile
from ds4watch.config.shipped import shipped
from ds4watch.fleet.command import maker_command, model_path
from tests.postgres import find_postgres

ROOT = Path(__file__).resolve().parent.parent
REQUIRE_ALL = os.environ.get("DS4WATCH_REQUIRE_ALL") == "1"
TINY_PROFILES = ("tiny-full", "tiny-quantized")

# the wall clock of a machine that also runs vLLM says nothing about an example
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("long", deadline=None, max_examples=3000)
hypothesis.settings.load_profile("default")


def is_missing(what: str) -> NoReturn:
    """Skip the test, or fail it where everything is required (DS4WATCH_REQUIRE_ALL=1)."""
    if REQUIRE_ALL:
        pytest.fail(f"{what}, and DS4WATCH_REQUIRE_ALL=1 asks for everything", pytrace=False)
    pytest.skip(what)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """See to what a test says it needs."""
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if shutil.which(name) is None and find_postgres(name) is None:
                is_missing(f"the program {name} is not installed")


def profile_of(name: str) -> Profile:
    """Return a shipped profile."""
    text = (shipped("serving/profiles") / f"{name}.yml").read_text(encoding="utf-8")
    return Profile(**yaml.safe_load(text))


@pytest.fixture
def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """Yield an empty state folder with a name short enough for a Unix socket within."""
    with tempfile.TemporaryDirectory(prefix="ds4watch-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def program() -> Callable[[str], Path]:
    """Return a function from a program's name to its path; the test ends if it is missing."""

    def find(name: str) -> Path:
        path = shutil.which(name)
        return Path(path) if path else is_missing(f"the program {name} is not installed")

    return find


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """Return the interpreter that has vLLM."""
    path = Path(os.environ.get("DS4WATCH_VLLM_PYTHON") or ROOT / ".venv-vllm/bin/python")
    return path if path.exists() else is_missing(f"no vLLM: {path} is not there (make vllm)")


@pytest.fixture(scope="session")
def tiny_models(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state folder that holds the models of the tiny profiles, made side by side."""
    folder = tmp_path_factory.mktemp("tiny")
    makers = {name: start_maker(profile_of(name), vllm_python, folder) for name in TINY_PROFILES}
    for name, maker in makers.items():
        output, _ = maker.communicate(timeout=120)
        assert maker.returncode == 0, output
        assert (Path(model_path(profile_of(name), folder)) / "config.json").exists(), output
    return folder


def start_maker(profile: Profile, python: Path, state_dir: Path) -> subprocess.Popen[str]:
    """Start the maker of a profile's model."""
    script = shipped("serving/tiny-model/make_tiny_model.py")
    command = maker_command(profile, script=script, python=python, state_dir=state_dir)
    return subprocess.Popen(
        command.argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
