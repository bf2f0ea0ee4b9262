"""The stored names of vLLM's arguments are those of the vLLM that is installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ds4watch.config.lints.geometry import Shape
from ds4watch.config.lints.vllm_arguments import ENTRIES, VERSION
from ds4watch.engine.model_facts import look_at
from tests.conftest import profile_of

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]
DUMP = Path(__file__).with_name("dump_vllm_arguments.py")


def test_the_stored_names_are_those_of_vllm(vllm_python: Path) -> None:
    ended = subprocess.run(
        [vllm_python, DUMP], capture_output=True, text=True, check=True, timeout=240
    )
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["version"] == VERSION, f"store the names anew: {DUMP.name}"
    assert set(told["entries"]) == set(ENTRIES)


def test_a_model_that_was_made_is_read(tiny_models: Path) -> None:
    facts = look_at(profile_of("tiny-full"), tiny_models, {})
    assert facts.shape == Shape(layers=2, kv_heads=2, head_dim=64, dtype="float32")
    assert facts.weights_bytes is not None
    assert facts.weights_bytes > 1 << 20
