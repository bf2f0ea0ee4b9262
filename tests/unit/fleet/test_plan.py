"""Which workers are wanted, and which cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ds4watch.config.external import ExtraWorker
from ds4watch.config.profile import Profile
from ds4watch.config.settings import FleetSettings, WorkerSettings
from ds4watch.fleet.plan import check_specs, find_vllm, wanted_specs
from ds4watch.fleet.recipe import WorkerSpec, worker_environment
from ds4watch.model.errors import ConfigError

PROFILE = Profile(name="p", served_names=("p", "m"), model="org/model")


def test_workers_are_named_after_their_profile_and_number() -> None:
    fleet = FleetSettings(external=(ExtraWorker(name="theirs", url="http://127.0.0.1:9/"),))
    specs = wanted_specs([WorkerSettings(profile="p", count=2)], {"p": PROFILE}, fleet, Path())
    assert [spec.id for spec in specs] == ["p-0", "p-1", "theirs"]
    assert specs[2].url == "http://127.0.0.1:9/"
    assert specs[2].profile.served_names == ("theirs",)


def test_the_interpreter_is_the_setting_then_the_environment_then_nearby(tmp_path: Path) -> None:
    named = FleetSettings(vllm_python="env/bin/python")
    assert find_vllm(named, tmp_path, {}) == tmp_path / "env/bin/python"
    given = {"DS4WATCH_VLLM_PYTHON": "/elsewhere/python"}
    assert find_vllm(FleetSettings(), tmp_path, given) == Path("/elsewhere/python")
    python = tmp_path / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert find_vllm(FleetSettings(), tmp_path, {}) == python


@pytest.mark.parametrize(
    ("model", "python", "said"),
    [
        ("org/model", "/nowhere/python", "there is no vLLM interpreter at /nowhere/python"),
        ("/nowhere/model", sys.executable, "the model folder /nowhere/model does not exist"),
    ],
)
def test_what_cannot_start_is_refused_with_a_way_to_mend_it(
    model: str, python: str, said: str
) -> None:
    spec = WorkerSpec("p-0", PROFILE.model_copy(update={"model": model}))
    with pytest.raises(ConfigError) as caught:
        check_specs([spec], Path(python), "ds4watch.yml")
    (finding,) = caught.value.findings
    assert said in finding.message
    assert finding.mend


def test_somebody_elses_worker_needs_no_interpreter() -> None:
    check_specs([WorkerSpec("w", PROFILE, url="http://127.0.0.1:9")], Path("/nowhere"), None)


def test_our_secrets_stay_ours() -> None:
    environ = {"SLACK_TOKEN": "x", "MY_PASSWORD": "x", "HF_TOKEN": "h", "PATH": "/bin"}
    environ |= {"VLLM_SERVER_DEV_MODE": "1", "PROMETHEUS_MULTIPROC_DIR": "/shared"}
    assert worker_environment(environ, {"A": "1"}) == {"HF_TOKEN": "h", "PATH": "/bin", "A": "1"}
