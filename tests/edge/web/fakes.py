"""The admin server on ports that are in memory."""

from __future__ import annotations

import copy
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ds4watch.access.keys import digest
from ds4watch.access.roles import Role
from ds4watch.model.question import Question
from ds4watch.web.gate import Tokens
from ds4watch.web.listen import Tls, bind
from ds4watch.web.ports import Ports
from ds4watch.web.serve import admin_server
from ds4watch.web.server import AdminServer
from ds4watch.web.tokens import TokenEntry, TokenTable
from tests.edge.web.fake_answers import AT
from tests.edge.web.fake_daemon import FakeDaemon

SECRETS = {role: f"secret-of-the-{role}" for role in Role}
TOKENS = TokenTable(
    tuple(
        TokenEntry(role, digest(secret), role.value, is_local=True)
        for role, secret in SECRETS.items()
    )
)


class FixedClock:
    def now(self) -> float:
        return AT

    def monotonic(self) -> float:
        return 0.0


class FakeHistory:
    """The port of queries, in memory: it answers with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.error: Exception | None = None

    async def ask_body(self, question: Question) -> bytes:
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        body = b'{"status":"success","data":[]}'
        return gzip.compress(body) if question.compressed else body


class FakeFacts:
    """What a daemon with two rules, one alert and two targets tells."""

    def rule_groups(self) -> list[dict[str, Any]]:
        return copy.deepcopy(GROUPS)

    def alerts(self) -> list[dict[str, Any]]:
        return copy.deepcopy(GROUPS[0]["rules"][0]["alerts"])

    def targets(self) -> list[dict[str, Any]]:
        return [{"scrapePool": pool, "health": "up"} for pool in ("fleet", "others")]

    def metadata(self) -> dict[str, list[dict[str, str]]]:
        told = {"type": "gauge", "help": "Helps.", "unit": ""}
        return {name: [dict(told)] for name in ("a", "b", "c")}


GROUPS: list[dict[str, Any]] = [
    {
        "name": "load",
        "file": "a.yml",
        "rules": [
            {"name": "Busy", "type": "alerting", "alerts": [{"labels": {"alertname": "Busy"}}]},
            {"name": "load:sum", "type": "recording"},
        ],
    },
    {"name": "cost", "file": "b.yml", "rules": [{"name": "cost:sum", "type": "recording"}]},
]


def ports_of(daemon: FakeDaemon, queries: FakeHistory | None = None) -> Ports:
    histories = queries or FakeHistory()
    return Ports(
        daemon,
        daemon,
        FakeFacts(),
        histories,
        desk=daemon.desk,
        quality=daemon.quality,
        hooks=daemon.hooks,
    )


@asynccontextmanager
async def serving(
    daemon: FakeDaemon,
    *,
    queries: FakeHistory | None = None,
    open_reads: bool = True,
    port: int = 0,
    tokens: Tokens = TOKENS,
    tls: Tls | None = None,
    listener: socket.socket | None = None,
) -> AsyncIterator[AdminServer]:
    server = admin_server(
        listener or bind("127.0.0.1", port, setting="admin"),
        ports_of(daemon, queries),
        tokens=tokens,
        render_metrics=lambda: b"# HELP up x\n# TYPE up gauge\nup 1\n",
        clock=FixedClock(),
        open_reads=open_reads,
        tls=tls,
    )
    async with server:
        yield server
