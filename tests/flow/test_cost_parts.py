"""A running daemon's money: parts of each worker's hour are exactly what was paid for it."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.flow.daemon import Daemon, ask, chat, new_daemon, until

pytestmark = pytest.mark.slow

TALK = {"X-Session-ID": "talk"}
PART = '{"role": "user", "content": "' + "tell me more of it, please " * 20 + '"}'


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.up()
        yield daemon


def say(daemon: Daemon, turns: int) -> None:
    body = chat() | {"messages": [json.loads(PART)] * turns}
    assert ask(daemon.gateway_port, "/v1/chat/completions", body, headers=TALK).status == 200


def forget_prefixes(daemon: Daemon) -> None:
    for worker in daemon.status()["fleet"]:
        request = urllib.request.Request(worker["url"] + "/reset_prefix_cache", method="POST")
        urllib.request.urlopen(request, timeout=5).close()


def leave_once_seen(daemon: Daemon) -> None:
    """Ask the worker of the talk for a long answer, and leave once a scrape saw it at work."""
    body = json.dumps(chat() | {"stream": True, "max_tokens": 4000}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-Session-ID: talk\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", daemon.gateway_port), timeout=10) as client:
        client.sendall(head.encode() + body)
        seen = b""
        while seen.count(b"data: ") < 3:
            seen += client.recv(4096)
        busy = "SELECT 1 FROM cost_hourly WHERE part IN ('busy', 'prefill', 'decode')"
        until(lambda: daemon.rows(busy), "a worker at work")


def told(daemon: Daemon, *words: str) -> dict[str, Any]:
    ended = daemon.command("cost", *words, "--json", "--config", str(daemon.config))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_parts_of_every_hour_are_what_was_paid_for_it(daemon: Daemon) -> None:
    say(daemon, 2)
    until(lambda: daemon.booked() == 1, "the first turn in the books")
    forget_prefixes(daemon)
    say(daemon, 3)
    leave_once_seen(daemon)
    until(lambda: daemon.booked() == 3, "all requests in the books")
    wanted = {"prefill", "prefill_again", "decode", "retries", "starting", "spare"}

    def seen() -> bool:
        return wanted <= {row["part"] for row in told(daemon, "by", "part", "--days", "2")["costs"]}

    until(seen, "every part")
    (again, computed), *_ = daemon.rows(
        "SELECT sum(again_tokens), sum(prompt_tokens - cached_tokens) FROM work_hourly"
    )
    assert 1000 < again < computed  # the first two turns, once more
    # Ticks go on: what is told has to be between what was paid before and after.
    before = paid(daemon)
    found: Counter[tuple[str, str]] = Counter()
    for row in told(daemon, "by", "part", "--days", "2")["costs"]:
        found[row["worker"], row["profile"]] += row["nanos"]
    after = paid(daemon)
    assert found.keys() == before.keys() == after.keys()
    assert all(before[it] <= found[it] <= after[it] for it in found)
    ((off,),) = daemon.rows(
        "SELECT (SELECT sum(nanos) FROM paid_hourly) - (SELECT sum(nanos) FROM cost_hourly)"
    )
    assert off == 0


def paid(daemon: Daemon) -> dict[tuple[str, str], int]:
    rows = daemon.rows("SELECT worker, profile, sum(nanos) FROM paid_hourly GROUP BY 1, 2")
    return {(worker, profile): nanos for worker, profile, nanos in rows}


def test_lengths_of_prompts_share_out_the_busy_money(daemon: Daemon) -> None:
    bands = told(daemon, "by", "context", "--days", "2")["bands"]
    assert {"1k", "2k"} & bands.keys()
    assert sum(it["requests"] for it in bands.values()) == 3
    assert all(it["nanos"] > 0 for it in bands.values() if it["completion_tokens"])


def test_metrics_have_parts_lengths_and_opencosts_names(daemon: Daemon) -> None:
    def page() -> str:
        return ask(daemon.admin_port, "/metrics").body.decode()

    until(lambda: 'part="decode"' in page(), "parts, which are reckoned every ten seconds")
    assert 'llm_total_hourly_cost{cost_basis="allocation"' in page()
    until(lambda: 'ds4_context_hour_requests{band="' in page(), "lengths of prompts")
