"""Deaths for want of memory, by the words of vLLM and of what it runs on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.fleet.oom import Death, Oom, OomKind, recognise
from ds4watch.sim.faults import OOM_MESSAGE, RUN_OOM_MESSAGE

FREE = (
    "ValueError: Free memory on device cuda:0 (67.24/79.25 GiB) on startup is less than desired "
    "GPU memory utilization (0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory "
    "used by other processes."
)
TOO_LONG = (
    "(EngineCore pid=1) ValueError: To serve at least one request with the model's max seq len "
    "(8192), (3.50 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(1.00 GiB). Based on the available memory, the estimated maximum model length is 2336. Try "
    "increasing `gpu_memory_utilization`"
)
NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
)
OLD_TOO_LONG = (
    "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that "
    "can be stored in KV cache (14528). Try increasing `gpu_memory_utilization`"
)
CPU_CACHE = (
    "ValueError: Available memory on node 0 (1.00/8.00 GiB) on kv cache allocation is less than "
    "requested memory for kv (4.00 GiB). Decrease --kv-cache-memory-bytes"
)
SAMPLER = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. "
    "Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
)
WEIGHTS = (
    "ERROR Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization"
)
HOST = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
)
ENGINE_DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
NOT_READY_HANDLE = (
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate"
)

START = Death(exit_code=1, log_tail="", had_served=False)
RUN = replace(START, had_served=True)


def kind(death: Death) -> OomKind | None:
    oom = recognise(death)
    return oom.kind if oom is not None else None


@pytest.mark.parametrize(
    ("line", "at_start", "at_run"),
    [
        (FREE, OomKind.GPU_TAKEN, None),
        (TOO_LONG, OomKind.KV_START, None),
        (NO_BLOCKS, OomKind.KV_START, None),
        (OLD_TOO_LONG, OomKind.KV_START, None),
        (CPU_CACHE, OomKind.KV_START, None),
        (OOM_MESSAGE, OomKind.GPU_START, OomKind.GPU_RUN),
        (RUN_OOM_MESSAGE, OomKind.GPU_START, OomKind.GPU_RUN),
        (SAMPLER, OomKind.GPU_START, OomKind.GPU_RUN),
        ("RuntimeError: CUDA error: out of memory", OomKind.GPU_START, OomKind.GPU_RUN),
        ("torch.OutOfMemoryError: HIP out of memory. Tried", OomKind.GPU_START, OomKind.GPU_RUN),
        ("NCCL WARN Cuda failure 2 'out of memory'", OomKind.GPU_START, OomKind.GPU_RUN),
        ("CUBLAS_STATUS_ALLOC_FAILED when calling x", OomKind.GPU_START, OomKind.GPU_RUN),
        (WEIGHTS, OomKind.GPU_START, None),
        (HOST, OomKind.HOST, OomKind.HOST),
        ("(APIServer pid=7) MemoryError", OomKind.HOST, OomKind.HOST),
        ("MemoryError: cannot allocate", OomKind.HOST, OomKind.HOST),
        ("terminate called after throwing an instance of 'std::bad_alloc'", *[OomKind.HOST] * 2),
        ("OSError: [Errno 12] Cannot allocate memory", OomKind.HOST, OomKind.HOST),
        (ENGINE_DEAD, None, None),
        ("OSError: [Errno 98] Address already in use", None, None),
        ("ValueError: unknown model", None, None),
        ("INFO Available KV cache memory: 3.2 GiB", None, None),
        ("INFO memory profiling takes 2.3 s; the KV cache memory is 12 GiB", None, None),
        ("", None, None),
    ],
)
def test_each_message_is_known_for_what_it_is(
    line: str, at_start: OomKind | None, at_run: OomKind | None
) -> None:
    for before, after in (("", ""), ("INFO loading\n", f"\n{ENGINE_DEAD}\n")):
        tail = f"{before}{line}{after}"
        assert kind(replace(START, log_tail=tail)) == at_start
        assert kind(replace(RUN, log_tail=tail)) == at_run


def test_the_line_that_says_so_is_told() -> None:
    oom = recognise(replace(RUN, log_tail=f"INFO one\n{OOM_MESSAGE}\nINFO two\n"))
    assert oom is not None
    assert oom.line == OOM_MESSAGE[:300]


def test_what_would_have_fitted_is_read_from_the_message() -> None:
    assert recognise(replace(START, log_tail=FREE)) == Oom(
        OomKind.GPU_TAKEN, FREE, fits_utilization=0.83
    )
    assert recognise(replace(START, log_tail=TOO_LONG)) == Oom(
        OomKind.KV_START, TOO_LONG[:300], fits_model_len=2336
    )


@pytest.mark.parametrize(
    ("exit_code", "kills", "tail", "expected"),
    [
        (-9, 1, "", OomKind.HOST),
        (137, 1, "", OomKind.HOST),
        (-9, 0, "", None),
        (-9, None, "", None),
        (None, 1, "", OomKind.HOST),
        (None, None, "", None),
        (-11, 1, "", None),
        (1, 1, "", None),
        (1, 1, ENGINE_DEAD, OomKind.HOST),
        (1, 1, "RuntimeError: EngineCore died unexpectedly", OomKind.HOST),
        (1, 0, ENGINE_DEAD, None),
    ],
)
def test_a_kill_is_the_kernels_only_where_the_kernel_counted_one(
    exit_code: int | None, kills: int | None, tail: str, expected: OomKind | None
) -> None:
    death = Death(exit_code=exit_code, log_tail=tail, had_served=True, kernel_kills=kills)
    assert kind(death) == expected


@pytest.mark.parametrize(
    ("used", "expected"), [(None, None), (0.5, None), (0.96, None), (0.98, OomKind.GPU_RUN)]
)
def test_an_error_with_several_causes_counts_only_with_a_device_nearly_full(
    used: float | None, expected: OomKind | None
) -> None:
    death = replace(RUN, log_tail=NOT_READY_HANDLE, device_used_ratio=used)
    assert kind(death) == expected


@given(
    st.text(max_size=2000),
    st.none() | st.integers(-20, 255),
    st.booleans(),
    st.none() | st.integers(0, 3),
    st.none() | st.floats(0, 1),
)
def test_whatever_was_said_it_is_read_without_harm(
    tail: str, exit_code: int | None, had_served: bool, kills: int | None, used: float | None
) -> None:
    oom = recognise(Death(exit_code, tail, had_served, kills, used))
    assert oom is None or len(oom.line) <= 340
