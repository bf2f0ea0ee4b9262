"""A running daemon's books: clients' requests and our own are all that the workers counted."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.flow.daemon import Daemon, ask, chat, new_daemon, until

pytestmark = pytest.mark.slow

COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.up()
        yield daemon


def counted(daemon: Daemon) -> list[float]:
    """Return what all workers have read and written."""
    sums = [0.0, 0.0]
    for worker in daemon.status()["fleet"]:
        with urllib.request.urlopen(worker["url"] + "/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        for at, name in enumerate(COUNTERS):
            sums[at] += sum(float(it.rsplit(" ", 1)[1]) for it in lines if it.startswith(name))
    return sums


def booked(daemon: Daemon) -> list[float]:
    clients, ours = (
        daemon.rows(
            f"SELECT coalesce(sum({prompt}), 0), coalesce(sum(completion_tokens), 0) FROM {table}"
        )[0]
        for table, prompt in (
            ("requests_hourly", "worker_prompt_tokens"),
            ("own_requests_hourly", "prompt_tokens"),
        )
    )
    return [float(one + other) for one, other in zip(clients, ours, strict=True)]


def test_clients_and_our_own_are_together_what_the_workers_counted(daemon: Daemon) -> None:
    for at in range(6):
        body = chat() | {"messages": [{"role": "user", "content": f"number {at}"}], "n": 1 + at % 2}
        assert ask(daemon.gateway_port, "/v1/chat/completions", body).status == 200
    until(lambda: daemon.booked() == 6, "six requests in the books")
    until(lambda: booked(daemon) == counted(daemon), "the books to be as the workers count")
    own = {work for (work,) in daemon.rows("SELECT DISTINCT work FROM own_requests_hourly")}
    assert "canary" in own


def test_they_are_added_up_on_the_command_line_and_cost_no_more_than_was_spent(
    daemon: Daemon,
) -> None:
    told = daemon.command("requests", "--by", "model", "--json", *daemon.options)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)["requests"]
    assert sum(it["requests"] for it in found) == 6
    ((busy,),) = daemon.rows(
        "SELECT coalesce(sum(nanos), 0) FROM cost_hourly"
        " WHERE part IN ('busy', 'prefill', 'decode')"
    )
    assert 0 <= sum(it["nanos"] for it in found) <= busy
    shown = daemon.command("requests", *daemon.options)
    assert shown.returncode == 0, shown.stderr
    assert "generated" in shown.stdout
