"""KV bytes a token against models that were reckoned by hand, and config.json of any kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.lints.geometry import (
    Quantized,
    Shape,
    kv_bytes_per_token,
    quantized_of,
    shape_of,
)

KIB = 1024
# layers, attention heads, KV heads, hidden width: from the config.json that each model's page on
# the hub has (meta-llama/Meta-Llama-3-8B and -70B, Qwen/Qwen2.5-7B and -32B, mistralai/Mistral-7B,
# meta-llama/Llama-2-7b); 2 x layers x KV heads x width of a head x 2 bytes, by hand
MODELS = [
    ("Llama-3-8B", 32, 32, 8, 4096, 128),
    ("Llama-3-70B", 80, 64, 8, 8192, 320),
    ("Qwen2.5-7B", 28, 28, 4, 3584, 56),
    ("Qwen2.5-32B", 64, 40, 8, 5120, 256),
    ("Mistral-7B", 32, 32, 8, 4096, 128),
    ("Llama-2-7B", 32, 32, 32, 4096, 512),
]


def config(layers: int, heads: int, kv_heads: int, hidden: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": hidden,
        "torch_dtype": "bfloat16",
    }


@pytest.mark.parametrize(("name", "layers", "heads", "kv_heads", "hidden", "kib"), MODELS)
def test_known_models_take_what_is_known(
    name: str, layers: int, heads: int, kv_heads: int, hidden: int, kib: int
) -> None:
    shape = shape_of(config(layers, heads, kv_heads, hidden))
    assert isinstance(shape, Shape), name
    assert kv_bytes_per_token(shape, element_bytes=2) == kib * KIB
    assert kv_bytes_per_token(shape, element_bytes=1) == kib * KIB / 2
    assert kv_bytes_per_token(shape, element_bytes=2, tensor=4) == kib * KIB / 4


def test_a_latent_vector_is_kept_whole_by_each_gpu() -> None:
    deepseek = config(61, 128, 128, 7168) | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
    shape = shape_of(deepseek)
    assert isinstance(shape, Shape)
    assert kv_bytes_per_token(shape, element_bytes=2) == 61 * 576 * 2  # 68.6 KiB
    assert kv_bytes_per_token(shape, element_bytes=2, tensor=8) == 61 * 576 * 2


def test_models_within_models_and_layers_without_a_cache() -> None:
    inner = config(4, 8, 2, 512) | {
        "layer_types": ["linear_attention", "full_attention", "sliding_attention", "mamba"]
    }
    shape = shape_of({"text_config": inner, "torch_dtype": "float16"})
    assert isinstance(shape, Shape)
    assert (shape.layers, shape.head_dim) == (2, 64)
    assert isinstance(shape_of({"layers_block_type": []}), str)
    assert isinstance(shape_of({}), str)


@pytest.mark.parametrize(
    ("found", "quantized"),
    [
        ({}, None),
        ({"quant_method": "gptq", "bits": 4}, Quantized("gptq", 4)),
        ({"quant_method": "awq", "w_bit": 3}, Quantized("awq", 3)),
        ({"quant_method": "fp8"}, Quantized("fp8")),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 3}}},
            },
            Quantized("compressed-tensors", 3),
        ),
    ],
)
def test_how_weights_are_kept_is_read(found: dict[str, Any], quantized: Quantized | None) -> None:
    assert quantized_of({"quantization_config": found} if found else {}) == quantized


SIZES = st.integers(1, 128)


@given(
    layers=SIZES, heads=SIZES, width=SIZES, tensor=st.integers(1, 16), pipeline=st.integers(1, 8)
)
def test_gpus_together_never_hold_less_than_one_would(
    layers: int, heads: int, width: int, tensor: int, pipeline: int
) -> None:
    shape = Shape(layers, heads, width)
    one = kv_bytes_per_token(shape, element_bytes=2)
    split = kv_bytes_per_token(shape, element_bytes=2, tensor=tensor, pipeline=pipeline)
    assert one == 4 * layers * heads * width
    assert one / (tensor * pipeline) <= split <= one


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [*config(1, 1, 1, 1), "text_config", "layer_types", "kv_lora_rank", "quantization_config"]
)


@given(st.dictionaries(KEYS, JSON))
def test_no_config_is_so_odd_that_reading_it_fails(odd: dict[str, Any]) -> None:
    assert isinstance(shape_of(odd), Shape | str)
    quantized_of(odd)
