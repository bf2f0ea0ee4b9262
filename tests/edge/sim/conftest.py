from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ds4watch.sim.server import RunningWorker
from ds4watch.sim.settings import SimSettings

FAST: dict[str, Any] = {
    "served_names": ("sim-full", "sim"),
    "prefill_tokens_per_second": 100_000.0,
    "decode_tokens_per_second": 1000.0,
}


class Client:
    """What a test wants of a worker: posts, its page as numbers."""

    def __init__(self, running: RunningWorker, session: aiohttp.ClientSession) -> None:
        self.running = running
        self.session = session
        self.url = running.url

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        async with self.session.post(self.url + path, json=body) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as response:
            assert response.status == 200
            return await response.json()

    async def chat(self, text: str = "Hello", **fields: Any) -> Any:
        body = {"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 4}
        return await self.post("/v1/chat/completions", body | fields)

    async def page(self) -> bytes:
        async with self.session.get(self.url + "/metrics") as response:
            assert response.status == 200
            return await response.read()

    async def values(self) -> dict[str, float]:
        """Samples by name and the labels that tell them apart: `name` or `name value value`."""
        return values_of((await self.page()).decode())

    async def fault(self, name: str, *, on: bool = True, value: float | None = None) -> Any:
        return await self.post("/sim/fault", {"fault": name, "on": on, "value": value})

    async def until(self, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """Read the page until it says what is waited for; the test's time limit ends it."""
        while True:
            values = await self.values()
            if condition(values):
                return values
            await asyncio.sleep(0.005)


def values_of(text: str) -> dict[str, float]:
    shared = {"engine", "model_name"}
    return {
        " ".join((sample.name, *(v for k, v in sample.labels.items() if k not in shared))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


StartSim: TypeAlias = Callable[..., Awaitable[Client]]


@asynccontextmanager
async def started(**fields: Any) -> AsyncIterator[Client]:
    settings = SimSettings(**(FAST | fields))
    async with RunningWorker(settings) as running, aiohttp.ClientSession() as session:
        yield Client(running, session)


@pytest.fixture
async def sim() -> AsyncIterator[StartSim]:
    """Start workers with settings of the test's own; all are stopped at its end."""
    async with AsyncExitStack() as stack:

        async def start(**fields: Any) -> Client:
            return await stack.enter_async_context(started(**fields))

        yield start
