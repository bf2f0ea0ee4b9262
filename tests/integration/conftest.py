"""Fixtures that need programs of others: one pair of real vLLM workers for the whole session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest

from tests.conftest import TINY_PROFILES, profile_of
from tests.integration.workers import RealWorker, running


@pytest.fixture(scope="session")
def real_workers(vllm_python: Path, tiny_models: Path) -> Iterator[Mapping[str, RealWorker]]:
    """Yield the tiny-full and tiny-quantized workers, by name."""
    profiles = [profile_of(name) for name in TINY_PROFILES]
    with running(profiles, python=vllm_python, state_dir=tiny_models) as workers:
        yield workers


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Yield an HTTP session."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as opened:
        yield opened
