"""Precisions and formats of weights: what is full, how many bits, what vLLM runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from ds4watch.config.lints.arguments import Arguments
from ds4watch.config.lints.findings import Advice
from ds4watch.config.lints.geometry import ModelFacts
from ds4watch.config.lints.vllm_arguments import VERSION
from ds4watch.config.profile import Profile

_FULL: Final = ("fp32", "fp16", "bf16", "float32", "float16", "bfloat16")
_BITS: Final = re.compile(r"(?:int|fp|float|bf|bfloat|w)(\d{1,2})(?!\d)")
_AWQ: Final = ("awq", "auto_awq", "awq_marlin")
_GPTQ: Final = ("gptq", "auto_gptq", "gptq_marlin")
FORMATS: Final = MappingProxyType({**dict.fromkeys(_AWQ, (4,)), **dict.fromkeys(_GPTQ, (4, 8))})
"""Bits that a format may have (`TYPE_MAP` in vLLM's auto_awq.py and auto_gptq.py)."""
_OTHER_WAY: Final = (
    "save it as compressed-tensors, pack-quantized, which runs 2 to 8 bits on CUDA by the humming "
    "kernels"
)

_NAME_IT: Final = "name the precision of the weights, and a reference"


def is_full(precision: str) -> bool:
    """Return whether weights are kept as they were trained, or in more bits."""
    return precision.lower() in _FULL


def bits_of(precision: str) -> int | None:
    """Return the bits of a weight that a precision's name tells: 4 for gptq-int4."""
    found = _BITS.search(precision.lower())
    return int(found[1]) if found else None


def lint_precision(profile: Profile, arguments: Arguments, facts: ModelFacts) -> Iterator[Advice]:
    """Yield what does not fit between the precision, the arguments and the model's own word."""
    told, kept = bits_of(profile.precision), facts.quantized
    given = arguments.find("--quantization")
    if given is not None and is_full(profile.precision):
        message = f"is {profile.precision}, but {given.written} {given.value} is given"
        yield Advice(("precision",), message, _NAME_IT)
    elif given is not None and told not in FORMATS.get(given.value, (told,)):
        yield _cannot_run(given.path, given.value, told)
    if kept is None:
        return
    if kept.bits not in FORMATS.get(kept.method, (kept.bits,)):
        yield _cannot_run(("model",), kept.method, kept.bits)
    what = f"the model's config.json says {kept.method}"
    if kept.bits is not None:
        what += f", {kept.bits} bits"
    if is_full(profile.precision):
        message = f"is {profile.precision}, but {what}"
        yield Advice(("precision",), message, _NAME_IT)
    elif told is not None and kept.bits is not None and told != kept.bits:
        message = f"is {profile.precision}, but {what}"
        yield Advice(("precision",), message, "name the one that is served")


def _cannot_run(path: tuple[str | int, ...], method: str, bits: int | None) -> Advice:
    able = " or ".join(str(it) for it in FORMATS[method])
    message = f"vLLM {VERSION} runs the format {method} with {able} bits only, not {bits}"
    return Advice(path, message, _OTHER_WAY)
