"""From the outbox to a real webhook: sent once, tried again, given up, told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ds4watch.model.errors import NotifyError
from ds4watch.notify.dispatcher import Dispatcher
from ds4watch.notify.journal import Journal
from ds4watch.notify.webhook import Webhook
from ds4watch.telemetry.metrics import Telemetry

PAYLOAD = {
    "name": "Queue",
    "tier": "warning",
    "new": "firing",
    "reason": "condition holds",
    "annotations": {"summary": "80 requests wait"},
}


class FixedClock:
    def now(self) -> float:
        return 100.0

    def monotonic(self) -> float:
        return 100.0


@dataclass
class Row:
    id: int
    attempts: int = 1
    payload: Mapping[str, Any] = field(default_factory=lambda: PAYLOAD)


class Outbox:
    """A list of rows; notes what became of each."""

    def __init__(self, *rows: Row) -> None:
        self.rows = list(rows)
        self.ended: list[tuple[int, str | None, float | None]] = []
        self.empty = asyncio.Event()

    async def claim_notification(self, at: float) -> Row | None:
        assert at == 100.0
        if not self.rows:
            self.empty.set()
            return None
        return self.rows.pop(0)

    async def finish_notification(
        self,
        notification_id: int,
        *,
        at: float,
        error: str | None = None,
        retry_at: float | None = None,
    ) -> None:
        assert at == 100.0
        self.ended.append((notification_id, error, retry_at))


class Receiver:
    """A webhook's far end that answers with the given statuses, the last for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[Any] = []
        self.keys: list[str | None] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.got.append(await request.json())
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.Response(status=status)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def dispatch(outbox: Outbox, session: aiohttp.ClientSession, receiver: Receiver) -> str:
    """Serve the outbox until it is empty; return the page of metrics."""
    telemetry = Telemetry()
    app = web.Application()
    app.router.add_post("/hook", receiver.handle)
    async with TestServer(app) as server:
        webhook = Webhook(session, str(server.make_url("/hook")))
        dispatcher = Dispatcher(outbox, webhook, metrics=telemetry.process, clock=FixedClock())
        task = asyncio.create_task(dispatcher.run())
        async with asyncio.timeout(10):
            await outbox.empty.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return telemetry.render().decode()


async def test_what_waits_is_posted_in_order(session: aiohttp.ClientSession) -> None:
    outbox, receiver = Outbox(Row(1), Row(2)), Receiver(200)
    page = await dispatch(outbox, session, receiver)
    assert 'ds4_notifications_total{channel="webhook",outcome="sent"} 2.0' in page
    assert receiver.got == [PAYLOAD, PAYLOAD]
    assert outbox.ended == [(1, None, None), (2, None, None)]


async def test_a_message_that_is_sent_again_has_the_same_key(
    session: aiohttp.ClientSession,
) -> None:
    message = {**PAYLOAD, "id": "one and the same"}
    receiver = Receiver(500, 200)
    await dispatch(Outbox(Row(1, payload=message), Row(1, payload=message)), session, receiver)
    assert receiver.keys == ["one and the same"] * 2


@pytest.mark.parametrize("status", [500, 503, 429, 408])
async def test_a_passing_failure_is_tried_again_with_growing_waits(
    session: aiohttp.ClientSession, status: int
) -> None:
    outbox = Outbox(Row(1), Row(2, attempts=4))
    await dispatch(outbox, session, Receiver(status))
    said = f"the webhook answered {status}"
    assert outbox.ended == [(1, said, 101.0), (2, said, 108.0)]


async def test_a_final_refusal_is_given_up_and_logged(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(Row(1, attempts=4))
    await dispatch(outbox, session, Receiver(404))
    assert outbox.ended == [(1, "the webhook answered 404", None)]
    assert "not delivered" in caplog.text


async def test_an_address_that_nobody_answers_may_be_tried_again_and_is_not_told(
    session: aiohttp.ClientSession, free_port: int
) -> None:
    webhook = Webhook(session, f"http://127.0.0.1:{free_port}/secret-path")
    with pytest.raises(NotifyError) as caught:
        await webhook.send(PAYLOAD)
    assert caught.value.retryable
    assert "secret-path" not in str(caught.value)


async def test_without_a_channel_the_log_tells(caplog: pytest.LogCaptureFixture) -> None:
    await Journal().send(PAYLOAD)
    assert "alert Queue (warning) firing: 80 requests wait" in caplog.text
