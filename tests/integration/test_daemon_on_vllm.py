"""The whole of ds4watch on two real vLLM workers, from the start to the last process gone.

Oracles: what the answers' own `usage` says for tokens and cache, the answers' `x-ds4-attempts` for
retries, log-probabilities asked of the workers directly for the quantization error, and the price
of two workers for the cost.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ds4watch.config.shipped import shipped
from tests.flow.daemon import Answer, Daemon, ask, free_ports, is_running, new_daemon, until
from tests.integration import money

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

START_SECONDS = 300.0
PREFIX = "A prefix that both workers are to keep in their caches, word for word. " * 8
TOKENS = {
    "ds4_prompt_tokens_total": "prompt",
    "ds4_prefill_tokens_total": "prefill",
    "ds4_cached_tokens_total": "cached",
    "ds4_generated_tokens_total": "generated",
}


def begin(daemon: Daemon) -> None:
    """Start the daemon and wait, as long as two real vLLM may take."""
    daemon.start()
    until(daemon.is_ready, "two real workers ready", seconds=START_SECONDS)


@pytest.fixture(scope="module")
def daemon(vllm_python: Path) -> Iterator[Daemon]:
    fleet = {
        "vllm_python": str(vllm_python),
        "workers": [{"profile": "tiny-full"}, {"profile": "tiny-quantized"}],
        # canaries and quality runs are tokens too; here each token has to be accounted for
        "canary_interval_seconds": 3600,
        "start_timeout_seconds": START_SECONDS,
    }
    quality = {"golden_at": None, "interval_seconds": 3600}
    with new_daemon(fleet=fleet, sections={"quality": quality}) as daemon:
        begin(daemon)
        until(lambda: daemon.metric("ds4_quantization_error{"), "a first quality run")
        yield daemon


def total(daemon: Daemon, name: str) -> float:
    """Return the sum of a signal over its series on /metrics."""
    page = ask(daemon.admin_port, "/metrics").body.decode()
    return sum(
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith((f"{name}{{", f"{name} "))
    )


def tokens(daemon: Daemon) -> dict[str, float]:
    return {name: total(daemon, name) for name in TOKENS}


def quiet(daemon: Daemon) -> dict[str, float]:
    """Return the tokens once they have stood still: vLLM counts a moment after it answers."""

    def look() -> dict[str, float] | None:
        before, until_at = tokens(daemon), daemon.status()["at"] + 2.5
        until(lambda: daemon.status()["at"] >= until_at)
        return before if tokens(daemon) == before else None

    return until(look, "no token counted for two seconds")


def complete(
    daemon: Daemon, prompt: str, *, headers: dict[str, str] | None = None, **fields: Any
) -> Answer:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 6, "temperature": 0} | fields
    answer = ask(daemon.gateway_port, "/v1/completions", body, headers=headers, seconds=120)
    assert answer.status == 200, answer.body
    return answer


def usage_of(answer: Answer) -> dict[str, int]:
    """Return what an answer, plain or streamed, says of its tokens."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        events = [line[6:] for line in answer.body.decode().splitlines() if line[:6] == "data: "]
        assert events[-1] == "[DONE]"
        usage = json.loads(events[-2])["usage"]
    else:
        usage = answer.json()["usage"]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return {
        "prompt": usage["prompt_tokens"],
        "cached": cached,
        "prefill": usage["prompt_tokens"] - cached,
        "generated": usage["completion_tokens"],
    }


def summed(told: list[dict[str, int]]) -> dict[str, float]:
    return {name: float(sum(it[what] for it in told)) for name, what in TOKENS.items()}


def test_it_told_what_it_waited_for_and_took_nothing_for_ready_without_an_answer(
    daemon: Daemon,
) -> None:
    log = daemon.log_text()
    assert "making the model folder" in log
    assert "waiting for tiny-full-0: loading the model" in log
    steps = [row["summary"] for row in daemon.audit("worker") if row["target"] == "tiny-full-0"]
    assert steps[-1] == "warming → ready: answered a canary, warmed up"


def test_every_token_of_every_answer_is_counted_once(daemon: Daemon) -> None:
    before, booked = quiet(daemon), daemon.booked()
    told = [usage_of(complete(daemon, f"{PREFIX}{number}")) for number in range(8)]
    streamed: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    told += [usage_of(complete(daemon, f"{PREFIX}{number}", **streamed)) for number in range(4)]
    assert summed(told)["ds4_cached_tokens_total"] > 0, "the oracle itself sees no cache hits"

    def growth() -> dict[str, float]:
        return {name: value - before[name] for name, value in tokens(daemon).items()}

    until(lambda: growth() == summed(told), f"{summed(told)} on /metrics, got {growth()}")
    until(lambda: daemon.booked() - booked == len(told), "all requests in the ledger")
    ((prompt, cached, generated),) = daemon.rows(
        "SELECT sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens) FROM requests_hourly"
    )
    assert (prompt, cached, generated) == tuple(
        sum(it[what] for it in told) for what in ("prompt", "cached", "generated")
    )
    assert total(daemon, "ds4_retry_count_total") == 0


def test_ratios_and_speeds_follow_from_the_counters(daemon: Daemon) -> None:
    complete(daemon, PREFIX)
    signals = until(lambda: shares(daemon), "shares of the last minute")
    assert all(0 <= value <= 1 for value in signals.values())
    assert total(daemon, "ds4_prefill_seconds_total") > 0
    assert total(daemon, "ds4_decode_seconds_total") > 0
    assert daemon.metric("ds4_cost_per_hour{") == pytest.approx(2 * 0.95)
    spent = daemon.metric("ds4_cost_spent_total{")
    assert spent is not None
    status = daemon.status()
    hours = (status["at"] - status["started_at"]) / 3600
    assert 0 < spent <= 2 * 0.95 * hours + 1e-4


def shares(daemon: Daemon) -> dict[str, float]:
    names = ("ds4_cache_miss_ratio", "ds4_prefill_token_ratio", "ds4_prefill_time_ratio")
    signals = daemon.worker("tiny-full-0")["signals"]
    found = {name: signals[name] for name in names if name in signals}
    return found if len(found) == len(names) else {}


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_without_a_gpu_its_memory_is_absent_and_not_zero(daemon: Daemon) -> None:
    page = ask(daemon.admin_port, "/metrics").body.decode()
    assert "ds4_gpu_memory_used" not in page
    assert "ds4_gpu_memory_total" not in page


def test_the_quantization_error_is_what_the_workers_own_log_probabilities_say(
    daemon: Daemon,
) -> None:
    golden = shipped("serving/golden/divergence-8.jsonl").read_text(encoding="utf-8")
    differences = []
    for line in golden.splitlines():
        prompt = json.loads(line)["prompt"]
        full, quantized = (logprobs(daemon, name, prompt) for name in ("full", "quantized"))
        assert len(full) == len(quantized)
        differences += [abs(mine - theirs) for mine, theirs in zip(quantized, full, strict=True)]
    expected = sum(differences) / len(differences)
    assert expected > 0
    labels = 'metric="mean_abs_delta_logp",profile="tiny-quantized",reference="tiny-full"'
    measured = daemon.metric(f"ds4_quantization_error{{{labels}}}")
    assert measured == pytest.approx(expected, rel=1e-3)


def logprobs(daemon: Daemon, which: str, prompt: str) -> list[float]:
    """Return log p of each token of the prompt after the first, asked of the worker itself."""
    port = urllib.parse.urlsplit(daemon.worker(f"tiny-{which}-0")["url"]).port
    assert port is not None
    body = {"model": f"tiny-{which}", "prompt": prompt, "max_tokens": 1, "prompt_logprobs": 0}
    answer = ask(port, "/v1/completions", body, seconds=60).json()
    positions = answer["choices"][0]["prompt_logprobs"][1:]
    return [next(iter(position.values()))["logprob"] for position in positions]


@pytest.mark.prometheus
def test_a_real_prometheus_scrapes_it_without_a_warning_and_sees_the_same(
    daemon: Daemon, tmp_path: Path, program: Callable[[str], Path]
) -> None:
    (port,) = free_ports(1)
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: ds4watch\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{daemon.admin_port}']}}]\n"
    )
    log = tmp_path / "prometheus.log"
    with (
        log.open("w") as stream,
        subprocess.Popen(
            [
                str(program("prometheus")),
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=stream,
            stderr=stream,
        ) as prometheus,
    ):
        try:
            counted = quiet(daemon)["ds4_generated_tokens_total"]
            until(
                lambda: queried(port, "sum(ds4_generated_tokens_total)") == f"{counted:g}",
                f"{counted:g} generated tokens in Prometheus",
            )
            assert queried(port, 'up{job="ds4watch"}') == "1"
            assert queried(port, 'count({__name__=~"ds4_.*"}) > 50')
            assert "level=warn" not in log.read_text()
        finally:
            prometheus.terminate()
            prometheus.wait(30)


def queried(port: int, expression: str) -> str | None:
    """Return the value of an instant query with one result; None without a result."""
    try:
        path = f"/api/v1/query?query={urllib.parse.quote(expression)}"
        results = ask(port, path).json()["data"]["result"]
    except (OSError, ValueError, KeyError):
        return None
    return results[0]["value"][1] if results else None


def test_load_makes_it_degrade_and_calm_makes_it_recover(daemon: Daemon) -> None:
    url = f"http://127.0.0.1:{daemon.gateway_port}"
    options = ("--concurrency", "24", "--seconds", "60", "--max-tokens", "48", "--model", "tiny")
    load = daemon.begin("load", "--url", url, *options)
    try:
        until(lambda: daemon.level() == 1, "level 1", seconds=60)
        answer = complete(daemon, "How long?", max_tokens=200, ignore_eos=True)
        assert "max_tokens=32" in answer.headers["x-ds4-degraded"]
        assert usage_of(answer)["generated"] == 32
    finally:
        load.send_signal(signal.SIGINT)
        load.communicate(timeout=60)
    until(lambda: daemon.level() == 0, "level 0 again", seconds=60)
    answer = complete(daemon, "How long?", max_tokens=40, ignore_eos=True)
    assert "x-ds4-degraded" not in answer.headers
    assert usage_of(answer)["generated"] == 40
    story = [row["summary"] for row in daemon.audit() if row["kind"] in ("alert", "outcome")]
    wanted = ["inactive → pending", "pending → firing", "level 1", "firing → resolved", "level 0"]
    for step in wanted:
        position = next(at for at, summary in enumerate(story) if step in summary)
        story = story[position + 1 :]


def test_no_death_of_worker_or_daemon_loses_a_request_or_restarts_what_is_well(
    daemon: Daemon,
) -> None:
    before = daemon.note_pids()
    retried = total(daemon, "ds4_retry_count_total")
    with ThreadPoolExecutor(16) as pool:
        prompts = [f"Number {number}: go on." for number in range(48)]
        # of all lengths: equal ones end together, and then a death meets nothing that runs
        answers = [
            pool.submit(complete, daemon, prompt, max_tokens=48 + 16 * (at % 8), ignore_eos=True)
            for at, prompt in enumerate(prompts)
        ]
        until(lambda: sum(it.done() for it in answers) >= 8, "some answers", seconds=60)
        os.kill(before["worker/tiny-quantized-0"], signal.SIGKILL)
        attempts = [int(it.result().headers["x-ds4-attempts"]) for it in answers]
    assert sum(attempts) > len(attempts), "the death was not felt: nothing is shown"
    until(
        lambda: total(daemon, "ds4_retry_count_total") - retried == sum(attempts) - len(attempts),
        f"{sum(attempts) - len(attempts)} retries counted",
    )

    daemon.signal(signal.SIGKILL)
    daemon.wait()
    complete(daemon, "Is anybody there?")
    begin(daemon)
    after = daemon.note_pids()
    assert after["worker/tiny-full-0"] == before["worker/tiny-full-0"]
    assert after["gateway/g0"] == before["gateway/g0"]
    assert after["worker/tiny-quantized-0"] != before["worker/tiny-quantized-0"]
    assert total(daemon, "ds4_retry_count_total") - retried == sum(attempts) - len(attempts)


def test_money_and_tokens_of_each_key_are_what_workers_cost_and_count(daemon: Daemon) -> None:
    """After all that was before: retries, deaths, load, a restart."""
    keys = {name: money.new_key(daemon, name) for name in ("team-a", "team-b")}
    until(lambda: ask(daemon.gateway_port, "/v1/models").status == 401, "a gateway with keys")
    before, known = money.counted(daemon), daemon.booked()
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    told: dict[str, list[dict[str, int]]] = {name: [] for name in keys}
    for number in range(24):
        name = "team-a" if number % 3 else "team-b"
        more: dict[str, Any] = streamed if number % 2 else {}
        prompt = f"{PREFIX}{number % 5}" if number % 4 else f"{number} is new."
        answer = complete(daemon, prompt, headers=keys[name], max_tokens=3 + number % 7, **more)
        told[name].append(usage_of(answer))
    until(lambda: daemon.booked() == known + 24, "all in the ledger")
    sums = {
        name: tuple(sum(it[what] for it in all_) for what in ("prompt", "cached", "generated"))
        for name, all_ in told.items()
    }
    assert {name: money.booked(daemon, name) for name in keys} == sums
    assert tuple(map(sum, zip(*sums.values(), strict=True))) == money.grown(daemon, before)
    assert sums["team-a"][1] > 0, "nothing came out of a cache: nothing is shown"

    before = money.counted(daemon)
    for number in range(6):
        money.leave_early(daemon, keys["team-b"], f"{number}: go on", events=3 + number)
    until(lambda: daemon.booked() == known + 30, "what was cut in the ledger")
    prompts, _, answers = money.grown(daemon, before)
    cut = [mine - whole for mine, whole in zip(
        money.booked(daemon, "team-b"), sums["team-b"], strict=True
    )]  # fmt: skip
    assert cut[0] == prompts
    assert 0 < cut[2] <= answers


def test_parts_keys_and_causes_each_sum_to_exactly_what_was_paid(daemon: Daemon) -> None:
    def wasted() -> bool:
        parts = money.cost(daemon, "by", "part", "--days", "2")["nanos"]
        return {"prefill", "decode", "retries", "idle", "starting"} <= set(parts)

    until(wasted, "every part of what was done", seconds=60)
    # Ticks go on: what is told has to be between what was paid before and after.
    before = money.paid(daemon)
    by_part = money.cost(daemon, "by", "part", "--days", "2")
    after = money.paid(daemon)
    found: Counter[tuple[str, str]] = Counter()
    for row in by_part["costs"]:
        found[row["worker"], row["profile"]] += row["nanos"]
    assert found.keys() == before.keys() == after.keys()
    assert all(before[it] <= found[it] <= after[it] for it in found)
    ((off,),) = daemon.rows(
        "SELECT (SELECT sum(nanos) FROM paid_hourly) - (SELECT sum(nanos) FROM cost_hourly)"
    )
    assert off == 0
    for what in ("part", "key", "model", "profile", "worker"):
        told = money.cost(daemon, "by", what, "--days", "2")
        assert sum(told["nanos"].values()) + told["nobody"] == told["total"], what
        assert told["total"] == sum(row["nanos"] for row in told["costs"]), what
    by_key = money.cost(daemon, "by", "key", "--days", "2")["nanos"]
    assert all(by_key[name] > 0 for name in ("team-a", "team-b"))

    hour = money.busiest_hour(daemon)
    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    money.seed_hour_before(daemon, hour)
    begin(daemon)
    why = money.cost(daemon, "why", "--at", str(hour + 1))
    assert {it["measure"] for it in why["measures"]} == {"spent", "used", "used_per_1k_tokens"}
    for it in why["measures"]:
        assert sum(it["causes"].values()) == it["actual"] - it["expected"], it
        assert any(it["causes"].values())


def test_down_leaves_no_process_and_no_port(daemon: Daemon) -> None:
    daemon.note_pids()
    ports = daemon.ports()
    done = daemon.command("down", *daemon.options)
    assert done.returncode == 0, done.stderr
    assert daemon.wait() == 0
    assert not any(is_running(pid) for pids in daemon.seen.values() for pid in pids)
    daemon.assert_nothing_is_left(ports)
