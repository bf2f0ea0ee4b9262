"""Workers that die by SIGKILL under load: nobody who asked for a whole answer notices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from tests.edge.gateway.processes import gateway_of, load, running, sims, until
from tests.edge.gateway.support import board_of, records_in

pytestmark = pytest.mark.slow

CLIENTS = 200


async def test_no_whole_answer_is_lost_while_workers_die_and_come_back(tmp_path: Path) -> None:
    options = ("--max-num-seqs", "256", "--decode-tokens-per-second", "8")
    async with running(sims(3, *options)) as workers:
        board = board_of(*(worker.view for worker in workers))
        victim = workers[0]
        async with gateway_of(tmp_path, board) as gateway:
            async with load(gateway, CLIENTS) as clients:
                await clients.more(CLIENTS)
                await victim.kill()
                await clients.more(CLIENTS)
                await victim.start()
                seen = len(clients.answers)
                await until(lambda: (200, victim.name) in clients.answers[seen:])
                await workers[1].kill()
                await clients.more(CLIENTS)
            assert {status for status, _ in clients.answers} == {200}
            async with aiohttp.ClientSession() as http:
                assert (await gateway.health(http))["inflight"] == 0
    booked = Counter(record.id for record in records_in(tmp_path))
    assert set(booked.values()) == {1}
    retried = Counter(who for it in records_in(tmp_path) for who, _ in it.retries)
    assert set(retried) == {"w0", "w1"}
