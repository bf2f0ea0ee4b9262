"""A history in a real Prometheus, replayed from there and from what promtool dumps of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.edge.cli.test_replay import NOW, POLICY, RULES, fill
from tests.edge.history.folding import open_store
from tests.integration.test_history_into_prometheus import prometheus

pytestmark = [pytest.mark.needs("promtool", "prometheus"), pytest.mark.prometheus, pytest.mark.slow]


def replayed(folder: Path, *source: str) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "ds4watch", "rules", "replay", str(folder / "rules.yml")),
        *("--policy", str(folder / "policy.yml"), "--json"),
        *("--from", str(int(NOW)), "--to", str(int(NOW) + 885), *source),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_prometheus_tells_the_same_story_as_the_store(tmp_path: Path) -> None:
    asyncio.run(fill(open_store(tmp_path / "samples.db")))
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "policy.yml").write_text(POLICY)
    own = replayed(tmp_path, "--store", str(tmp_path / "samples.db"))
    exported, data = tmp_path / "history.om", tmp_path / "data"
    export = ("history", "export", "--state", str(tmp_path), "-o", str(exported))
    subprocess.run([sys.executable, "-m", "ds4watch", *export], check=True, cwd=tmp_path)
    blocks = ("promtool", "tsdb", "create-blocks-from", "openmetrics", str(exported), str(data))
    subprocess.run(blocks, check=True, stdout=subprocess.DEVNULL)
    (data / "wal").mkdir()  # promtool reads that too
    dump = tmp_path / "dump.txt"
    with dump.open("w") as output:
        subprocess.run(["promtool", "tsdb", "dump", str(data)], check=True, stdout=output)
    with prometheus(tmp_path, data) as port:
        url = f"http://127.0.0.1:{port}"
        sources = [replayed(tmp_path, "--import", url), replayed(tmp_path, "--import", str(dump))]
    for found in sources:
        for part in ("alerts", "actions", "refusals", "rules", "failures"):
            assert found[part] == own[part], (found["history"], part)
    assert len(own["actions"]) == 4
