"""Server-sent events of everything that happens, out of the audit.

An event's id is its audit row's, so that who was away goes on with Last-Event-ID. One reader looks
for new rows while anybody listens; each listener has a bounded queue, and is let go of when that is
full: it comes back, and goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Header, HTTPException, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ds4watch.model.errors import StoreError
from ds4watch.web.docs import PROBLEM_DOC, REFUSED

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 20.0
"""A listener that takes nothing for so long is let go of."""
QUEUE_ROWS = 512
MOST_LISTENERS = 64
MOST_BEHIND = 10_000
_PAGE_ROWS = 500
EVENT_TYPE = "text/event-stream"

Topic = Literal["alert", "action", "hold", "silence", "worker", "level", "audit"]
TOPICS = {
    "alert": "alert",
    "plan": "action",
    "refusal": "action",
    "outcome": "action",
    "effect": "action",
    "command": "action",
    "hold": "hold",
    "silence": "silence",
    "worker": "worker",
}
"""Kinds of audit rows, and what events of theirs are called; others are `audit`."""


class EventSource(Protocol):
    """Where events come from."""

    async def events_after(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return audit rows above an id, oldest first. Raises StoreError."""
        ...

    async def newest_event(self) -> int:
        """Return the id of the newest audit row; 0 if there is none. Raises StoreError."""
        ...


@dataclass(eq=False)
class Listener:
    """One who listens: what waits for it, and whether it is too slow."""

    waiting: deque[dict[str, Any]] = field(default_factory=deque)
    fresh: asyncio.Event = field(default_factory=asyncio.Event)
    is_late: bool = False
    is_over: bool = False

    def offer(self, rows: Collection[dict[str, Any]]) -> None:
        """Put rows into the queue, or note that it is full."""
        if len(self.waiting) + len(rows) > QUEUE_ROWS:
            self.is_late = True
        else:
            self.waiting.extend(rows)
        self.fresh.set()

    def end(self) -> None:
        """Say that nothing more comes."""
        self.is_over = True
        self.fresh.set()


class EventFeed:
    """Hands new rows of the audit to all who listen."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._listeners: set[Listener] = set()
        self._reader: asyncio.Task[None] | None = None
        self._newest = 0

    @property
    def is_full(self) -> bool:
        """Whether nobody more may listen."""
        return len(self._listeners) >= MOST_LISTENERS

    def close(self) -> None:
        """Let everybody go: the server ends."""
        for listener in self._listeners:
            listener.end()
        if self._reader is not None:
            self._reader.cancel()

    async def newest(self) -> int:
        """Return the id of the newest row. Raises StoreError."""
        return await self._source.newest_event()

    async def follow(
        self, after: int, newest: int
    ) -> AsyncIterator[list[dict[str, Any]] | Listener]:
        """Yield rows above `after` in batches: those stored, then those to come.

        An empty batch says that nothing happened for a while. The listener itself comes last, when
        it is let go of. Raises StoreError while it reads what is stored.
        """
        listener = Listener()
        self._listeners.add(listener)
        try:
            if self._reader is None or self._reader.done():
                self._newest = newest
                self._reader = asyncio.create_task(self._read())
            last = after
            while rows := await self._source.events_after(last, _PAGE_ROWS):
                last = rows[-1]["id"]
                yield rows
            async for batch in _from(listener):
                rows = [row for row in batch if row["id"] > last]
                if rows or not batch:
                    yield rows
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _read(self) -> None:
        is_failing = False
        while self._listeners:
            try:
                rows = await self._source.events_after(self._newest, _PAGE_ROWS)
            except StoreError as error:
                if not is_failing:
                    _log.warning("events wait: %s", error)
                is_failing, rows = True, []
            else:
                is_failing = False
            if rows:
                self._newest = rows[-1]["id"]
                for listener in tuple(self._listeners):
                    listener.offer(rows)
            else:
                await asyncio.sleep(LOOK_SECONDS)


async def _from(listener: Listener) -> AsyncIterator[list[dict[str, Any]]]:
    while not (listener.is_late or listener.is_over):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await listener.fresh.wait()
        listener.fresh.clear()
        if listener.is_late or listener.is_over:
            return
        batch = list(listener.waiting)
        listener.waiting.clear()
        yield batch


class EventStream(Response):
    """The answer that goes on until the client, or the daemon, leaves."""

    media_type = EVENT_TYPE

    def __init__(
        self, feed: EventFeed, *, after: int | None, newest: int, topics: Collection[str]
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._newest = newest
        self._after = after
        self._topics = topics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until it ends."""
        del scope
        gone = asyncio.create_task(_left(receive))
        sending = asyncio.create_task(self._send_all(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, sending):
                task.cancel()
            for end in await asyncio.gather(gone, sending, return_exceptions=True):
                _log_fault(end)

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async for text in self._texts():
                async with asyncio.timeout(SEND_SECONDS):
                    await send(
                        {"type": "http.response.body", "body": text.encode(), "more_body": True}
                    )
        except TimeoutError:
            _log.warning("a listener to events took nothing for %g s: let go", SEND_SECONDS)
            return
        except StoreError as error:
            _log.warning("events end: %s", error)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _texts(self) -> AsyncIterator[str]:
        after, told = start_of(self._after, self._newest)
        yield "retry: 2000\n" + told
        async for got in self._feed.follow(after, self._newest):
            if isinstance(got, Listener):
                if got.is_late:
                    yield _message("dropped", {"why": "too slow: come back with Last-Event-ID"})
                return
            if not got:
                yield ": still here\n\n"
            events = [told for row in got for told in events_of(row) if told[0] in self._topics]
            if events:
                yield "".join(_message(name, row, row["id"]) for name, row in events)
            elif got:
                # Those that are not wanted move on the place to come back to as well.
                yield f"id: {got[-1]['id']}\n\n"


def start_of(after: int | None, newest: int) -> tuple[int, str]:
    """Return the id to go on from, and the event that says if some are missing."""
    if after is None:
        return newest, "\n"
    if after > newest or newest - after > MOST_BEHIND:
        why = "the audit is another one" if after > newest else "too far behind: see the audit"
        return newest, _message("reset", {"why": why, "newest": newest}, newest)
    return after, "\n"


def events_of(row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the events that an audit row is: a level that changed is told as such, too."""
    topic = TOPICS.get(row["kind"], "audit")
    found = [(topic, row)]
    detail = row.get("detail") or {}
    is_level = row["kind"] == "outcome" and detail.get("status") == "applied"
    if is_level and "level" in (detail.get("after") or {}):
        found.append(("level", row))
    return found


def _message(name: str, value: Any, number: int | None = None) -> str:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


def _log_fault(end: BaseException | None) -> None:
    """Log what ended a listener's events, if it was neither of them."""
    if isinstance(end, OSError):
        _log.info("a listener to events broke off: %s", type(end).__name__)
    elif isinstance(end, Exception):
        _log.error("events to a listener ended on a fault", exc_info=end)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_Last = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**63 - 1)]
_After = Annotated[
    int | None, Query(ge=0, le=2**63 - 1, description="As Last-Event-ID, for who cannot set it")
]
_Topics = Annotated[list[Topic] | None, Query(description="Of these only; repeatable")]


def events(feed: EventFeed) -> APIRouter:
    """Return the router of events."""
    router = APIRouter()
    told: dict[int | str, dict[str, Any]] = {
        200: {"content": {EVENT_TYPE: {"schema": {"type": "string"}}}},
        429: PROBLEM_DOC | {"description": "Too many listen: come back later"},
    }

    @router.get(
        "/events",
        status_code=200,
        summary="Everything that happens, as it does (server-sent events)",
        response_class=EventStream,
        responses=REFUSED | told,
    )
    async def listen(
        last_event_id: _Last = None, after: _After = None, topic: _Topics = None
    ) -> EventStream:
        if feed.is_full:
            raise HTTPException(429, f"{MOST_LISTENERS} listen already: come back later")
        topics = frozenset(topic or ("audit", "level", *TOPICS.values()))
        start = last_event_id if last_event_id is not None else after
        return EventStream(feed, after=start, newest=await feed.newest(), topics=topics)

    return router
