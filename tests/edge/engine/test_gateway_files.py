"""Files that the settings name for the gateways: found beside the settings, and looked into."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.config.files import find_settings
from ds4watch.engine.blueprint import Blueprint, read_blueprint
from ds4watch.model.errors import ConfigError
from ds4watch.sim.clock import SystemClock

PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


def read(folder: Path) -> Blueprint:
    (folder / "ds4watch.yml").write_text("gateway: {tls_ca_file: own-ca.pem}\n", encoding="utf-8")
    loaded = find_settings(folder / "ds4watch.yml", {})
    return read_blueprint(loaded, folder, SystemClock(), sim=False)


def test_authorities_are_found_beside_the_settings_wherever_a_gateway_runs(tmp_path: Path) -> None:
    (tmp_path / "own-ca.pem").write_text(PEM, encoding="utf-8")
    assert read(tmp_path).settings.gateway.tls_ca_file == str(tmp_path / "own-ca.pem")


def test_a_file_without_a_certificate_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"own-ca.pem: there is no such file"):
        read(tmp_path)
    (tmp_path / "own-ca.pem").write_text("PRIVATE", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"own-ca.pem: holds no certificate"):
        read(tmp_path)
