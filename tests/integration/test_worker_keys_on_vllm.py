"""A real vLLM that asks for a key: started with it, and asked with it, by all of us."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from ds4watch.fleet.backend import LocalBackend, LocalPlace
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.worker_keys import WorkerKeys
from ds4watch.model.errors import WorkerError
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.conftest import profile_of
from tests.edge.clock import SystemClock
from tests.edge.fleet.fleets import no_fault
from tests.edge.gateway.support import CHAT, board_of, front_of
from tests.flow.daemon import free_ports, until
from tests.integration.test_stop_on_vllm import START_SECONDS, is_healthy

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

KEY = "s3cret-of-the-worker"


async def test_vllm_is_started_and_asked_with_a_key(vllm_python: Path, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    profile = profile_of("tiny-full").model_copy(update={"api_key_file": str(file)})
    spec = WorkerSpec("tiny-0", profile)
    (port,) = free_ports(1)
    place = LocalPlace(
        state_dir=tmp_path,
        vllm_python=vllm_python,
        has_gpu=False,
        first_port=port,
        stop_grace_seconds=20.0,
        gpu_fault=no_fault,
    )
    backend = LocalBackend(place, ProcessTable(tmp_path, SystemClock()), SystemClock())
    await backend.start(spec)
    try:
        url = backend.url(spec)
        until(lambda: is_healthy(int(url.rpartition(":")[2])), "vLLM", seconds=START_SECONDS)
        arguments = Path(f"/proc/{backend.pid(spec)}/cmdline").read_bytes()
        keys = WorkerKeys(tmp_path, {})
        keys.note(url, keys.file_of(spec))
        async with aiohttp.ClientSession() as session:
            with pytest.raises(WorkerError, match="401"):
                await WorkerClient(session, url).canary("tiny")
            client = WorkerClient(session, url, api_key=keys.at(url))
            assert (await client.canary("tiny")).completion_tokens > 0
            assert "tiny" in await client.models()
            assert await client.prompt_logprobs("tiny", "a few words to score")
        kept = keys.file_of(spec)
        view = WorkerView(
            "tiny-0", "tiny-full", ("tiny",), url, WorkerPhase.READY, 1.0, api_key_file=kept
        )
        body = CHAT | {"model": "tiny", "max_tokens": 4}
        client_key = {"Authorization": "Bearer of-the-client"}
        async with front_of(tmp_path, board_of(view)) as front:
            async with front.post(body, headers=client_key) as response:
                assert response.status == 200, await response.text()
            async with front.post(body | {"stream": True}, headers=client_key) as response:
                assert (await response.text()).rstrip().endswith("[DONE]")
    finally:
        await backend.stop(spec)
    assert KEY.encode() not in arguments
    assert KEY not in backend.log_path(spec).read_text(errors="replace")
