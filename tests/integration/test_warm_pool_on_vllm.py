"""Warm-up and sleep on a real vLLM: what its first user waits for, and that it wakes as it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.conftest import profile_of
from tests.flow.daemon import Answer, Daemon, ask, new_daemon, until

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

START_SECONDS = 400.0


@pytest.fixture(scope="module")
def daemon(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Yield a daemon with one worker that compiles at its first log-probabilities and can sleep."""
    folder = tmp_path_factory.mktemp("profiles")
    profile = profile_of("tiny-full").model_dump(mode="json", exclude_defaults=True)
    del profile["cpu_environment"]["TORCHDYNAMO_DISABLE"]
    text = yaml.safe_dump(profile | {"name": "sleepy", "sleep": True})
    (folder / "sleepy.yml").write_text(text, encoding="utf-8")
    fleet = {
        "vllm_python": str(vllm_python),
        "profiles_dir": str(folder),
        "workers": [{"profile": "sleepy"}],
        "start_timeout_seconds": START_SECONDS,
    }
    with new_daemon(fleet=fleet) as daemon:
        daemon.start()
        until(daemon.is_ready, "a real worker ready", seconds=START_SECONDS)
        until(lambda: "tiny" in daemon.models(), "a model at the gateway")
        yield daemon


def complete(daemon: Daemon, **fields: object) -> Answer:
    body = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
    return ask(daemon.gateway_port, "/v1/completions", body | fields, seconds=120)


def text_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return str(answer.json()["choices"][0]["text"])


def test_the_first_user_does_not_wait_for_what_the_warm_up_waited_for(daemon: Daemon) -> None:
    began = time.monotonic()
    answer = complete(daemon, logprobs=1)
    took = time.monotonic() - began
    warm_up = until(lambda: daemon.metric("ds4_worker_warmup_seconds{"), "what the warm-up took")
    assert answer.status == 200, answer.body
    print(f"warm-up {warm_up:.1f} s, the first user's request {took:.3f} s")
    assert took < 2
    assert took < warm_up / 2, "the price of the first request was paid before"


def test_a_sleeper_is_not_routed_to_and_once_woken_answers_as_before(daemon: Daemon) -> None:
    before = text_of(complete(daemon))
    url = daemon.worker("sleepy-0")["url"]
    port = int(url.rpartition(":")[2])
    config = daemon.options
    slept = daemon.command("workers", "sleep", "sleepy-0", "--why", "night", *config)
    assert slept.returncode == 0, slept.stderr
    until(lambda: daemon.worker("sleepy-0")["phase"] == "asleep", "asleep")
    assert ask(port, "/is_sleeping").json() == {"is_sleeping": True}
    until(lambda: daemon.models() == [], "out of the routing")

    with ThreadPoolExecutor() as pool:
        waits = pool.submit(complete, daemon)
        woken = daemon.command("workers", "wake", "sleepy-0", "--why", "day", *config)
        assert woken.returncode == 0, woken.stderr
        assert text_of(waits.result(timeout=60)) == before, "it waited, and got the same answer"
    assert ask(port, "/is_sleeping").json() == {"is_sleeping": False}
    assert daemon.worker("sleepy-0")["phase"] == "ready"
    audit = [json.dumps(it) for it in daemon.audit("worker")]
    assert any("answered a canary" in it for it in audit)
