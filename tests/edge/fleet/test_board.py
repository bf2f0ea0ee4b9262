"""The daemon's end of the control socket, against a gateway of a few lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds4watch.engine.gateway_signals import admission_samples
from ds4watch.fleet.board import BoardPublisher, last_fleet
from ds4watch.model.service_policy import Board, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerPhase, WorkerView
from tests.edge.clock import SystemClock


class FakeGateway:
    """Says hello, reads boards, acknowledges when told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, state_dir: Path, name: str) -> FakeGateway:
        path = str(state_dir / "control.sock")
        gateway = cls(*await asyncio.open_unix_connection(path, limit=1 << 20))
        gateway.say(type="hello", gateway=name, pid=1, board_version=0, policy_version=0)
        return gateway

    def say(self, **message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(5):
            heard: dict[str, Any] = json.loads(await self.reader.readline())
        return heard

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


WORKER = WorkerView(
    *("w", "p", ("m",), "http://127.0.0.1:1", WorkerPhase.READY),
    since=0.0,
    is_current=False,
    is_for_long=True,
)


@pytest.fixture
async def publisher(tmp_path: Path) -> AsyncIterator[BoardPublisher]:
    async with BoardPublisher(tmp_path, SystemClock(), policy=ServicePolicy()) as publisher:
        yield publisher


class SteppedClock(SystemClock):
    """Time as the test says."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


async def test_the_board_says_how_many_gateways_share_the_limits_once_that_is_known(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    fleet = FleetSnapshot(0.0, (WORKER,))
    async with BoardPublisher(tmp_path, clock, policy=ServicePolicy()) as publisher:
        one = await FakeGateway.connect(tmp_path, "g0")
        two = await FakeGateway.connect(tmp_path, "g1")
        assert await publisher.connected(2, timeout_seconds=5)
        publisher.publish_fleet(fleet)
        assert publisher.board.gateways == 0  # others may be on their way
        clock.at = 11.0
        publisher.publish_fleet(fleet)
        assert publisher.board.gateways == 2
        await two.close()
        while len(publisher.gateways()) == 2:
            await asyncio.sleep(0.01)
        publisher.publish_fleet(fleet)
        assert publisher.board.gateways == 2  # it may come back
        clock.at = 22.0
        publisher.publish_fleet(fleet)
        assert publisher.board.gateways == 1
        assert json.loads((tmp_path / "board.json").read_text())["gateways"] == 1
        await one.close()


async def test_what_a_gateway_did_to_requests_is_heard(
    publisher: BoardPublisher, tmp_path: Path
) -> None:
    gateway = await FakeGateway.connect(tmp_path, "g0")
    await gateway.hear()
    told = {"waiting": 2, "waited": 5, "waited_seconds": 0.5, "shed": {"priority": 3}}
    gateway.say(type="stats", inflight=1, **told)
    async with asyncio.timeout(5):
        while (counts := publisher.gateways()[0].admission) is None:
            await asyncio.sleep(0.01)
    assert (counts.waiting, counts.waited, counts.waited_seconds) == (2, 5, 0.5)
    assert (dict(counts.shed), dict(counts.degraded)) == ({"priority": 3}, {})
    samples = {it.name: it for it in admission_samples(publisher.gateways())}
    assert samples["ds4_gateway_waiting_requests"].value == 2
    shed = samples["ds4_gateway_shed_total"]
    assert (dict(shed.labels), shed.value) == ({"gateway": "g0", "reason": "priority"}, 3)
    await gateway.close()


async def test_a_gateway_gets_the_board_at_hello_and_at_each_change(
    publisher: BoardPublisher, tmp_path: Path
) -> None:
    gateway = await FakeGateway.connect(tmp_path, "g0")
    first = Board.from_json((await gateway.hear())["board"])
    publisher.publish_fleet(FleetSnapshot(at=7.0, workers=(WORKER,)))
    second = Board.from_json((await gateway.hear())["board"])
    assert (second.fleet.at, second.version) == (7.0, first.version + 1)
    written = json.loads((tmp_path / "board.json").read_text(encoding="utf-8"))
    assert Board.from_json(written) == second
    assert (tmp_path / "board.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "control.sock").stat().st_mode & 0o777 == 0o600
    await gateway.close()


async def test_a_change_of_load_alone_is_pushed_and_not_written(
    publisher: BoardPublisher, tmp_path: Path
) -> None:
    publisher.publish_fleet(FleetSnapshot(at=7.0, workers=(WORKER,)))
    written = (tmp_path / "board.json").read_bytes()
    gateway = await FakeGateway.connect(tmp_path, "g0")
    await gateway.hear()
    busy = replace(WORKER, load=WorkerLoad(running=3.0))
    publisher.publish_fleet(FleetSnapshot(at=8.0, workers=(busy,)))
    assert Board.from_json((await gateway.hear())["board"]).fleet.workers == (busy,)
    assert (tmp_path / "board.json").read_bytes() == written
    await gateway.close()


async def test_a_publisher_begins_with_who_of_the_last_fleet_still_runs(
    publisher: BoardPublisher, tmp_path: Path
) -> None:
    assert last_fleet(tmp_path, running=()) == FleetSnapshot(at=0.0)
    workers = (replace(WORKER, pid=3), replace(WORKER, id="gone", pid=4), WORKER)
    publisher.publish_fleet(FleetSnapshot(at=7.0, workers=workers))
    found = last_fleet(tmp_path, running={3})
    assert found == FleetSnapshot(at=7.0, workers=(workers[0], WORKER))
    async with BoardPublisher(tmp_path, SystemClock(), policy=ServicePolicy(), fleet=found):
        gateway = await FakeGateway.connect(tmp_path, "g0")
        assert Board.from_json((await gateway.hear())["board"]).fleet == found
        await gateway.close()


@pytest.mark.parametrize("text", ["", "[]", '{"workers": [{}], "at": 1}', '{"at": 1}'])
async def test_a_last_board_that_cannot_be_read_is_no_fleet(text: str, tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text(text, encoding="utf-8")
    assert last_fleet(tmp_path, running=()) == FleetSnapshot(at=0.0)


async def test_a_policy_is_applied_when_the_last_live_gateway_says_so(
    publisher: BoardPublisher, tmp_path: Path
) -> None:
    gateways = [await FakeGateway.connect(tmp_path, name) for name in ("g0", "g1")]
    assert await publisher.connected(2, timeout_seconds=5)
    for gateway in gateways:
        await gateway.hear()
    policy = replace(ServicePolicy(), version=4)
    applied = asyncio.create_task(publisher.publish_policy(policy, timeout_seconds=5))
    await gateways[0].hear()
    gateways[0].say(type="ack", board_version=1, policy_version=4)
    told = {"aside": {"w": "slow"}, "long_open": 2, "long_waiting": 1, "long_sessions": [9, 3]}
    gateways[0].say(type="stats", gateway="g0", inflight=3, **told)
    async with asyncio.timeout(5):
        while publisher.gateways()[0].inflight != 3:
            await asyncio.sleep(0.01)
    view = publisher.gateways()[0]
    assert (view.aside, view.long_open, view.long_waiting) == ({"w": "slow"}, 2, 1)
    assert view.long_sessions == (9, 3)
    assert not applied.done()
    gateways[1].say(type="ack", board_version=1, policy_version=4)
    assert await applied
    for gateway in gateways:
        await gateway.close()


async def test_a_gateway_that_dies_is_not_waited_for(
    publisher: BoardPublisher, tmp_path: Path
) -> None:
    gateways = [await FakeGateway.connect(tmp_path, name) for name in ("g0", "g1")]
    assert await publisher.connected(2, timeout_seconds=5)
    policy = replace(ServicePolicy(), version=1)
    applied = asyncio.create_task(publisher.publish_policy(policy, timeout_seconds=5))
    gateways[0].say(type="ack", board_version=1, policy_version=1)
    await gateways[1].close()
    assert await applied
    await gateways[0].close()


async def test_with_no_gateway_nothing_counts_as_applied(publisher: BoardPublisher) -> None:
    assert not await publisher.publish_policy(ServicePolicy(version=1), timeout_seconds=0.05)
    assert publisher.policy().version == 1


async def test_nonsense_on_the_socket_harms_nobody(
    publisher: BoardPublisher, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await FakeGateway.connect(tmp_path, "g0")
    await gateway.hear()
    bad = await FakeGateway.connect(tmp_path, "bad")
    bad.writer.write(b"{nonsense\n")
    async with asyncio.timeout(5):
        await bad.reader.read()
    publisher.publish_fleet(FleetSnapshot(at=1.0))
    assert (await gateway.hear())["type"] == "board"
    assert "not understood" in caplog.text
    await gateway.close()
    await bad.close()
