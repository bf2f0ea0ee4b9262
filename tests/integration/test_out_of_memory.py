"""A KV cache that does not fit, in vLLM's own words, and the step that makes it fit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import aiohttp
import pytest

from ds4watch.config.profile import Profile
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.command import worker_command
from ds4watch.fleet.memory_ladder import Lever, next_step, stepped
from ds4watch.fleet.oom import Death, OomKind, recognise
from tests.conftest import profile_of
from tests.integration.workers import running

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


def starved() -> Profile:
    """Return a profile whose cache holds less than one request of full length."""
    tiny = profile_of("tiny-full")
    roomy = {"VLLM_CPU_KVCACHE_SPACE"}
    return tiny.model_copy(
        update={
            "min_model_len": 64,
            "cpu_args": ("--enforce-eager", "--kv-cache-memory-bytes", "1000000"),
            "cpu_environment": {k: v for k, v in tiny.cpu_environment.items() if k not in roomy},
        }
    )


def last_words(profile: Profile, python: Path, state_dir: Path) -> tuple[int, str]:
    command = worker_command(profile, port=1, python=python, state_dir=state_dir, has_gpu=False)
    ended = subprocess.run(
        command.argv,
        env=os.environ | dict(command.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    return ended.returncode, ended.stdout[-(64 << 10) :]


async def test_vllm_says_what_fits_and_comes_up_with_it(
    vllm_python: Path, tiny_models: Path, session: aiohttp.ClientSession
) -> None:
    profile = starved()
    code, tail = last_words(profile, vllm_python, tiny_models)
    oom = recognise(Death(exit_code=code, log_tail=tail, had_served=False))
    assert oom is not None, tail
    assert oom.kind is OomKind.KV_START
    assert oom.fits_model_len is not None
    step = next_step(profile, oom, ())
    assert step is not None
    assert step.lever is Lever.CONTEXT
    assert 64 <= step.value <= oom.fits_model_len
    lowered = stepped(profile, step)
    with running([lowered], python=vllm_python, state_dir=tiny_models) as workers:
        canary = await WorkerClient(session, workers["tiny-full"].url).canary("tiny")
    assert canary.completion_tokens == 4
