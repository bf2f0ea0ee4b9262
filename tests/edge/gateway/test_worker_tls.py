"""Workers over TLS, whose certificate an authority of one's own has signed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from ds4watch.model.worker import WorkerView
from tests.edge.gateway.processes import gateway_of
from tests.edge.gateway.support import CHAT, USAGE, FakeWorker, board_of
from tests.edge.scrape.authority import Authority

pytestmark = pytest.mark.needs("openssl")


@asynccontextmanager
async def worker_over_tls(context: ssl.SSLContext) -> AsyncIterator[WorkerView]:
    async def answer(_request: web.Request) -> web.Response:
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}}
        return web.json_response({"model": "m", "choices": [choice], "usage": USAGE})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        yield replace(FakeWorker("w1").view(), url=f"https://127.0.0.1:{port}")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_an_authority_of_ones_own_is_trusted_if_ssl_cert_file_names_it(
    tmp_path: Path, is_trusted: bool
) -> None:
    authority = await asyncio.to_thread(Authority, tmp_path)
    certificate = await asyncio.to_thread(
        authority.certificate, "worker", alternative="IP:127.0.0.1"
    )
    env = {"SSL_CERT_FILE": str(authority.ca_file)} if is_trusted else {}
    async with (
        worker_over_tls(authority.server(certificate)) as worker,
        gateway_of(tmp_path, board_of(worker), env) as gateway,
        aiohttp.ClientSession() as http,
        http.post(gateway.url + "/v1/chat/completions", json=CHAT) as response,
    ):
        text = await response.text()
    assert response.status == (200 if is_trusted else 502)
    assert is_trusted or "certificate verify failed" in text
