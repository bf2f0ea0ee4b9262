"""What is never sent to a Ray cluster, shown without one."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.errors import WorkerError
from tests.conftest import profile_of
from tests.edge.fleet.fleets import RayFleet


@pytest.mark.parametrize(
    "update", [{"sleep": True}, {"environment": {"VLLM_SERVER_DEV_MODE": "1"}}], ids=str
)
async def test_no_worker_with_development_endpoints_listens_on_a_clusters_network(
    update: dict[str, object], state_dir: Path
) -> None:
    spec = WorkerSpec("a-0", profile_of("qwen2.5-7b-bf16").model_copy(update=update))
    async with AsyncExitStack() as stack:
        backend = await RayFleet(state_dir, 21_000, "http://127.0.0.1:9", stack).daemon()
        with pytest.raises(WorkerError, match="loopback only"):
            await backend.start(spec)
        assert not backend.is_alive(spec)
