from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.config.files import (
    LoadedSettings,
    find_settings,
    load_profiles,
    read_text,
    rule_files,
    wanted_workers,
)
from ds4watch.config.settings import FleetSettings, Settings, WorkerSettings
from ds4watch.model.errors import ConfigError


def test_a_named_file_that_is_not_there_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "no.yml"
    with pytest.raises(ConfigError, match=r"no\.yml: there is no such file"):
        find_settings(path, {})


def test_a_folder_and_a_binary_file_are_refused_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        read_text(tmp_path)
    binary = tmp_path / "b.yml"
    binary.write_bytes(b"a: 1\n\xff\xfe")
    with pytest.raises(ConfigError, match=r"b.yml:2: is not UTF-8 text"):
        read_text(binary)


def test_settings_come_from_the_file_that_the_environment_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("admin: {port: 1234}\n")
    loaded = find_settings(None, {"DS4WATCH_CONFIG": str(path)})
    assert loaded.settings.admin.port == 1234
    assert loaded.base == tmp_path


def test_own_profiles_are_looked_for_beside_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "mine.yml").write_text("name: mine\nengine: sim\nserved_names: [mine]\n")
    (folder / "far.yml").write_text(f"name: far\nserved_names: [a]\nmodel: {tmp_path}/no\n")
    (folder / "bad.yml").write_text("name: bad\nserved_names: 3\n")
    settings = Settings(fleet=FleetSettings(profiles_dir="profiles"))
    loaded = LoadedSettings(settings, tmp_path / "ds4watch.yml")
    assert load_profiles(loaded, ("mine",))["mine"].served_names == ("mine",)
    with pytest.raises(ConfigError) as raised:
        load_profiles(loaded, ("mine", "bad", "far", "gone"))
    text = str(raised.value)
    assert "bad.yml:2: served_names: must be a list, got 3" in text
    assert f"far.yml: model: there is no folder {tmp_path}/no (put the model there" in text
    assert "there is no profile gone (known: " in text


def test_rule_patterns_start_from_the_settings_folder_and_must_match(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for name in ("b.yml", "a.yml"):
        (tmp_path / "rules" / name).touch()
    settings = Settings(rules=("rules/*.yml", str(tmp_path / "rules" / "a.yml")))
    files = rule_files(LoadedSettings(settings, tmp_path / "ds4watch.yml"))
    assert [path.name for path in files] == ["a.yml", "b.yml"]
    missing = LoadedSettings(Settings(rules=("no/*.yml",)), tmp_path / "ds4watch.yml")
    with pytest.raises(ConfigError, match=r"rules\[0\]: no file matches no/\*.yml"):
        rule_files(missing)


def test_without_a_word_the_fleet_is_a_full_and_a_quantized_worker() -> None:
    assert [worker.profile for worker in wanted_workers(Settings(), sim=True)] == [
        "sim-full",
        "sim-quantized",
    ]
    chosen = Settings(fleet=FleetSettings(workers=(WorkerSettings(profile="x"),)))
    assert [worker.profile for worker in wanted_workers(chosen, sim=True)] == ["x"]
