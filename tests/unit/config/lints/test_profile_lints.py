"""For each lint a faulty profile, the line that a person sees, and the mended form."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds4watch.config.budgets import BudgetSettings
from ds4watch.config.cost import CostSettings, Price
from ds4watch.config.external import ExtraWorker
from ds4watch.config.lints.fleet import Fleet, room_fault, sleep_fault, unpriced_fault
from ds4watch.config.lints.geometry import ModelFacts, Quantized, Shape
from ds4watch.config.lints.gpus import GpuFacts, default_max_num_seqs
from ds4watch.config.loader import read_profile
from ds4watch.config.profile import Profile
from ds4watch.config.settings import (
    FleetSettings,
    Settings,
    WorkerSettings,
)
from tests.unit.config.lints.helpers import GOOD, changed, messages, printed, spoilt, with_args

CASES = yaml.safe_load(
    (Path(__file__).parents[3] / "data" / "profiles" / "lints.yml").read_text(encoding="utf-8")
)
FULL = GOOD.replace("name: w\n", "name: f\n").replace("[w, llama]", "[f, llama]")
MIB = 1 << 20
LLAMA = Shape(layers=32, kv_heads=8, head_dim=128, dtype="bfloat16")


def test_nothing_is_said_of_a_good_profile() -> None:
    assert printed(GOOD) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["line"][:60])
def test_a_fault_is_one_line_and_its_mended_form_none(case: dict[str, Any]) -> None:
    assert printed(spoilt(case["bad"]), FULL) == [case["line"]]
    assert printed(spoilt(case["mended"]), FULL) == []


SPECULATION = '--speculative-config={"method": "ngram", "num_speculative_tokens": 3%s}'


def test_watermarks_and_adaptive_verification_stand_beside_few_things() -> None:
    marked = with_args(SPECULATION % "", "--watermark-config={}")
    assert messages(marked) == [
        "watermarks with speculative decoding need draft_sample_method probabilistic",
        "watermarks are refused with speculation by ngram",
    ]
    adaptive = SPECULATION % ', "enable_adaptive_verification": true'
    told = messages(with_args(adaptive, "--enable-lora", "--enforce-eager"))
    assert "adaptive verification is refused with LoRA" in told
    assert "adaptive verification is refused with --enforce-eager" in told
    assert messages(with_args(adaptive)) == []


def test_what_the_model_says_of_itself_is_held_against_the_profile() -> None:
    gptq = ModelFacts(LLAMA, 5000 * MIB, Quantized("gptq", 4))
    says = "but the model's config.json says gptq, 4 bits"
    full = changed(geometry=None)
    assert messages(full, facts={"w": gptq}) == [f"is bf16, {says}"]
    int8 = changed(geometry=None, precision="gptq-int8", reference="f")
    assert messages(int8, FULL, facts={"w": gptq}) == [f"is gptq-int8, {says}"]
    int4 = changed(geometry=None, precision="gptq-int4", reference="f")
    assert messages(int4, FULL, facts={"w": gptq}) == []


def test_three_bits_run_as_compressed_tensors_and_not_in_awqs_own_format() -> None:
    int3 = changed(geometry=None, precision="awq-int3", reference="f")
    awq = ModelFacts(LLAMA, 5000 * MIB, Quantized("awq", 3))
    assert messages(int3, FULL, facts={"w": awq}) == [
        "vLLM 0.32.0 runs the format awq with 4 bits only, not 3"
    ]
    packed = replace(awq, quantized=Quantized("compressed-tensors", 3))
    assert messages(int3, FULL, facts={"w": packed}) == []


def test_a_reference_is_the_same_model_in_full_precision() -> None:
    other = FULL.replace("layers: 32", "layers: 28").replace("bf16", "int8")
    differs = "layers, KV heads and head width are 28/8/128 there, and 32/8/128 here"
    assert messages(changed(precision="int4", reference="f"), other) == [
        "f is int8, so it is no full-precision reference",
        f"f is another model: {differs}",
    ]


def test_a_name_that_two_models_answer_to_is_told_once() -> None:
    other = FULL.replace("org/llama-8b", "org/other")
    assert messages(GOOD, other) == ["llama is served by f too, which is another model"]
    assert messages(other, GOOD) == []
    assert messages(changed(precision="int8", reference="f"), other) == []


def test_a_shipped_example_that_is_not_run_clashes_with_nobody() -> None:
    other = FULL.replace("org/llama-8b", "org/other")
    assert messages(GOOD, other, examples=frozenset({"f"})) == []
    assert messages(GOOD, other, examples=frozenset({"w"})) == []


def test_gpus_without_a_price_are_told_with_what_they_are_charged() -> None:
    eight = changed(price_gpu_hour=None, gpus="8", engine_args="[-tp, '8']")
    charged = "8 GPU(s) are charged as any worker, 0.95 USD an hour"
    assert printed(eight) == [
        f"warning w.yml:8: gpus: has no price: {charged} (add price_gpu_hour)"
    ]
    listed = Settings(cost=CostSettings(prices=(Price(profile="w", per_hour=Decimal(8)),)))
    assert printed(eight, settings=listed) == []
    assert messages(GOOD, settings=listed) == ["goes before the prices that cost.prices has for w"]


def test_the_memory_of_a_gpu_here_goes_before_what_is_known_of_its_kind() -> None:
    small = GpuFacts(1, "NVIDIA L4", 12000 * MIB)
    other = GpuFacts(1, "NVIDIA H200", 143771 * MIB)
    batch = changed(max_num_seqs="38")
    assert "11.7 GiB x 0.92" in messages(batch, gpus=small)[0]
    assert messages(batch, gpus=other) == []


def test_a_profile_that_names_no_gpu_is_checked_where_there_is_one() -> None:
    plain = changed(gpus=None, gpu_kind=None, price_gpu_hour=None, max_num_seqs="40")
    assert messages(plain) == []
    assert "of the room" in messages(plain, gpus=GpuFacts(1, "NVIDIA L4", 23034 * MIB))[0]


def test_a_kv_cache_of_a_given_size_is_taken_as_it_is() -> None:
    assert messages(with_args("--kv-cache-memory-bytes=8G")) == []
    assert "-bytes gives 4.0 GiB for KV" in messages(with_args("--kv-cache-memory-bytes=4G"))[0]


def test_workers_that_want_more_gpus_than_there_are_are_refused_with_both_numbers() -> None:
    profile = read_profile(with_args("--gpu-memory-utilization=0.6"), "w.yml").profile
    here = GpuFacts(1, "NVIDIA L4", 23034 * MIB)
    one, two = (WorkerSettings(profile="w", count=count) for count in (1, 2))
    assert room_fault((one,), {"w": profile}, here) is None
    assert room_fault((two,), {"w": profile}, GpuFacts()) is None
    fault = room_fault((two,), {"w": profile}, here)
    assert fault
    assert "want the memory of 1.20 GPUs" in fault[0]
    assert "1 are here, of which 0.95 can be had" in fault[0]


def test_who_has_no_price_is_told_for_no_budget_counts_it() -> None:
    """A model of one's own was taken to cost nothing, its budget not looked at (litellm#25874)."""
    plain = read_profile(changed(price_gpu_hour=None), "w.yml").profile
    priced = read_profile(GOOD, "w.yml").profile
    workers = (WorkerSettings(profile="w"),)
    listed = CostSettings(prices=(Price(profile="v"),), budgets=(BudgetSettings(limit=Decimal(1)),))
    extra = (ExtraWorker(name="x", url="http://h:1", profile="theirs"),)
    settings = Settings(cost=listed, fleet=FleetSettings(external=extra))
    told = unpriced_fault(workers, {"w": plain}, settings)
    assert told
    assert told[0] == (
        "has no price for theirs, w: they are taken to cost nothing, and no budget counts them"
    )
    assert unpriced_fault(workers, {"w": priced}, Settings(cost=listed)) is None
    assert unpriced_fault(workers, {"w": plain}, Settings()) is None


@pytest.mark.parametrize(
    ("kind", "mib", "seqs"),
    [("L4", 23034, 256), ("A100 80GB", 81920, 256), ("H100", 81559, 1024), ("B200", 183359, 1024)],
)
def test_the_batch_that_vllm_takes_by_itself(kind: str, mib: int, seqs: int) -> None:
    assert default_max_num_seqs(mib * MIB, kind) == seqs


@pytest.mark.parametrize(
    ("host_gib", "min_hot", "gpus", "asleep"),
    [(64, 1, 4, None), (33, 1, 4, "3 workers that may sleep keep 30.0 GiB"), (33, 2, 4, None),
     (33, 1, 0, None)],
)  # fmt: skip
def test_the_weights_of_those_who_sleep_have_to_fit_into_the_hosts_memory(
    host_gib: int, min_hot: int, gpus: int, asleep: str | None
) -> None:
    sleepy = Profile.model_validate(
        {
            "name": "s",
            "model": "o/s",
            "served_names": ["s"],
            "sleep": True,
            "geometry": {"weights_mib": 10 << 10},
        }
    )
    settings = Settings(fleet=FleetSettings(sleep_after_seconds=60, min_hot=min_hot))
    fleet = Fleet({"s": sleepy}, {}, settings)
    here = GpuFacts(gpus, "H100", 80 << 30)
    workers = (WorkerSettings(profile="s", count=4),)
    fault = sleep_fault(workers, fleet, host_gib << 30, here)
    assert (fault is None) == (asleep is None)
    if fault is not None and asleep is not None:
        assert fault[0].startswith(asleep)
    never = Fleet({"s": sleepy}, {}, Settings())
    assert sleep_fault(workers, never, 1, here) is None
