"""What a daemon's ledger says, and what its real workers count themselves."""

from __future__ import annotations

import http.client
import json
import sqlite3
import time
import urllib.parse
from collections import Counter
from contextlib import closing
from typing import Any

from tests.flow.daemon import PATIENCE_SECONDS, Daemon, ask, until

HOUR_SECONDS = 3600
_COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:generation_tokens_total",
)
_SETTLE_SECONDS = 2.0


def new_key(daemon: Daemon, name: str) -> dict[str, str]:
    """Make a key; return the headers that it is sent with."""
    ended = daemon.command("keys", "add", name, *daemon.options)
    assert ended.returncode == 0, ended.stderr
    return {"Authorization": f"Bearer {ended.stdout.strip()}"}


def counted(daemon: Daemon) -> Counter[str]:
    """Return what both workers count themselves, once it stands still."""

    def standing() -> Counter[str] | None:
        before = _counters(daemon)
        time.sleep(_SETTLE_SECONDS)  # vLLM counts a moment after it answers
        return before if _counters(daemon) == before else None

    return until(standing, "no token counted", seconds=120)


def _counters(daemon: Daemon) -> Counter[str]:
    found: Counter[str] = Counter()
    for worker in daemon.status()["fleet"]:
        port = urllib.parse.urlsplit(worker["url"]).port
        assert port is not None
        for line in ask(port, "/metrics").body.decode().splitlines():
            for name in _COUNTERS:
                if line.startswith((f"{name}{{", f"{name} ")):
                    found[name] += int(float(line.rpartition(" ")[2]))
    return found


def grown(daemon: Daemon, before: Counter[str]) -> tuple[int, int, int]:
    """Return the tokens of prompts, of them from the cache, and of answers since `before`."""
    after = counted(daemon)
    prompt, cached, generated = (after[name] - before[name] for name in _COUNTERS)
    return prompt, cached, generated


def booked(daemon: Daemon, key: str) -> tuple[int, int, int]:
    """Return the same of a key's requests, as the store of the ledger has it."""
    ((prompt, cached, generated),) = daemon.rows(
        "SELECT coalesce(sum(prompt_tokens), 0), coalesce(sum(cached_tokens), 0),"
        f" coalesce(sum(completion_tokens), 0) FROM requests_hourly WHERE key = '{key}'"
    )
    return int(prompt), int(cached), int(generated)


def leave_early(daemon: Daemon, headers: dict[str, str], prompt: str, *, events: int) -> None:
    """Ask for a long streamed answer, and close the connection after some of it."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 900, "ignore_eos": True}
    address = ("127.0.0.1", daemon.gateway_port)
    with closing(http.client.HTTPConnection(*address, timeout=PATIENCE_SECONDS)) as connection:
        sent = {"Content-Type": "application/json", **headers}
        connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}), sent)
        response = connection.getresponse()
        assert response.status == 200
        seen = 0
        while seen < events:
            seen += response.readline().startswith(b"data: ")


def cost(daemon: Daemon, *words: str) -> dict[str, Any]:
    """Return what `ds4watch cost` tells."""
    ended = daemon.command("cost", *words, "--json", *daemon.options)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def paid(daemon: Daemon) -> Counter[tuple[str, str]]:
    """Return what was paid for each worker, by price and time."""
    rows = daemon.rows("SELECT worker, profile, sum(nanos) FROM paid_hourly GROUP BY 1, 2")
    return Counter({(worker, profile): int(nanos) for worker, profile, nanos in rows})


def busiest_hour(daemon: Daemon) -> int:
    """Return the hour that most requests of the ledger ended in, in unix seconds."""
    ((at,),) = daemon.rows(
        "SELECT unixepoch(hour_at) FROM requests_hourly GROUP BY 1 ORDER BY sum(requests) DESC"
        " LIMIT 1"
    )
    return int(at)


def seed_hour_before(daemon: Daemon, hour: int) -> None:
    """Give a daemon that is down a whole hour to compare one with, half as dear and as busy."""
    with closing(sqlite3.connect(daemon.state / "state.db", timeout=PATIENCE_SECONDS)) as opened:
        ((kept,),) = opened.execute("SELECT value FROM meta WHERE name = 'carry'").fetchall()
        carry = json.loads(kept)
        seconds, spent, used, *work = carry["cost_hours"][str(hour)]
        share = HOUR_SECONDS / seconds / 2
        halved = [round(spent * share), round(used * share)]
        rest = [round(it * share) for it in work]
        carry["cost_hours"][str(hour - HOUR_SECONDS)] = [float(HOUR_SECONDS), *halved, *rest]
        opened.execute("UPDATE meta SET value = ? WHERE name = 'carry'", (json.dumps(carry),))
        opened.commit()
