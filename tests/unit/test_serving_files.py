"""Files under serving/ that nothing else reads: the container's and Ray's."""

from __future__ import annotations

import re
from pathlib import Path

from ds4watch.config.loader import load_settings
from ds4watch.config.settings import BackendKind
from tests.conftest import ROOT

CONTAINER = ROOT / "serving" / "container" / "Containerfile"


def test_the_container_file_copies_what_is_there_and_all_that_the_wheel_takes() -> None:
    text = CONTAINER.read_text(encoding="utf-8")
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    }
    assert all((ROOT / name).exists() for name in copied)
    shipped = re.findall(
        r'^"([\w/]+)" = "ds4watch/_data/', Path(ROOT / "pyproject.toml").read_text(), re.M
    )
    assert {"ds4watch", "pyproject.toml", *shipped} <= copied
    assert "\nUSER 8400\n" in text


def test_the_settings_for_ray_load_and_name_the_cluster_beside_them() -> None:
    path = ROOT / "serving" / "ray" / "ds4watch.yml"
    fleet = load_settings(path.read_text(encoding="utf-8"), str(path)).fleet
    cluster = (path.parent / "cluster.yml").read_text(encoding="utf-8")
    assert fleet.backend is BackendKind.RAY
    host, port = fleet.ray.url.removeprefix("http://").split(":")
    assert f"head_ip: {host}" in cluster
    assert f"--dashboard-host={host} --dashboard-port={port}" in cluster
    assert f"test -x {fleet.ray.python}" in cluster
