"""A gateway that stands still itself counts that against nobody.

On the loop that gateways run on, timers come before what is read: after a pause all deadlines are
over, and what was sent in time still lies in the sockets.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from ds4watch.gateway.http.message import Request, Response
from ds4watch.gateway.http.parties import Bounds
from ds4watch.gateway.http.pool import Pool, origin_of
from ds4watch.gateway.http.server import HttpServer
from ds4watch.scrape.fetch import Fetcher
from ds4watch.scrape.group_state import Group
from ds4watch.scrape.options import ScrapeOptions
from tests.edge.gateway.test_chooser import Fleet

BOUNDS = Bounds(100, head_seconds=0.3, body_seconds=0.3, idle_seconds=0.3)
STALL_SECONDS = 0.6
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nup 1\n"


def on_uvloop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(work(), 30))


async def stand_still(then: Callable[[], object]) -> None:
    """Block the loop for longer than any deadline; `then` happens in the meantime.

    In a callback of what is read: after it, this loop runs its timers before it reads again.
    """
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    ours, theirs = socket.socketpair()

    def block() -> None:
        loop.remove_reader(ours)
        then()
        time.sleep(STALL_SECONDS)
        over.set()

    loop.add_reader(ours, block)
    theirs.send(b"x")
    await over.wait()
    ours.close()
    theirs.close()


def refuse(status: int, message: str, code: str) -> Response:
    return Response(status, f"{code}: {message}".encode())


async def handler(request: Request) -> Response:
    try:
        return Response(200, await request.read())
    except TimeoutError:
        return Response(408, b"")


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [
        (b"", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"),
        (b"POST / HTTP/1.1\r\nHost:", b" x\r\nContent-Length: 3\r\n\r\nabc"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na", b"bc"),
    ],
)
def test_a_client_that_sent_in_time_is_served(before: bytes, meanwhile: bytes) -> None:
    async def work() -> None:
        server = HttpServer(handler, refuse, BOUNDS, lambda: None)
        client = socket.create_connection(("127.0.0.1", await server.start("127.0.0.1", 0)))
        client.sendall(before)
        await asyncio.sleep(0.05)
        await stand_still(lambda: client.sendall(meanwhile))
        client.setblocking(False)
        told = await asyncio.get_running_loop().sock_recv(client, 1 << 16)
        client.close()
        await server.close(1)
        assert told.startswith(b"HTTP/1.1 200 ")

    on_uvloop(work)


def test_who_begins_a_head_late_has_the_whole_time_for_a_head() -> None:
    """Not only what was left of the time between two requests."""

    async def work() -> None:
        bounds = Bounds(100, head_seconds=10.0, idle_seconds=0.4)
        server = HttpServer(handler, refuse, bounds, lambda: None)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.2)
        writer.write(b"GET / HTTP/1.1\r\n")
        await asyncio.sleep(1.2)
        writer.write(b"Host: x\r\n\r\n")
        told = await reader.readline()
        writer.close()
        await server.close(1)
        assert told.startswith(b"HTTP/1.1 200 ")

    on_uvloop(work)


class Silent:
    """A worker that answers when it is told to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.peer: socket.socket | None = None

    async def asked(self) -> None:
        loop = asyncio.get_running_loop()
        self.listener.setblocking(False)
        self.peer, _ = await loop.sock_accept(self.listener)
        await loop.sock_recv(self.peer, 1 << 16)

    def answer(self) -> None:
        assert self.peer is not None
        self.peer.sendall(ANSWER)

    def close(self) -> None:
        self.listener.close()
        if self.peer is not None:
            self.peer.close()


def test_a_worker_that_answered_in_time_is_heard() -> None:
    async def work() -> None:
        worker, pool = Silent(), Pool(connect_seconds=1, answer_seconds=0.5)
        head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        asking = asyncio.create_task(pool.ask(origin_of(worker.url), head, b""))
        await worker.asked()
        await stand_still(worker.answer)
        connection = await asking
        assert await connection.read(10) == b"up 1\n"
        pool.give_back(origin_of(worker.url), connection)
        pool.close()
        worker.close()

    on_uvloop(work)


def test_one_that_says_nothing_is_given_up_all_the_same() -> None:
    async def work() -> None:
        worker, pool = Silent(), Pool(connect_seconds=1, answer_seconds=0.3)
        head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        asking = asyncio.create_task(pool.ask(origin_of(worker.url), head, b""))
        await worker.asked()
        await stand_still(lambda: None)
        with pytest.raises(TimeoutError):
            await asking
        pool.close()
        worker.close()

    on_uvloop(work)


def test_a_connection_that_was_made_meanwhile_is_taken() -> None:
    async def work() -> None:
        worker, pool = Silent(), Pool(connect_seconds=0.3, answer_seconds=5)
        head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        asking = asyncio.create_task(pool.ask(origin_of(worker.url), head, b""))
        await asyncio.sleep(0)
        await stand_still(lambda: None)
        await worker.asked()
        worker.answer()
        assert (await asking).head.status == 200
        asking.result().abort()
        pool.close()
        worker.close()

    on_uvloop(work)


def test_a_page_that_lies_in_the_socket_is_no_scrape_that_timed_out() -> None:
    async def work() -> None:
        worker = Silent()
        fetcher = Fetcher(f"{worker.url}/metrics", Group(ScrapeOptions(timeout_seconds=0.5)))
        fetching = asyncio.create_task(fetcher.fetch())
        await worker.asked()
        await stand_still(worker.answer)
        assert bytes((await fetching).body) == b"up 1\n"
        fetcher.close()
        worker.close()

    on_uvloop(work)


def test_a_late_first_byte_is_not_held_against_who_sent_it_while_we_stood_still() -> None:
    slow, starved = Fleet("w1", "w2"), Fleet("w1", "w2")
    starved.chooser.lag.note(starved.clock.at + 8.0, 7.9)
    for fleet in (slow, starved):
        fleet.answers(40, first_byte=8.0)
    assert slow.aside() == {"w1": "slow"}
    assert starved.aside() == {}
