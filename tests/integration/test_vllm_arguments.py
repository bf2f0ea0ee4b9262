"""The stored names of vLLM's arguments are those of the vLLM that is installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ds4watch.config.lints.geometry import Shape
from ds4watch.config.lints.precision import FORMATS
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


BITS = """
import json
from vllm.model_executor.layers.quantization.auto_awq import AutoAWQConfig
from vllm.model_executor.layers.quantization.auto_gptq import AutoGPTQConfig
from vllm.model_executor.layers.quantization.compressed_tensors.schemes import (
    compressed_tensors_wNa16 as packed,
)
print(json.dumps({
    "awq": sorted(AutoAWQConfig.TYPE_MAP),
    "gptq": sorted(bits for bits, _ in AutoGPTQConfig.TYPE_MAP),
    "compressed-tensors": packed.WNA16_SUPPORTED_BITS,
}))
"""


def test_each_format_has_the_bits_that_we_say_it_has(vllm_python: Path) -> None:
    ended = subprocess.run(
        [vllm_python, "-c", BITS], capture_output=True, text=True, check=True, timeout=240
    )
    told = json.loads(ended.stdout.splitlines()[-1])
    assert tuple(told["awq"]) == FORMATS["awq"]
    assert tuple(told["gptq"]) == FORMATS["gptq"]
    assert 3 in told["compressed-tensors"]


def test_a_model_that_was_made_is_read(tiny_models: Path) -> None:
    facts = look_at(profile_of("tiny-full"), tiny_models, {})
    assert facts.shape == Shape(layers=2, kv_heads=2, head_dim=64, dtype="float32")
    assert facts.weights_bytes is not None
    assert facts.weights_bytes > 1 << 20
