"""The gateway's end of the control socket: boards come in, acknowledgements go out."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ds4watch.gateway.boards import board_of
from ds4watch.gateway.state import GatewayState, told

log = logging.getLogger(__name__)

_MAX_LINE_BYTES = 64 << 20
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 1.0


class ControlClient:
    """Keeps a connection to whatever daemon is there, and goes on without one."""

    def __init__(
        self,
        name: str,
        socket: Path,
        state: GatewayState,
        counters: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """`counters`: what other parts have counted, to be told with the stats."""
        self._counters = counters
        self._name = name
        self._socket = socket
        self._state = state
        self._connected_before = True

    async def run(self) -> None:
        """Connect and listen for ever; only cancellation ends it."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            if await self._session():
                wait = _FIRST_WAIT_SECONDS
            self._state.lapse()
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    async def _session(self) -> bool:
        """Listen to one daemon until it is gone; return whether there was one."""
        try:
            reader, writer = await asyncio.open_unix_connection(
                str(self._socket), limit=_MAX_LINE_BYTES
            )
        except OSError as error:
            self._note_absence(error.strerror or "no answer")
            return False
        log.info("gateway %s: connected to the daemon", self._name)
        self._connected_before = True
        try:
            await self._listen(reader, writer)
        except (OSError, ValueError) as error:  # ValueError: a line over the limit
            self._note_absence(str(error))
        else:
            self._note_absence("it closed the connection")
        finally:
            self._state.heard()
            writer.close()
        return True

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, {"type": "hello", "pid": os.getpid()} | self._versions())
        while line := await reader.readline():
            answer = self._answer(line)
            if answer is not None:
                await self._send(writer, answer)

    def _answer(self, line: bytes) -> dict[str, Any] | None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "board":
            return self._take(message.get("board"))
        if kind == "stats":
            return self._stats()
        log.warning("gateway %s: a message of the daemon is not understood", self._name)
        return None

    def _take(self, document: Any) -> dict[str, Any] | None:
        board = board_of(document)
        if board is None:
            return None
        before = self._state.policy
        self._state.apply(board)
        if board.policy.levels != before.levels:
            log.info("gateway %s: level %s → %s", self._name, told(before), told(board.policy))
        return {"type": "ack"} | self._versions()

    def _versions(self) -> dict[str, Any]:
        return {
            "gateway": self._name,
            "board_version": self._state.board.version,
            "policy_version": self._state.board.policy.version,
        }

    def _stats(self) -> dict[str, Any]:
        return {
            "type": "stats",
            "gateway": self._name,
            "inflight": self._state.inflight.total,
            "inflight_by_worker": dict(self._state.inflight.by_worker),
            "requests_total": self._state.requests_total,
            "unserved": dict(self._state.unserved),
            "aside": self._state.chooser.aside(),
            "long_open": self._state.long_queue.open,
            "long_waiting": self._state.long_queue.waiting,
            "long_sessions": self._state.long_sessions(),
        } | self._counters()

    async def _send(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await writer.drain()

    def _note_absence(self, why: str) -> None:
        if self._connected_before:
            log.warning("gateway %s: no daemon (%s); serving on", self._name, why)
        self._connected_before = False
