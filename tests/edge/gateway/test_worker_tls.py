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

from ds4watch.gateway.trust import tls_context
from ds4watch.model.errors import ConfigError
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


@pytest.mark.parametrize("by", ["setting", "environment", "nobody"])
async def test_an_authority_of_ones_own_is_trusted_if_it_is_named(tmp_path: Path, by: str) -> None:
    is_trusted = by != "nobody"
    authority = await asyncio.to_thread(Authority, tmp_path)
    certificate = await asyncio.to_thread(
        authority.certificate, "worker", alternative="IP:127.0.0.1"
    )
    env = {"SSL_CERT_FILE": str(authority.ca_file)} if by == "environment" else {}
    settings = {"tls_ca_file": str(authority.ca_file)} if by == "setting" else {}
    async with (
        worker_over_tls(authority.server(certificate)) as worker,
        gateway_of(tmp_path, board_of(worker), env, **settings) as gateway,
        aiohttp.ClientSession() as http,
        http.post(gateway.url + "/v1/chat/completions", json=CHAT) as response,
    ):
        text = await response.text()
    assert response.status == (200 if is_trusted else 503)
    assert is_trusted or "certificate verify failed" in text


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca.pem: gateway.tls_ca_file: holds no certificates"):
        tls_context(str(file))
    with pytest.raises(ConfigError, match="No such file"):
        tls_context(str(tmp_path / "none.pem"))
    assert tls_context(None) is None
