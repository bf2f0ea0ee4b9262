from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ds4watch.gateway.state import GatewayState
from ds4watch.model.service_policy import Board, Limits, ServicePolicy
from ds4watch.model.worker import WorkerPhase
from tests.edge.gateway.support import CHAT, FakeWorker, Front, board_of, front_of

TIGHT = ServicePolicy(
    version=7,
    level=1,
    level_name="tight",
    limits=Limits(max_tokens_cap=16),
    ladder=(Limits(), Limits(max_tokens_cap=16)),
)


@dataclass
class Daemon:
    """The daemon's end of the control socket."""

    messages: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while line := await reader.readline():
            self.messages.put_nowait(json.loads(line))
        writer.close()

    async def heard(self) -> dict[str, Any]:
        async with asyncio.timeout(5):
            return await self.messages.get()

    def say(self, text: str | dict[str, Any]) -> None:
        line = text if isinstance(text, str) else json.dumps(text)
        self.writers[-1].write(line.encode() + b"\n")

    def push(self, board: Board) -> None:
        self.say({"type": "board", "board": board.as_json()})


@asynccontextmanager
async def daemon_at(state_dir: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon()
    path = state_dir / "control.sock"
    server = await asyncio.start_unix_server(daemon.serve, path=path)
    try:
        yield daemon
    finally:
        server.close()
        for writer in daemon.writers:
            writer.close()
        path.unlink(missing_ok=True)


async def test_a_board_is_obeyed_at_once_and_acknowledged(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        daemon_at(tmp_path) as daemon,
        front_of(tmp_path, board_of(worker.view(), version=3)) as front,
    ):
        hello = await daemon.heard()
        assert (hello["type"], hello["gateway"], hello["board_version"]) == ("hello", "g0", 3)
        assert hello["policy_version"] == 0
        assert hello["pid"] > 0
        daemon.push(board_of(worker.view(), policy=TIGHT, version=4))
        ack = await daemon.heard()
        assert ack == {"type": "ack", "gateway": "g0", "board_version": 4, "policy_version": 7}
        async with front.post(CHAT) as response:
            assert response.headers["x-ds4-degraded"] == "level=1;max_tokens=16"
        daemon.push(board_of(worker.view(), version=1))
        assert (await daemon.heard())["board_version"] == 1
        async with front.post(CHAT) as response:
            assert "x-ds4-degraded" not in response.headers


async def test_stats_are_told_when_asked_for(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        daemon_at(tmp_path) as daemon,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        await daemon.heard()
        async with front.post(CHAT):
            pass
        daemon.say({"type": "stats"})
        assert await daemon.heard() == {
            "type": "stats",
            "gateway": "g0",
            "inflight": 0,
            "inflight_by_worker": {},
            "requests_total": 1,
            "unserved": {},
            "filtered": [],
            "scores": {},
            "aside": {},
            "long_open": 0,
            "long_waiting": 0,
            "long_sessions": [0, 0],
            "prefix_windows": {"followed": 0, "timed_out": 0, "waited_seconds": 0.0},
            "compression": {
                "compressed": 0,
                "skipped": 0,
                "tokens_before": 0,
                "tokens_after": 0,
            },
            "waiting": 0,
            "waited": 0,
            "waited_seconds": 0.0,
            "long_inflight": 0,
            "shed": {},
            "abnormal": {},
            "degraded": {},
        }


async def test_nonsense_from_the_daemon_changes_nothing(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        daemon_at(tmp_path) as daemon,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        await daemon.heard()
        good = board_of(worker.view(), version=9).as_json()
        wrong_url = good["workers"][0] | {"url": 5}
        for odd in (
            "{",
            "[]",
            "[" * 50_000,
            '{"type": "board"}',
            '{"type": "dance"}',
            {"type": "board", "board": good | {"workers": [wrong_url]}},
            {"type": "board", "board": good | {"policy": {}}},
            {"type": "board", "board": good | {"version": "x"}},
        ):
            daemon.say(odd)
        daemon.say({"type": "stats"})
        assert (await daemon.heard())["type"] == "stats"
        assert front.serving.state.board.version == 1
        async with front.post(CHAT) as response:
            assert response.status == 200


async def test_without_a_daemon_it_serves_on_and_finds_the_next_one(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view())) as front,
    ):
        for _ in range(2):
            async with daemon_at(tmp_path) as daemon:
                assert (await daemon.heard())["type"] == "hello"
            async with front.post(CHAT) as response:
                assert response.status == 200


async def test_limits_are_taken_back_once_the_lease_has_run_out(tmp_path: Path) -> None:
    short = replace(TIGHT, lease_seconds=0.2, excluded_workers=("w2",))
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), policy=short)) as front,
    ):
        assert front.serving.state.policy.level == 1
        async with asyncio.timeout(5):
            while front.serving.state.policy.level:
                await asyncio.sleep(0.02)
        async with front.post(CHAT) as response:
            assert "x-ds4-degraded" not in response.headers
        assert front.serving.state.policy.excluded_workers == ("w2",)


class SteppedClock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


def test_a_board_gives_back_what_had_lapsed() -> None:
    clock = SteppedClock()
    state = GatewayState(clock=clock, draw=lambda: 0.0, retry_budget_ratio=0.1)
    state.apply(board_of(policy=TIGHT))
    clock.at = 599
    state.lapse()
    assert state.policy.level == 1
    clock.at = 600
    state.lapse()
    assert (state.policy.level, state.board.policy.level) == (0, 1)
    state.apply(board_of(policy=TIGHT))
    assert state.policy.level == 1


async def test_a_request_waits_for_a_worker_that_is_woken_and_the_daemon_hears_of_it(
    tmp_path: Path,
) -> None:
    async with (
        FakeWorker("w1", phase=WorkerPhase.ASLEEP) as worker,
        daemon_at(tmp_path) as daemon,
        front_of(tmp_path, board_of(worker.view()), wake_wait_seconds=10.0) as front,
    ):
        await daemon.heard()
        asked = asyncio.create_task(posted(front))
        while front.serving.state.unserved != {"m": 1}:
            await asyncio.sleep(0.01)
        daemon.say({"type": "stats"})
        stats = await daemon.heard()
        assert (stats["unserved"], stats["inflight"]) == ({"m": 1}, 1)
        worker.phase = WorkerPhase.WARMING
        daemon.push(board_of(worker.view(), version=2))
        assert (await daemon.heard())["board_version"] == 2
        assert not asked.done()
        worker.phase = WorkerPhase.READY
        daemon.push(board_of(worker.view(), version=3))
        assert await asked == 200


@pytest.mark.parametrize(
    ("phase", "seconds"),
    [(WorkerPhase.ASLEEP, 0.05), (WorkerPhase.LOADING, 600.0), (WorkerPhase.ABSENT, 600.0)],
)
async def test_a_wait_has_a_bound_and_nobody_waits_for_a_start_that_takes_minutes(
    tmp_path: Path, phase: WorkerPhase, seconds: float
) -> None:
    async with (
        FakeWorker("w1", phase=phase) as worker,
        front_of(tmp_path, board_of(worker.view()), wake_wait_seconds=seconds) as front,
        front.post(CHAT) as response,
    ):
        assert response.status == 503
        assert response.headers["Retry-After"]


async def posted(front: Front) -> int:
    async with front.post(CHAT) as response:
        return int(response.status)
