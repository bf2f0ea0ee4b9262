"""Whether weights, one request and the whole batch fit on a GPU; each with its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ds4watch.config.document import Path
from ds4watch.config.lints.arguments import Arguments
from ds4watch.config.lints.findings import GIB, MIB, Advice, gib, warn
from ds4watch.config.lints.geometry import ModelFacts, Shape, kv_bytes_per_token
from ds4watch.config.lints.gpus import (
    GpuFacts,
    default_max_num_seqs,
    gpu_memory_bytes,
    is_for_gpus,
)
from ds4watch.config.lints.precision import bits_of
from ds4watch.config.profile import Profile

BATCH_SHARE: Final = 0.7
"""Of the KV cache, at most, in a usual full batch: the rest is for longer requests and prefixes."""
BLOCK_TOKENS: Final = 16
"""The cache is given out in blocks of so many tokens."""
MOST_UTILIZATION: Final = 0.95
DEFAULT_UTILIZATION: Final = 0.92
UTILIZATION: Final = "--device-memory-utilization"
"""vLLM's own name of --gpu-memory-utilization since 0.32."""
_HUMAN: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_ELEMENT_BYTES: Final = MappingProxyType(
    {
        **dict.fromkeys(("float32", "float"), 4.0),
        **dict.fromkeys(("float16", "half", "bfloat16", "fp16", "bf16"), 2.0),
        **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"), 1.0),
    }
)
_HOW: Final = "give geometry (layers, kv_heads, head_dim, and weights_mib or parameters)"


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of one GPU, and what of it is left for the KV cache."""

    total_bytes: int
    utilization: float
    weights_bytes: float
    reserve_bytes: float
    kv_bytes: float
    is_given: bool = False

    def __str__(self) -> str:
        """Say how the room comes about."""
        if self.is_given:
            return f"--kv-cache-memory-bytes gives {gib(self.kv_bytes)} for KV"
        return (
            f"{gib(self.total_bytes)} x {self.utilization:g} - {gib(self.weights_bytes)} weights "
            f"- {gib(self.reserve_bytes)} reserve = {gib(self.kv_bytes)} for KV"
        )


def lint_memory(
    profile: Profile, arguments: Arguments, facts: ModelFacts, gpus: GpuFacts
) -> Iterator[Advice]:
    """Yield what does not fit on the GPUs that the profile is for; without GPUs nothing."""
    yield from _utilization_faults(arguments)
    if not is_for_gpus(profile, gpus):
        return
    total = gpu_memory_bytes(profile, gpus)
    if total is None:
        message = "the batch cannot be checked: the memory of its GPU is not known"
        yield warn(_gpu_path(profile), message, "give gpu_memory_mib")
        return
    shape, weights = _shape(profile, facts), weights_bytes(profile, facts)
    element = _element_bytes(arguments, shape)
    if shape is None or weights is None or element is None:
        yield from _unknown(profile, facts, arguments, is_dtype=shape is not None and not element)
        return
    room = _room(profile, arguments, total, weights)
    per_token = kv_bytes_per_token(
        shape,
        element_bytes=element,
        tensor=arguments.count("--tensor-parallel-size"),
        pipeline=arguments.count("--pipeline-parallel-size"),
    )
    yield from _fit_faults(profile, room, per_token)


def utilization_of(arguments: Arguments) -> float:
    """Return the share of a GPU's memory that a worker takes; vLLM's default if it is no share."""
    return _share(arguments.value(UTILIZATION)) or DEFAULT_UTILIZATION


def _utilization_faults(arguments: Arguments) -> Iterator[Advice]:
    given = arguments.find(UTILIZATION)
    if given is None:
        return
    share = _share(given.value)
    if share is None:
        message = f"{given.written} must be over 0 and at most 1, got {given.value or 'nothing'}"
        yield Advice(given.path, message, "such as 0.9")
    elif share > MOST_UTILIZATION:
        message = (
            f"{given.written} {share:g} leaves {1 - share:.0%} of the GPU for its driver, CUDA "
            "graphs and peaks: out of memory under load"
        )
        yield warn(given.path, message, f"at most {MOST_UTILIZATION}; vLLM's own is 0.92")


def _fit_faults(profile: Profile, room: Room, per_token: float) -> Iterator[Advice]:
    if room.kv_bytes <= 0:
        message = f"the weights do not fit: {room}"
        yield Advice(("model",), message, "more or larger GPUs, or fewer bits")
        return
    longest = int(room.kv_bytes // (per_token * BLOCK_TOKENS)) * BLOCK_TOKENS
    if profile.max_model_len is not None and profile.max_model_len > longest:
        message = (
            f"one request of {profile.max_model_len} tokens takes "
            f"{gib(profile.max_model_len * per_token)}: {room}; vLLM does not start"
        )
        yield Advice(("max_model_len",), message, f"at most {longest}")
        return
    yield from _batch_faults(profile, room, per_token)


def _batch_faults(profile: Profile, room: Room, per_token: float) -> Iterator[Advice]:
    tokens = profile.expected_tokens or profile.max_model_len
    if tokens is None:
        return
    seqs = profile.max_num_seqs or default_max_num_seqs(room.total_bytes, profile.gpu_kind or "")
    taken = seqs * tokens * per_token
    share = taken / room.kv_bytes
    if share <= BATCH_SHARE:
        return
    most = int(BATCH_SHARE * room.kv_bytes // (tokens * per_token))
    message = (
        f"{seqs} sequences{'' if profile.max_num_seqs else ' (vLLM takes so many by itself)'} of "
        f"{tokens} tokens x {per_token / 1024:g} KiB take {gib(taken)}, {share:.0%} of the room, "
        f"over {BATCH_SHARE:.0%}: {room}; sequences will be preempted and computed again"
    )
    mend = f"max_num_seqs at most {most}" if most else "a larger GPU, or fewer bits"
    if profile.expected_tokens:
        yield Advice(_first(profile, "max_num_seqs", "model"), message, mend)
        return
    mend = f"give expected_tokens (max_model_len was taken); else {mend}"
    yield warn(_first(profile, "max_num_seqs", "model"), message, mend)


def _room(profile: Profile, arguments: Arguments, total: int, weights: float) -> Room:
    utilization = utilization_of(arguments)
    split = arguments.count("--tensor-parallel-size") * arguments.count("--pipeline-parallel-size")
    away = float(arguments.value("--cpu-offload-gb") or 0) * GIB if _offloads(arguments) else 0.0
    own, reserve = max(0.0, weights / split - away), profile.reserve_mib * MIB
    fixed = human_bytes(arguments.value("--kv-cache-memory-bytes"))
    kv = total * utilization - own - reserve if fixed is None else float(fixed)
    return Room(total, utilization, own, reserve, kv, is_given=fixed is not None)


def _offloads(arguments: Arguments) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", arguments.value("--cpu-offload-gb")) is not None


def human_bytes(text: str) -> int | None:
    """Read a number as vLLM does: `20G` is 20 x 2^30, `20g` is 20 x 10^9."""
    found = _HUMAN.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2]
    base = 1024 if unit.isupper() else 1000
    power = "kmgt".index(unit.lower()) + 1 if unit else 0
    return int(float(found[1]) * base**power)


def _shape(profile: Profile, facts: ModelFacts) -> Shape | None:
    """Return the model's shape, what the profile says before what its folder does."""
    said, read = profile.geometry, facts.shape
    layers = said.layers or (read.layers if read else None)
    heads = said.kv_heads or (read.kv_heads if read else None)
    width = said.head_dim or (read.head_dim if read else None)
    if layers is None or heads is None or width is None:
        return None
    is_said = None not in (said.layers, said.kv_heads, said.head_dim)
    latent = 0 if is_said or read is None else read.latent_dim
    return Shape(layers, heads, width, latent, read.dtype if read else "")


def weights_bytes(profile: Profile, facts: ModelFacts) -> float | None:
    """Return the size of a model's weights, what the profile says first; None if not known."""
    said = profile.geometry
    if said.weights_mib is not None:
        return said.weights_mib * MIB
    bits = bits_of(profile.precision)
    if said.parameters is not None and bits is not None:
        return said.parameters * bits / 8
    return facts.weights_bytes


def _element_bytes(arguments: Arguments, shape: Shape | None) -> float | None:
    """Return the bytes of a number in the cache; None where vLLM adds scales of its own."""
    kept = arguments.value("--kv-cache-dtype")
    if kept and kept != "auto":
        return _ELEMENT_BYTES.get(kept)
    dtype = arguments.value("--dtype")
    if dtype and dtype != "auto":
        return _ELEMENT_BYTES.get(dtype)
    # `auto` serves a float32 model in 16 bits
    return (
        2.0 if shape is None or shape.dtype in ("", "float32") else _ELEMENT_BYTES.get(shape.dtype)
    )


def _unknown(
    profile: Profile, facts: ModelFacts, arguments: Arguments, *, is_dtype: bool
) -> Iterator[Advice]:
    if is_dtype:
        kept = arguments.value("--kv-cache-dtype") or arguments.value("--dtype")
        message = f"the batch cannot be checked: the size of {kept or 'its numbers'} is not known"
        yield warn(("engine_args",), message, "watch vLLM's log for `Maximum concurrency`")
    elif profile.prepare is None:
        why = facts.why_not or "neither its config.json nor its weights can be read"
        message = f"the batch cannot be checked: {profile.model}: {why}"
        yield warn(("model",), message, _HOW)


def _share(text: str) -> float | None:
    if re.fullmatch(r"\d*\.?\d+", text) is None:
        return None
    value = float(text)
    return value if 0 < value <= 1 else None


def _first(profile: Profile, *names: str) -> Path:
    return (next(name for name in names if getattr(profile, name) is not None),)


def _gpu_path(profile: Profile) -> Path:
    names = ("gpu_kind", "gpus")
    return (next((name for name in names if getattr(profile, name) is not None), "name"),)
