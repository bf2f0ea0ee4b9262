"""GPUs: what is here, and how much memory a kind has that is elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ds4watch.config.lints.findings import GIB, MIB
from ds4watch.config.profile import Profile

KNOWN_MIB: Final = MappingProxyType(
    {
        "t4": 15360,
        "v100 16gb": 16384,
        "v100 32gb": 32768,
        "l4": 23034,
        "a10": 23028,
        "a10g": 23028,
        "a30": 24576,
        "rtx 3090": 24576,
        "rtx 4090": 24564,
        "rtx 5090": 32607,
        "a100 40gb": 40960,
        "a100 80gb": 81920,
        "a40": 46068,
        "l40": 46068,
        "l40s": 46068,
        "rtx a6000": 49140,
        "h100": 81559,
        "h100 nvl": 95830,
        "gh200": 97871,
        "h200": 143771,
        "b200": 183359,
    }
)
"""What nvidia-smi shows as the total of each kind."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The GPUs of this host; `memory_bytes` is that of the smallest, None if it is not told."""

    count: int = 0
    name: str = ""
    memory_bytes: int | None = None


def gpu_memory_bytes(profile: Profile, here: GpuFacts) -> int | None:
    """Return the memory of one of the GPUs that a profile is for.

    What the profile says goes before what is here, and that before what is known of the kind.
    """
    if profile.gpu_memory_mib is not None:
        return int(profile.gpu_memory_mib * MIB)
    if profile.gpu_kind is None:
        return here.memory_bytes
    kind = _words(profile.gpu_kind)
    if here.count and here.memory_bytes and set(kind) <= set(_words(here.name)):
        return here.memory_bytes
    known = KNOWN_MIB.get(" ".join(kind))
    return known * MIB if known else None


def is_for_gpus(profile: Profile, here: GpuFacts) -> bool:
    """Return whether a worker of the profile will run on a GPU, as far as can be told."""
    said = (profile.gpus, profile.gpu_kind, profile.gpu_memory_mib)
    return here.count > 0 or any(it is not None for it in said)


def default_max_num_seqs(gpu_bytes: int, kind: str) -> int:
    """Return what vLLM 0.32 takes by itself (`EngineArgs.get_batch_defaults`)."""
    is_large = gpu_bytes >= 70 * GIB and "a100" not in kind.lower()
    return 1024 if is_large or gpu_bytes >= 160 * GIB else 256


def _words(kind: str) -> list[str]:
    said = re.findall(r"[a-z0-9]+", kind.lower())
    return [word for word in said if word not in ("nvidia", "geforce", "tesla")]
