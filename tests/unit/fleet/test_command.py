from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from ds4watch.config.profile import Engine, Profile
from ds4watch.config.shipped import shipped
from ds4watch.fleet.command import Command, maker_command, worker_command

PYTHON = Path("/venv/bin/python")
STATE = Path("/state")
PROFILE = Profile(
    name="llama",
    served_names=("llama", "chat"),
    model="meta/llama",
    max_model_len=4096,
    max_num_seqs=32,
    engine_args=("--dtype", "float16"),
    cpu_args=("--enforce-eager",),
    environment={"A": "1", "B": "1"},
    cpu_environment={"B": "2"},
)


def command_of(profile: Profile, *, has_gpu: bool) -> Command:
    return worker_command(profile, port=8101, python=PYTHON, state_dir=STATE, has_gpu=has_gpu)


def test_with_a_gpu_it_is_vllm_serve_without_what_is_for_cpus() -> None:
    command = command_of(PROFILE, has_gpu=True)
    assert command.argv == (
        "/venv/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", "meta/llama",
        "--host", "127.0.0.1", "--port", "8101", "--served-model-name", "llama", "chat",
        "--max-model-len", "4096", "--max-num-seqs", "32",
        "--enable-prompt-tokens-details", "--disable-uvicorn-access-log",
        "--dtype", "float16",
    )  # fmt: skip
    assert command.env == {"A": "1", "B": "1"}


def test_without_a_gpu_the_cpu_arguments_come_last_and_the_cpu_environment_wins() -> None:
    command = command_of(PROFILE, has_gpu=False)
    assert command.argv[:5] == (
        "/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "meta/llama"
    )  # fmt: skip
    assert command.argv[-3:] == ("--dtype", "float16", "--enforce-eager")
    assert command.env == {"A": "1", "B": "2"}


def test_a_vllm_that_knows_how_lets_its_requests_end_when_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.12" / "site-packages" / "vllm-0.32.0.dist-info").mkdir(
        parents=True
    )
    own = PROFILE.model_copy(update={"vllm_python": str(tmp_path / "bin" / "python")})
    argv = command_of(own, has_gpu=True).argv
    assert argv[argv.index("--shutdown-timeout") + 1] == "10"
    longer = own.model_copy(update={"engine_args": ("--shutdown-timeout=90",)})
    assert command_of(longer, has_gpu=True).argv[-1] == "--shutdown-timeout=90"
    assert "--shutdown-timeout" not in command_of(longer, has_gpu=True).argv
    assert "--shutdown-timeout" not in command_of(PROFILE, has_gpu=True).argv, "nothing is known"


def test_a_model_that_is_made_here_lies_in_the_state_folder() -> None:
    made = PROFILE.model_copy(
        update={"prepare": "tiny-model", "model": "models/m", "prepare_args": ("--bits", "4")}
    )
    assert "/state/models/m" in command_of(made, has_gpu=False).argv
    maker = maker_command(made, script=Path("/make.py"), python=PYTHON, state_dir=STATE)
    assert maker.argv == ("/venv/bin/python", "/make.py", "/state/models/m", "--bits", "4")


def test_a_simulated_worker_runs_in_our_own_interpreter_and_takes_no_vllm_flags() -> None:
    sim = Profile(
        name="sim-x",
        engine=Engine.SIM,
        served_names=("sim-x", "sim"),
        max_num_seqs=8,
        engine_args=("--dev-mode",),
        cpu_args=("--enforce-eager",),
    )
    assert command_of(sim, has_gpu=False).argv == (
        sys.executable, "-m", "ds4watch", "sim", "--host", "127.0.0.1", "--port", "8101",
        "--served-model-name", "sim-x", "sim", "--max-num-seqs", "8", "--dev-mode",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["tiny-full", "tiny-quantized"])
def test_the_shipped_tiny_profiles_are_made_here_and_talk_to_nobody(name: str) -> None:
    text = (shipped("serving/profiles") / f"{name}.yml").read_text(encoding="utf-8")
    profile = Profile(**yaml.safe_load(text))
    assert profile.name == name
    assert profile.served_names == (name, "tiny")
    command = command_of(profile, has_gpu=False)
    assert f"/state/models/{name}" in command.argv
    assert command.env["HF_HUB_OFFLINE"] == "1"
    assert command.env["VLLM_NO_USAGE_STATS"] == "1"
