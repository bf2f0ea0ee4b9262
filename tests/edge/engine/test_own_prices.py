"""What a profile says of its price reaches the price list of the daemon."""

from __future__ import annotations

from pathlib import Path

from ds4watch.config.files import find_settings
from ds4watch.cost.prices import price_at
from ds4watch.engine.blueprint import read_blueprint
from ds4watch.sim.clock import SystemClock

PROFILE = "name: own\nengine: sim\nserved_names: [own]\ngpus: 2\nprice_gpu_hour: 1.25\n"
SETTINGS = """\
fleet: {profiles_dir: own, workers: [{profile: own}, {profile: sim-full}]}
cost:
  prices:
    - {per_hour: 0.5}
    - {profile: own, per_hour: 9, valid_from: 2026-01-01T00:00:00Z}
"""


def test_a_worker_costs_its_gpus_at_the_profiles_price(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.yml").write_text(PROFILE, encoding="utf-8")
    loaded = find_settings(tmp_path / "ds4watch.yml", {})
    blueprint = read_blueprint(loaded, tmp_path, SystemClock(), sim=False)
    assert price_at(blueprint.prices, "own", 1.8e9) == 2_500_000_000
    assert price_at(blueprint.prices, "sim-full", 1.8e9) == 500_000_000
