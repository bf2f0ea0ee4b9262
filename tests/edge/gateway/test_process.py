from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web

from ds4watch.model.usage import RequestOutcome
from tests.edge.gateway.support import (
    CHAT,
    FakeWorker,
    answer,
    board_of,
    records_in,
    write_board,
)


@asynccontextmanager
async def gateway_process(
    state_dir: Path, *extra: str, port: int = 0, name: str = "g0"
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ds4watch.gateway",
        "--name",
        name,
        "--state",
        str(state_dir),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        *extra,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def url_of(process: asyncio.subprocess.Process) -> str:
    """Return its address once it says that it listens."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while line := (await process.stderr.readline()).decode():
            if " listening on " in line:
                return line.rsplit(" ", 1)[1].strip()
    message = "it ended without listening"
    raise AssertionError(message)


async def test_sigterm_finishes_what_is_open_and_keeps_every_record(tmp_path: Path) -> None:
    async def waits(worker: FakeWorker, request: web.Request) -> web.StreamResponse:
        await worker.release.wait()
        return await answer(worker, request)

    async with FakeWorker("w1", waits) as worker, aiohttp.ClientSession() as http:
        write_board(tmp_path, board_of(worker.view()))
        async with gateway_process(tmp_path) as process:
            url = await url_of(process)
            asking = asyncio.create_task(http.post(url + "/v1/chat/completions", json=CHAT))
            await worker.arrived.wait()
            process.send_signal(signal.SIGINT)  # the terminal's Ctrl-C is not for us
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(5):
                while await listens(url):
                    await asyncio.sleep(0.02)
            worker.release.set()
            response = await asking
            assert response.status == 200
            assert (await response.json())["choices"]
            async with asyncio.timeout(5):
                assert await process.wait() == 0
    assert [(r.seq, r.outcome) for r in records_in(tmp_path)] == [(1, RequestOutcome.OK)]


async def listens(url: str) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    except OSError:
        return False
    writer.close()
    return True


async def test_a_drain_ends_in_time_though_a_request_hangs(tmp_path: Path) -> None:
    async def hangs(worker: FakeWorker, _request: web.Request) -> web.StreamResponse:
        await worker.release.wait()
        return web.Response()

    async with FakeWorker("w1", hangs) as worker, aiohttp.ClientSession() as http:
        write_board(tmp_path, board_of(worker.view()))
        settings = json.dumps({"drain_seconds": 0.2})
        async with gateway_process(tmp_path, "--settings", settings) as process:
            url = await url_of(process)
            asking = asyncio.create_task(http.post(url + "/v1/chat/completions", json=CHAT))
            await worker.arrived.wait()
            process.terminate()
            async with asyncio.timeout(5):
                assert await process.wait() == 0
            await asyncio.gather(asking, return_exceptions=True)
    assert [r.outcome for r in records_in(tmp_path)] == [RequestOutcome.UPSTREAM_ERROR]


async def test_numbers_go_on_in_the_next_process(tmp_path: Path) -> None:
    async with FakeWorker("w1") as worker, aiohttp.ClientSession() as http:
        write_board(tmp_path, board_of(worker.view()))
        for _ in range(2):
            async with gateway_process(tmp_path) as process:
                url = await url_of(process)
                async with http.post(url + "/v1/chat/completions", json=CHAT) as response:
                    assert response.status == 200
                process.terminate()
                assert await process.wait() == 0
    assert [record.seq for record in records_in(tmp_path)] == [1, 2]


async def test_a_port_in_use_is_one_clear_line_and_exit_code_two(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with gateway_process(tmp_path, port=port) as process:
            _, said = await process.communicate()
    assert process.returncode == 2
    last = said.decode().strip().splitlines()[-1]
    assert last == f"ds4watch: gateway g0 cannot listen on 127.0.0.1:{port}: Address already in use"


async def test_bad_settings_are_one_clear_line_and_exit_code_two(tmp_path: Path) -> None:
    settings = '{"max_inflight": 0}'
    async with gateway_process(tmp_path, "--settings", settings) as process:
        _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().strip().startswith("ds4watch: --settings: max_inflight: ")
