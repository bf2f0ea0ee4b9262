"""Which GPUs a worker gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.devices import (
    Device,
    Holding,
    Need,
    choose,
    devices_of,
    named_devices,
    need_of,
    within,
)
from ds4watch.scrape.gpu import ALL, LOST, GpuReading

GIB = 1 << 30


def gpu(index: int, used_gib: float = 0.0, **fields: Any) -> Device:
    used = int(used_gib * GIB)
    return Device(f"GPU-{index}", index, used_bytes=used, total_bytes=80 * GIB, **fields)


def profile(engine: Engine = Engine.VLLM, **fields: Any) -> Profile:
    return Profile(name="p", engine=engine, served_names=("m",), model="m", **fields)


@pytest.mark.parametrize(
    ("held", "need", "given"),
    [
        ({}, Need(1), ("GPU-0",)),
        ({}, Need(2), ("GPU-0", "GPU-1")),
        ({"a": Holding(("GPU-0",))}, Need(1), ("GPU-1",)),
        ({"a": Holding(("GPU-1",), 0.5)}, Need(1, 0.5), ("GPU-1",)),  # room beside another
        ({"a": Holding(("GPU-1",), 0.5)}, Need(1, 0.6), ("GPU-0",)),
        ({"a": Holding(("GPU-1",), 0.5)}, Need(1), ("GPU-0",)),  # a whole one stays whole
        ({"a": Holding(("GPU-0",))}, Need(1, 0.1), ("GPU-1",)),
        ({str(n): Holding(("GPU-0",), 0.1) for n in range(9)}, Need(1, 0.1), ("GPU-0",)),
        ({str(n): Holding(("GPU-0",), 0.1) for n in range(10)}, Need(1, 0.1), ("GPU-1",)),
    ],
)
def test_the_first_devices_with_room_are_given_those_shared_already_before(
    held: dict[str, Holding], need: Need, given: tuple[str, ...]
) -> None:
    assert choose([gpu(0), gpu(1)], held, need) == given


@pytest.mark.parametrize(
    ("devices", "held", "need", "why"),
    [
        ([], {}, Need(1), "0 of 1 GPUs are free, and there are no others"),
        (
            [gpu(0), gpu(1)],
            {"a": Holding(("GPU-0",))},
            Need(2),
            "1 of 2 GPUs are free (GPU-0: held by a)",
        ),
        (
            [gpu(0, 62.0, holders=(7, 9))],
            {},
            Need(1),
            "0 of 1 GPUs are free (GPU-0: 62.0 of 80.0 GiB in use by process 7, process 9)",
        ),
        (
            [gpu(0, 62.0)],
            {},
            Need(1),
            "0 of 1 GPUs are free (GPU-0: 62.0 of 80.0 GiB in use by nobody known)",
        ),
        (
            [Device("MIG-a", 0, is_instance=True), Device("MIG-b", 0, is_instance=True)],
            {},
            Need(2),
            (
                "0 of 2 GPUs are free (MIG-a: a MIG instance, and 2 GPUs are needed; "
                "MIG-b: a MIG instance, and 2 GPUs are needed)"
            ),
        ),
    ],
)
def test_a_refusal_says_what_is_in_the_way(
    devices: list[Device], held: dict[str, Holding], need: Need, why: str
) -> None:
    assert choose(devices, held, need) == why


def test_case_40_where_a_share_does_not_fit_both_figures_are_told() -> None:
    """Less is free than is asked for; told before the start (ovg-project/kvcached#110)."""
    held = {"a": Holding(("GPU-0",), 0.6)}
    why = "0 of 1 GPUs are free (GPU-0: held by a, 0.40 of it is free, 0.5 of it is asked for)"
    assert choose([gpu(0, 12.0)], held, Need(1, 0.5)) == why
    used = "0 of 1 GPUs are free (GPU-0: 12.0 of 80.0 GiB in use by process 7, 0.9 of it is asked "
    assert choose([gpu(0, 12.0, holders=(7,))], {}, Need(1, 0.9)) == f"{used}for)"


def test_what_a_driver_or_a_display_takes_is_in_nobodys_way() -> None:
    assert choose([gpu(0, 3.0)], {}, Need(1)) == ("GPU-0",)
    assert choose([Device("GPU-u", 0)], {}, Need(1)) == ("GPU-u",)  # unified memory: not told


def test_instances_stand_for_a_gpu_in_mig_mode_and_what_cannot_be_named_is_left_out() -> None:
    readings = [
        GpuReading(0, "GPU-0", divided=True, memory_used_bytes=9),
        GpuReading(0, "GPU-0", mig="MIG-a", memory_used_bytes=1),
        GpuReading(0, "GPU-0", mig="7/0"),
        GpuReading(1, "GPU-1", holders=(5,)),
        GpuReading(2, "GPU-2", missing=((ALL, LOST),)),
        GpuReading(3, ""),
    ]
    found = devices_of(readings)
    assert [(it.id, it.is_instance, it.holders) for it in found] == [
        ("MIG-a", True, ()),
        ("GPU-1", False, (5,)),
    ]


@pytest.mark.parametrize(
    ("given", "has_gpu", "need"),
    [
        (profile(), True, Need(1)),
        (profile(), False, None),
        (profile(Engine.SIM), True, None),
        (profile(Engine.SIM, gpus=1), True, None),
        (profile(gpus=2), True, Need(2)),
        (profile(gpus=1), False, None),
        (profile(gpu_share=0.3), True, Need(1, 0.3)),
        (profile(engine_args=("--tensor-parallel-size", "4")), True, Need(4)),
        (profile(engine_args=("-tp=2", "--pipeline-parallel-size=2", "-dp", "2")), True, Need(8)),
        (profile(engine_args=("--tensor-parallel-size",)), True, Need(1)),
        (profile(environment={"CUDA_VISIBLE_DEVICES": "1"}), True, None),
    ],
)
def test_how_many_a_worker_needs_is_in_its_profile_or_its_arguments(
    given: Profile, has_gpu: bool, need: Need | None
) -> None:
    assert need_of(given, has_gpu=has_gpu) == need


def test_devices_that_a_profile_names_itself_are_known_by_uuid_or_number() -> None:
    own = profile(environment={"CUDA_VISIBLE_DEVICES": "1, GPU-0,9"})
    assert named_devices(own, [gpu(0), gpu(1)]) == ("GPU-1", "GPU-0")


def test_the_daemons_own_list_bounds_what_it_gives() -> None:
    both = (gpu(0), gpu(1))
    assert within(both, None) == both
    assert within(both, "GPU-1") == both[1:]
    assert within(both, "0") == both[:1]
    assert within(both, "") == ()


def test_a_holding_survives_its_record() -> None:
    holding = Holding(("GPU-0", "GPU-1"), 0.3, {"GPU-0": 5})
    assert Holding.from_json(holding.as_json()) == holding
    assert Holding.from_json({}) == Holding()
    with pytest.raises(ValueError, match="not a holding of GPUs"):
        Holding.from_json({"devices": 3})


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 3), st.sampled_from([0.25, 0.3, 0.5, 1.0])),
        max_size=20,
    ),
)
def test_whoever_comes_and_goes_no_device_is_given_beyond_its_whole(
    count: int, steps: list[tuple[bool, int, float]]
) -> None:
    devices = [gpu(index) for index in range(count)]
    holdings: dict[str, Holding] = {}
    for number, (goes, wanted, share) in enumerate(steps):
        if goes and holdings:
            holdings.pop(next(iter(holdings)))
        chosen = choose(devices, holdings, Need(wanted, share))
        if not isinstance(chosen, str):
            assert len(set(chosen)) == wanted
            holdings[str(number)] = Holding(chosen, share)
        for device in devices:
            held = [it.share for it in holdings.values() if device.id in it.devices]
            assert sum(held) <= 1.0 + 1e-6
