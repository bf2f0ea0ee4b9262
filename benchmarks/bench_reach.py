"""Time from a policy's commit to the last gateway's acknowledgement: `make bench-reach`."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ds4watch.fleet.board import BoardPublisher
from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView

GATEWAYS = 4
WORKERS = 100
POLICIES = 200
_SETTLE_SECONDS = 0.02


class Clock:
    """The machine's own."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


async def _gateway(state: Path, name: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ds4watch.gateway", "--name", name, "--state", str(state)),
        *("--host", "127.0.0.1", "--port", "0"),
        stderr=asyncio.subprocess.DEVNULL,
    )


def _fleet() -> FleetSnapshot:
    workers = [
        WorkerView(f"w{at}", "p", ("m",), f"http://127.0.0.1:{9000 + at}", WorkerPhase.READY, 0.0)
        for at in range(WORKERS)
    ]
    return FleetSnapshot(0.0, tuple(workers))


async def _measure(state: Path) -> list[float]:
    clock = Clock()
    took = []
    async with BoardPublisher(state, clock, policy=ServicePolicy(), fleet=_fleet()) as publisher:
        gateways = [await _gateway(state, f"g{number}") for number in range(GATEWAYS)]
        try:
            assert await publisher.connected(GATEWAYS, timeout_seconds=60)
            for version in range(1, POLICIES + 1):
                limits = Limits(max_tokens_cap=version)
                policy = ServicePolicy(version=version, level=1, limits=limits)
                began = clock.monotonic()
                assert await publisher.publish_policy(policy, timeout_seconds=10)
                took.append(clock.monotonic() - began)
                await asyncio.sleep(_SETTLE_SECONDS)
        finally:
            for gateway in gateways:
                gateway.terminate()
            await asyncio.gather(*(gateway.wait() for gateway in gateways))
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        took = sorted(1000 * it for it in asyncio.run(_measure(Path(folder))))
    print(f"{POLICIES} policies, {GATEWAYS} gateway processes, {WORKERS} workers on the board")
    print(
        f"acknowledged_by_all_ms median={statistics.median(took):.1f} "
        f"p99={took[int(len(took) * 0.99)]:.1f} max={took[-1]:.1f}"
    )


if __name__ == "__main__":
    main()
