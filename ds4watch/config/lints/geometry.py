"""A model's numbers, from its config.json, and what a token of it takes in the KV cache.

The formula is that of vLLM's full-attention cache (`AttentionSpec.page_size_bytes`): keys and
values, of each layer, of each KV head. Two published numbers hold it: Llama-3-8B has 32 layers,
8 KV heads of 128, so 128 KiB a token in 16 bits; Qwen2.5-7B has 28, 4 and 128, so 56 KiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_KV_HEADS: Final = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
"""Names that model families give it, in the order in which vLLM looks for them."""
_LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers")
_HEADS: Final = ("num_attention_heads", "n_head")
_HYBRIDS: Final = ("layers_block_type", "hybrid_override_pattern", "ssm_cfg", "state_size")
_NO_CACHE: Final = ("linear_attention", "mamba", "recurrent")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the size of a KV cache follows from.

    latent_dim: width of the one latent vector a layer keeps instead of keys and values (MLA).
    """

    layers: int
    kv_heads: int
    head_dim: int
    latent_dim: int = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Quantized:
    """What a model's config.json says of its weights."""

    method: str
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What could be read of a model. `why_not` says why its shape is not known."""

    shape: Shape | None = None
    weights_bytes: int | None = None
    quantized: Quantized | None = None
    why_not: str = ""


def kv_bytes_per_token(
    shape: Shape, *, element_bytes: float, tensor: int = 1, pipeline: int = 1
) -> float:
    """Return what one token takes on the fullest GPU of a worker.

    KV heads are divided among the GPUs of a tensor-parallel group, and copied where there are
    fewer heads than GPUs; a latent vector is on each of them.
    """
    layers = -(-shape.layers // pipeline)
    if shape.latent_dim:
        return layers * shape.latent_dim * element_bytes
    heads = max(1, -(-shape.kv_heads // tensor))
    return 2 * layers * heads * shape.head_dim * element_bytes


def shape_of(config: Mapping[str, Any]) -> Shape | str:
    """Return the shape in a config.json, or why there is none to be had."""
    text = config.get("text_config")
    own = text if isinstance(text, Mapping) else config
    if any(name in own for name in _HYBRIDS):
        return "it is a hybrid, whose state is not keys and values alone"
    layers, heads = _number(own, *_LAYERS), _number(own, *_HEADS)
    hidden = _number(own, "hidden_size", "n_embd", "d_model")
    head_dim = _number(own, "head_dim") or (hidden // heads if hidden and heads else None)
    if layers is None or heads is None or head_dim is None:
        return "its config.json names no layers, heads or width"
    latent = _number(own, "kv_lora_rank")
    dtype = own.get("dtype") or own.get("torch_dtype") or config.get("torch_dtype")
    return Shape(
        layers=_with_cache(own, layers),
        kv_heads=_number(own, *_KV_HEADS) or heads,
        head_dim=head_dim,
        latent_dim=latent + (_number(own, "qk_rope_head_dim") or 0) if latent else 0,
        dtype=dtype if isinstance(dtype, str) else "",
    )


def quantized_of(config: Mapping[str, Any]) -> Quantized | None:
    """Return how a config.json says that the weights are kept; None in full precision."""
    found = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(found, Mapping):
        return None
    method = found.get("quant_method")
    bits = _number(found, "bits", "w_bit") or _group_bits(found)
    return Quantized(method if isinstance(method, str) else "unknown", bits)


def _group_bits(found: Mapping[str, Any]) -> int | None:
    """Return the fewest bits of the groups that compressed-tensors names."""
    groups = found.get("config_groups")
    if not isinstance(groups, Mapping):
        return None
    weights = (it.get("weights") for it in groups.values() if isinstance(it, Mapping))
    bits = [_number(it, "num_bits") for it in weights if isinstance(it, Mapping)]
    return min((it for it in bits if it is not None), default=None)


def _with_cache(own: Mapping[str, Any], layers: int) -> int:
    """Leave out layers that keep no keys and values; a sliding window counts in full."""
    kinds = own.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != layers:
        return layers
    return sum(kind not in _NO_CACHE for kind in kinds)


def _number(own: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = own.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
