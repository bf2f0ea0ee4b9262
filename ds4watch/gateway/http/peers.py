"""Hosts of workers that are gone without a word."""

from __future__ import annotations

import asyncio
import socket

_WATCHED = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 4),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000),
)
"""The host's system answers for it, however busy the worker is."""


def watch_peer(transport: asyncio.Transport) -> None:
    """Have the system find out, within some ten seconds, that the worker's host is gone.

    A network that has come apart says nothing; an answer would be awaited to its deadline.
    """
    raw = transport.get_extra_info("socket")
    if raw is not None:
        for level, option, value in _WATCHED:
            raw.setsockopt(level, option, value)
