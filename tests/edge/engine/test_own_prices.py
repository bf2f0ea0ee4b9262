"""What profiles and settings say of prices reaches the price list of the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.config.files import find_settings
from ds4watch.cost.prices import price_at
from ds4watch.engine.blueprint import Blueprint, read_blueprint
from ds4watch.engine.cost_plan import gpu_model, prices_of, storage_prices_of
from ds4watch.model.errors import ConfigError
from ds4watch.scrape.gpu import GpuReading, GpuReport
from ds4watch.sim.clock import SystemClock

PROFILE = "name: own\nengine: sim\nserved_names: [own]\ngpus: 2\nprice_gpu_hour: 1.25\n"
CHANGES = "price_changes: [{price_gpu_hour: 1.5, valid_from: 2027-01-01T00:00:00Z}]\n"
SETTINGS = """\
fleet: {profiles_dir: own, workers: [{profile: own}, {profile: sim-full}]}
cost:
  prices:
    - {per_hour: 0.5}
    - {profile: own, per_hour: 9, valid_from: 2026-01-01T00:00:00Z}
    - {gpu: h200, per_gpu_hour: 4}
    - {host: gpu7, per_hour: 7}
  storage_prices:
    - {what: logs, per_gb_hour: 0.001}
"""


def read(folder: Path, settings: str = SETTINGS) -> Blueprint:
    (folder / "ds4watch.yml").write_text(settings, encoding="utf-8")
    (folder / "own").mkdir()
    (folder / "own" / "own.yml").write_text(PROFILE + CHANGES, encoding="utf-8")
    loaded = find_settings(folder / "ds4watch.yml", {})
    return read_blueprint(loaded, folder, SystemClock(), sim=False)


def test_a_worker_costs_its_gpus_at_the_profiles_price_of_the_day(tmp_path: Path) -> None:
    blueprint = read(tmp_path)
    assert price_at(blueprint.prices, "own", 1.7e9) == 2_500_000_000
    assert price_at(blueprint.prices, "own", 1.8e9) == 3_000_000_000  # 2027-01-15
    assert price_at(blueprint.prices, "sim-full", 1.8e9, "http://gpu7:8000") == 7_000_000_000


def test_a_price_of_a_model_of_gpu_holds_where_the_machine_has_it(tmp_path: Path) -> None:
    blueprint = read(tmp_path)
    model = gpu_model(GpuReport((GpuReading(0, name="NVIDIA H200"),) * 2))
    prices = prices_of(blueprint.settings, blueprint.profiles, model)
    assert price_at(prices, "sim-full", 1.8e9, "http://127.0.0.1:1") == 4_000_000_000
    assert price_at(prices, "sim-full", 1.8e9, "http://far:1") == 500_000_000
    none = prices_of(blueprint.settings, blueprint.profiles, "")
    assert price_at(none, "sim-full", 1.8e9) == 500_000_000
    assert [it.nanos_per_gb_hour for it in storage_prices_of(blueprint.settings)] == [1_000_000]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{per_hour: 1, per_gpu_hour: 1}", "of a worker hour or of a GPU hour"),
        ("{gpu: H100, host: far}", "GPUs are known of this machine alone"),
        ("{host: a, per_hour: 1}\n    - {host: a, per_hour: 2}", "* at a from"),
    ],
)
def test_prices_that_say_two_things_are_refused_with_their_line(
    line: str, fault: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as told:
        read(tmp_path, f"cost:\n  prices:\n    - {line}\n")
    assert fault in str(told.value)
    assert "ds4watch.yml:" in str(told.value)
