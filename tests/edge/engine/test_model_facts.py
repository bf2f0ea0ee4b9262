"""What a model's folder tells, read from real files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from ds4watch.config.lints.check import lint_profiles
from ds4watch.config.lints.geometry import Shape, kv_bytes_per_token
from ds4watch.config.lints.gpus import GpuFacts
from ds4watch.config.loader import read_profile
from ds4watch.config.settings import Settings
from ds4watch.config.shipped import shipped
from ds4watch.engine.model_facts import look_at
from ds4watch.engine.profile_check import gpu_facts
from ds4watch.scrape.gpu import GpuReading, GpuReport
from tests.conftest import profile_of

TINY = Path(__file__).parents[2] / "data" / "profiles" / "tiny-full" / "config.json"
SHIPPED = sorted(shipped("serving/profiles").glob("*.yml"))
NOWHERE: Mapping[str, str] = {"HOME": "/nonexistent"}


def folder_at(path: Path, config: str, weights: int = 1000) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(config, encoding="utf-8")
    (path / "model-00001.safetensors").write_bytes(b"0" * weights)
    return path


def profile_for(model: str) -> str:
    return f"name: p\nmodel: {model}\nserved_names: [p]\nprecision: bf16\nmax_model_len: 64\n"


def test_the_tiny_model_is_read_in_the_state_folder(tmp_path: Path) -> None:
    folder_at(tmp_path / "models" / "tiny-full", TINY.read_text(encoding="utf-8"))
    facts = look_at(profile_of("tiny-full"), tmp_path, NOWHERE)
    assert facts.shape == Shape(layers=2, kv_heads=2, head_dim=64, dtype="float32")
    assert kv_bytes_per_token(facts.shape, element_bytes=4) == 2048
    assert (facts.weights_bytes, facts.quantized, facts.why_not) == (1000, None, "")


def test_weights_are_counted_once(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "m", TINY.read_text(encoding="utf-8"))
    (folder / "consolidated.safetensors").write_bytes(b"0" * 5000)
    (folder / "pytorch_model.bin").write_bytes(b"0" * 5000)
    facts = look_at(read_profile(profile_for(str(folder)), "p.yml").profile, tmp_path, NOWHERE)
    assert facts.weights_bytes == 1000


@pytest.mark.parametrize(
    ("config", "why_not"),
    [
        (None, "there is no"),
        ("{", "cannot be read"),
        ("[]", "is no JSON object"),
        ("{}", "names no layers"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, config: str | None, why_not: str) -> None:
    folder = folder_at(tmp_path / "m", config or "")
    if config is None:
        (folder / "config.json").unlink()
    facts = look_at(read_profile(profile_for(str(folder)), "p.yml").profile, tmp_path, NOWHERE)
    assert facts.shape is None
    assert why_not in facts.why_not


def test_a_folder_without_weights_is_said(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "m", TINY.read_text(encoding="utf-8"))
    (folder / "model-00001.safetensors").unlink()
    facts = look_at(read_profile(profile_for(str(folder)), "p.yml").profile, tmp_path, NOWHERE)
    assert "no weight files" in facts.why_not


def test_a_model_of_the_hub_is_found_in_its_cache(tmp_path: Path) -> None:
    profile = read_profile(profile_for("org/m"), "p.yml").profile
    assert look_at(profile, tmp_path, {"HOME": str(tmp_path)}).why_not == (
        "it is not on this machine"
    )
    cached = tmp_path / "hub" / "models--org--m"
    folder_at(cached / "snapshots" / "abc", TINY.read_text(encoding="utf-8"))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc\n", encoding="ascii")
    for environ in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub")}):
        assert look_at(profile, tmp_path, environ).weights_bytes == 1000
    weights = cached / "snapshots" / "abc" / "model-00001.safetensors"
    weights.unlink()
    weights.symlink_to(cached / "blobs" / "gone")
    assert look_at(profile, tmp_path, {"HF_HOME": str(tmp_path)}).weights_bytes is None


def test_a_folder_that_may_not_be_read_is_no_crash(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "m", TINY.read_text(encoding="utf-8"))
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path / "gone")
    profile = read_profile(profile_for(str(folder)), "p.yml").profile
    assert "there is no" in look_at(profile, tmp_path, NOWHERE).why_not


HERE = [
    GpuFacts(),
    GpuFacts(1, "NVIDIA L4", 23034 << 20),
    GpuFacts(8, "NVIDIA H200", 143771 << 20),
]


@pytest.mark.parametrize("gpus", HERE, ids=lambda it: it.name or "no GPU")
def test_nothing_is_said_of_the_shipped_profiles(gpus: GpuFacts, tmp_path: Path) -> None:
    for name in ("tiny-full", "tiny-quantized"):
        config = json.loads(TINY.read_text(encoding="utf-8"))
        folder_at(tmp_path / "models" / name, json.dumps(config))
    files = [read_profile(it.read_text(encoding="utf-8"), str(it)) for it in SHIPPED]
    models = {it.profile.name: look_at(it.profile, tmp_path, NOWHERE) for it in files}
    assert lint_profiles(files, models, gpus, Settings()) == ()


def test_gpus_are_counted_whole_and_the_smallest_counts() -> None:
    report = GpuReport(
        (
            GpuReading(0, name="NVIDIA H100", memory_total_bytes=80),
            GpuReading(0, name="NVIDIA H100", mig="MIG-1", memory_total_bytes=10),
            GpuReading(1, name="NVIDIA H100", memory_total_bytes=79),
            GpuReading(2, name="NVIDIA H100"),
        )
    )
    assert gpu_facts(report) == GpuFacts(3, "NVIDIA H100", 79)
    assert gpu_facts(GpuReport(why_not="no driver")) == GpuFacts()
