"""Whether a worker died for want of memory, and of which. Pure.

Each pattern is a message of vLLM 0.32, or of what it runs on, with the place where it is made:

| Kind | Message | Made in |
| --- | --- | --- |
| kv_start | No available memory for the cache blocks | v1/core/kv_cache_utils.py |
| kv_start | … KV cache is needed, which is larger than the available KV cache memory | the same |
| kv_start | max seq len (…) is larger than the maximum number of tokens that can be stored in KV \
cache | the same, until 0.8 |
| kv_start | Available memory on node … on kv cache allocation is less than requested memory for \
kv | v1/worker/cpu_worker.py |
| gpu_taken | Free memory on device … is less than desired GPU memory utilization | \
v1/worker/utils.py |
| gpu_start | Failed to load model - not enough GPU memory | v1/worker/gpu_model_runner.py |
| gpu_start, gpu_run | CUDA out of memory; HIP out of memory | PyTorch's CUDACachingAllocator |
| gpu_start, gpu_run | CUDA error: out of memory | PyTorch's CUDAException |
| gpu_start, gpu_run | CUBLAS_STATUS_ALLOC_FAILED, NCCL's Cuda failure 2 'out of memory' | cuBLAS, \
NCCL |
| host | MemoryError | Python |
| host | DefaultCPUAllocator: can't allocate memory; not enough memory: you tried to allocate | \
PyTorch's alloc_cpu.cpp |
| host | std::bad_alloc; Cannot allocate memory | C++ library, C library (ENOMEM) |

Some errors of CUDA have memory as one cause among several: they count only where the devices were
last seen nearly full. The kernel's killer writes no line: SIGKILL that was not ours counts where
the kernel's own count of its kills has risen.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum

NEARLY_FULL_RATIO = 0.97
"""vLLM takes 92 % of a device by default; what is left is for its activations."""
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""As a parent sees it, and as a shell in between tells it."""
_SHOWN_CHARACTERS = 300


class OomKind(StrEnum):
    """Of what there was too little, and when."""

    GPU_START = "gpu_start"
    GPU_TAKEN = "gpu_taken"
    """Others hold what it was to have."""
    KV_START = "kv_start"
    """Weights fit, and what is left is too little for one request."""
    GPU_RUN = "gpu_run"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Oom:
    """A death for want of memory. `line` is what says so.

    fits_model_len, fits_utilization: what would have fitted, where the message says that.
    """

    kind: OomKind
    line: str
    fits_model_len: int | None = None
    fits_utilization: float | None = None


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of a death that nobody asked for; None is not known.

    had_served: it was ready before. kernel_kills: rise of the kernel's count of its kills for want
    of memory since it was last looked at. device_used_ratio: how full the fullest device was.
    """

    exit_code: int | None
    log_tail: str
    had_served: bool
    kernel_kills: int | None = None
    device_used_ratio: float | None = None


_ANY_TIME = (
    (
        OomKind.KV_START,
        re.compile(
            r"No available memory for the cache blocks"
            r"|larger than the available KV cache\s+memory"
            r"|larger than the maximum number of tokens that can be stored in KV cache"
            r"|on kv cache\s+allocation is less than requested memory for kv"
        ),
    ),
    (OomKind.GPU_TAKEN, re.compile(r"is less than desired GPU memory utilization")),
    (OomKind.GPU_START, re.compile(r"Failed to load model - not enough GPU memory")),
)
_DEVICE = re.compile(
    r"(?:CUDA|HIP) out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUBLAS_STATUS_ALLOC_FAILED|Cuda failure (?:2 )?'out of memory'"
    r"|OutOfMemoryError: (?!.*\bCPU\b)"
)
_PERHAPS_DEVICE = re.compile(
    r"CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR)"
    r"|CUDA error: an illegal memory access|unhandled cuda error"
)
_HOST = re.compile(
    r"^(?:\S+ )*MemoryError\b|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
    r"|std::bad_alloc|\[Errno 12\] Cannot allocate memory",
    re.MULTILINE,
)
_ENGINE_DIED = re.compile(r"EngineDeadError|died unexpectedly|Failed core proc")
_MODEL_LEN = re.compile(r"estimated maximum model length is (\d+)")
_FREE_OF_TOTAL = re.compile(r"Free memory on device \S+ \(([\d.]+)/([\d.]+) GiB\)")


def recognise(death: Death) -> Oom | None:
    """Return of what memory a worker had too little when it died; None if it was not that."""
    tail = death.log_tail
    for kind, pattern in _ANY_TIME:
        if not death.had_served and (found := pattern.search(tail)):
            line = _line_of(tail, found)
            return Oom(kind, line, _fitting_length(tail), _fitting_utilization(tail))
    if found := _DEVICE.search(tail):
        return _on_device(death, _line_of(tail, found))
    if found := _HOST.search(tail):
        return Oom(OomKind.HOST, _line_of(tail, found))
    if _is_kernels_kill(death):
        return Oom(OomKind.HOST, "the kernel killed it for want of memory")
    full = death.device_used_ratio
    if full is not None and full >= NEARLY_FULL_RATIO and (found := _PERHAPS_DEVICE.search(tail)):
        return _on_device(death, f"with {full:.0%} of a GPU used: {_line_of(tail, found)}")
    return None


def _on_device(death: Death, line: str) -> Oom:
    return Oom(OomKind.GPU_RUN if death.had_served else OomKind.GPU_START, line)


def _is_kernels_kill(death: Death) -> bool:
    """Return whether the kernel killed it, or a part of it.

    The exit of a process that an earlier daemon started is not known.
    """
    if not death.kernel_kills:
        return False
    how = death.exit_code
    return how is None or how in _KILLED or bool(_ENGINE_DIED.search(death.log_tail))


def _line_of(text: str, found: re.Match[str]) -> str:
    begin = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    line = text[begin : end if end >= 0 else len(text)].strip()
    return "".join(sign if sign.isprintable() else " " for sign in line[:_SHOWN_CHARACTERS])


def _fitting_length(tail: str) -> int | None:
    found = _MODEL_LEN.search(tail)
    return int(found.group(1)) if found else None


def _fitting_utilization(tail: str) -> float | None:
    """Return the share of the device that was free, in whole hundredths, less one to spare."""
    found = _FREE_OF_TOTAL.search(tail)
    if found is None:
        return None
    free, total = float(found.group(1)), float(found.group(2))
    return (int(100 * free / total) - 1) / 100 if total > 0 else None
