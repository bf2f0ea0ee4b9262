"""Server-sent events: live, resumed, heard by topic; a slow reader is let go of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import pytest

from ds4watch.web import events as module
from ds4watch.web.events import EventFeed, EventStream, Listener, events_of, start_of
from tests.edge.web.asking import API
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fake_desk import FakeDesk
from tests.edge.web.fakes import serving


async def read(
    client: aiohttp.ClientSession, *, query: str = "", **headers: str
) -> AsyncGenerator[dict[str, str], None]:
    """Yield messages as a browser's EventSource reads them; a retry line alone is one."""
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(f"{API}/events{query}", headers=own) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        message: dict[str, str] = {}
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                message[name] = value
            elif message:
                yield message
                message = {}


async def test_what_happens_is_heard_at_once_with_ids_to_come_back_by() -> None:
    daemon = FakeDaemon()
    daemon.desk.happen("daemon", "before anybody listened")
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        async with asyncio.timeout(10):
            heard = read(client)
            assert await anext(heard) == {"retry": "2000"}
            daemon.desk.happen("hold", "hold on default")
            first = await anext(heard)
            await heard.aclose()
            daemon.desk.happen("worker", "while away")
            daemon.desk.happen("outcome", "level 1", status="applied", after={"level": 1})
            back = read(client, Last_Event_ID=first["id"])
            assert await anext(back) == {"retry": "2000"}
            missed = [await anext(back) for _ in range(3)]
            await back.aclose()
    assert (first["event"], first["id"]) == ("hold", "2")
    assert json.loads(first["data"])["summary"] == "hold on default"
    assert [(it["event"], it["id"]) for it in missed] == [
        ("worker", "3"), ("action", "4"), ("level", "4"),
    ]  # fmt: skip


async def test_topics_are_chosen_and_the_place_moves_on_past_the_others() -> None:
    daemon = FakeDaemon()
    for kind in ("alert", "hold", "alert", "worker"):
        daemon.desk.happen(kind)
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        async with asyncio.timeout(10):
            heard = read(client, query="?topic=alert&after=0")
            await anext(heard)
            assert [(await anext(heard))["id"] for _ in range(2)] == ["1", "3"]
            daemon.desk.happen("hold")
            assert await anext(heard) == {"id": "5"}
            await heard.aclose()


async def test_many_missed_events_come_in_order_and_once() -> None:
    daemon = FakeDaemon()
    for _ in range(1300):
        daemon.desk.happen("worker")
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        async with asyncio.timeout(20):
            heard = read(client, Last_Event_ID="10")
            await anext(heard)
            ids = [int((await anext(heard))["id"]) for _ in range(1290)]
            await heard.aclose()
    assert ids == list(range(11, 1301))


async def test_who_only_listens_does_not_hold_up_the_end() -> None:
    async with aiohttp.ClientSession() as client:
        async with serving(FakeDaemon()) as server:
            answer = await client.get(f"{server.url}{API}/events")
            await answer.content.readline()
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < module.SEND_SECONDS / 10
        assert await answer.content.read() in (b"\n", b"")


@pytest.mark.parametrize(
    ("after", "newest", "expected", "told"),
    [
        (None, 7, 7, ""),
        (3, 7, 3, ""),
        (7, 7, 7, ""),
        (8, 7, 7, "the audit is another one"),
        (0, 20_000, 20_000, "too far behind"),
    ],
)
def test_who_cannot_go_on_where_it_was_is_told(
    after: int | None, newest: int, expected: int, told: str
) -> None:
    place, text = start_of(after, newest)
    assert place == expected
    assert ("event: reset" in text) is bool(told)
    assert told in text


async def test_a_listener_whose_queue_is_full_is_let_go_of_and_told() -> None:
    desk = FakeDesk()
    feed = EventFeed(desk)
    heard = feed.follow(0, 0)
    desk.happen("hold")
    assert [it["id"] for it in _rows(await anext(heard))] == [1]
    for _ in range(module.QUEUE_ROWS + 1):
        desk.happen("hold")
    last: Any = None
    async with asyncio.timeout(5):
        # It takes nothing while two pages come, of which the second does not fit.
        await asyncio.sleep(module.LOOK_SECONDS * 3)
        async for got in heard:
            last = got
    assert isinstance(last, Listener)


def _rows(got: Any) -> list[dict[str, Any]]:
    assert isinstance(got, list)
    return got


def test_an_outcome_that_set_a_level_is_told_as_a_level_too() -> None:
    row = {"kind": "outcome", "detail": {"status": "applied", "after": {"level": 2}}}
    assert [name for name, _ in events_of(row)] == ["action", "level"]
    failed = {"kind": "outcome", "detail": {"status": "failed", "after": {"level": 2}}}
    assert [name for name, _ in events_of(failed)] == ["action"]
    assert [name for name, _ in events_of({"kind": "key"})] == ["audit"]


async def test_a_fault_while_events_are_sent_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream = EventStream(EventFeed(FakeDesk()), after=None, newest=0, topics=())

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        raise LookupError(message["type"])

    await stream({}, receive, send)
    (record,) = caplog.records
    assert record.message == "events to a listener ended on a fault"
    assert record.exc_info is not None
