"""SIGTERM to a real vLLM that is at work: as we start it, what runs in it ends first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import Recipe, WorkerSpec, worker_environment
from ds4watch.fleet.shutdown import DEFAULT_SECONDS, MARGIN_SECONDS
from tests.conftest import profile_of
from tests.edge.clock import SystemClock
from tests.flow.daemon import Answer, ask, free_ports, until

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

START_SECONDS = 400.0
TOKENS = 400


def is_healthy(port: int) -> bool:
    try:
        return ask(port, "/health").status == 200
    except OSError:
        return False


def generate(port: int) -> Answer:
    body = {"model": "tiny", "prompt": "Go on:", "max_tokens": TOKENS, "ignore_eos": True}
    return ask(port, "/v1/completions", body, seconds=120)


def running(port: int) -> float:
    page = ask(port, "/metrics").body.decode()
    lines = [it for it in page.splitlines() if it.startswith("vllm:num_requests_running{")]
    return float(lines[0].rpartition(" ")[2])


async def test_a_generation_that_runs_ends_before_the_worker_does(
    vllm_python: Path, tmp_path: Path
) -> None:
    recipe = Recipe(tmp_path, vllm_python, has_gpu=False)
    spec = WorkerSpec("tiny-0", profile_of("tiny-full"))
    await recipe.prepare(spec)
    (port,) = free_ports(1)
    command = recipe.command(spec, port)
    table = ProcessTable(tmp_path, SystemClock())
    environment = worker_environment({"PATH": "/usr/bin:/bin"}, command.env)
    record = table.spawn("worker/tiny-0", command.argv, env=environment, spec="s", port=port)
    try:
        assert record.end_seconds == DEFAULT_SECONDS + MARGIN_SECONDS
        until(lambda: is_healthy(port), "a real worker", seconds=START_SECONDS)
        generate(port)
        with ThreadPoolExecutor() as pool:
            began = time.monotonic()
            asked = pool.submit(generate, port)
            until(lambda: running(port) > 0, "a generation that runs")
            told = time.monotonic()
            assert not asked.done()
            assert await table.stop(record, grace_seconds=0.0)
            answer = asked.result(timeout=60)
        print(f"{told - began:.2f} s before SIGTERM, {time.monotonic() - told:.2f} s after")
    finally:
        await table.stop(record, grace_seconds=0.0)
    assert answer.status == 200, answer.body
    assert answer.json()["usage"]["completion_tokens"] == TOKENS
    assert answer.json()["choices"][0]["finish_reason"] == "length"
