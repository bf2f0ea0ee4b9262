"""A server that ends while an answer takes longer than it has left."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
import pytest
from starlette.types import Receive, Scope, Send

from ds4watch.web.listen import bind
from ds4watch.web.server import AdminServer


async def test_an_answer_that_would_take_too_long_is_a_503_and_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    asked = asyncio.Event()

    async def for_ever(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive, send
        asked.set()
        await asyncio.Event().wait()

    server = AdminServer(for_ever, bind("127.0.0.1", 0, setting="admin"))
    async with aiohttp.ClientSession() as client:
        async with server:
            answer = asyncio.create_task(client.get(f"{server.url}/api/v1/query_range"))
            await asked.wait()
        response = await answer
        assert response.status == 503
        assert response.headers["Retry-After"] == "5"
        assert (await response.json(content_type=None))["detail"].startswith("the daemon ends")
    told = [it for it in caplog.records if "/api/v1/query_range" in it.getMessage()]
    assert [it.levelname for it in told] == ["WARNING"]
    assert not [it for it in caplog.records if it.exc_info]
