"""The installed plugin, found and called the way vLLM does, under a stand-in for vLLM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from tests.edge.vllm_plugin.built import build_plugin, install_plugin

ENGINE = """
import enum
class FinishReason(enum.IntEnum):
    STOP = 0
    def __str__(self): return "stop"
"""
STATS = """
class SchedulerStats:
    num_running_reqs = num_waiting_reqs = num_skipped_waiting_reqs = 0
    kv_cache_usage = 0.0
class IterationStats:
    num_prompt_tokens = num_generation_tokens = num_preempted_reqs = 0
    finished_requests = ()
"""
LOGGERS = """
from abc import ABC, abstractmethod
class StatLoggerBase(ABC):
    @abstractmethod
    def __init__(self, vllm_config, engine_index=0): ...
    @abstractmethod
    def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0): ...
    @abstractmethod
    def log_engine_initialized(self): ...
    @abstractmethod
    def asked_for_by_a_later_vllm(self): ...
"""
AS_VLLM_DOES = """
import json
from importlib.metadata import entry_points
from types import SimpleNamespace
from prometheus_client import generate_latest
from vllm.v1.metrics.loggers import StatLoggerBase
from vllm.v1.metrics.stats import IterationStats, SchedulerStats

(found,) = entry_points(group="vllm.stat_logger_plugins")
plugin = found.load()
assert isinstance(plugin, type) and issubclass(plugin, StatLoggerBase)
config = SimpleNamespace(model_config=SimpleNamespace(served_model_name="tiny"))
loggers = [plugin(config, index) for index in (0, 1)]
step = IterationStats()
step.num_generation_tokens = 5
loggers[1].record(SchedulerStats(), step, mm_cache_stats=None, engine_idx=1, a_later_one=None)
loggers[1].log_engine_initialized()
loggers[1].record(None, None)
plugin().record(object(), object())
print(json.dumps([found.name, generate_latest().decode()]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_plugin(tmp_path_factory.mktemp("plugin"))


def stand_in(folder: Path) -> Path:
    """Write a package `vllm` with what the plugin imports."""
    files = {"v1/engine": ENGINE, "v1/metrics/stats": STATS, "v1/metrics/loggers": LOGGERS}
    for name, text in files.items():
        path = folder / "vllm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def run(program: str, *paths: Path) -> Any:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_found_built_for_each_engine_and_shown_on_the_page(
    installed: Path, tmp_path: Path
) -> None:
    name, page = run(AS_VLLM_DOES, installed, stand_in(tmp_path))
    assert name == "ds4watch"
    assert 'ds4_generated_tokens_total{engine="0",model="tiny"} 0.0' in page
    assert 'ds4_generated_tokens_total{engine="1",model="tiny"} 5.0' in page
    assert 'ds4_finished_requests_total{engine="1",model="tiny",reason="stop"} 0.0' in page
    assert 'ds4_plugin_errors_total{engine="1",model="tiny"} 0.0' in page
    assert "ds4_prefill_tokens_total{" not in page


def test_several_api_servers_of_one_worker_show_one_page(installed: Path, tmp_path: Path) -> None:
    """As vLLM does it: each server is a process, and prometheus_client adds up their files."""
    program = AS_VLLM_DOES.replace(
        "generate_latest()",
        "generate_latest(registry)",
    ).replace(
        "print(",
        "from prometheus_client import CollectorRegistry, multiprocess\n"
        "registry = CollectorRegistry()\n"
        "multiprocess.MultiProcessCollector(registry)\n"
        "print(",
    )
    folder = tmp_path / "files"
    folder.mkdir()
    program = f"import os; os.environ['PROMETHEUS_MULTIPROC_DIR'] = {str(folder)!r}\n{program}"
    stub = stand_in(tmp_path)
    run(program, installed, stub)
    _, page = run(program, installed, stub)
    assert 'ds4_generated_tokens_total{engine="1",model="tiny"} 10.0' in page
    assert 'ds4_queue_depth{engine="1",model="tiny"} 0.0' in page


def test_the_dist_needs_nothing_and_holds_nothing_but_the_plugin(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_plugin(tmp_path)) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        told = Parser().parsestr(archive.read(metadata).decode())
    assert told.get_all("Requires-Dist") is None
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"ds4watch_vllm"}
