"""The admin API, put together. A module of its own: what it brings in takes a while to load."""

from __future__ import annotations

import socket
from collections.abc import Callable

from ds4watch.model.ports import Clock
from ds4watch.web.app import create_app
from ds4watch.web.events import EventFeed
from ds4watch.web.gate import Tokens
from ds4watch.web.listen import Tls
from ds4watch.web.ports import Ports
from ds4watch.web.server import AdminServer


def admin_server(
    listener: socket.socket,
    ports: Ports,
    *,
    tokens: Tokens,
    render_metrics: Callable[[], bytes],
    clock: Clock,
    open_reads: bool,
    tls: Tls | None = None,
) -> AdminServer:
    """Return the server of the admin API on a socket that listens."""
    feed = EventFeed(ports.desk)
    app = create_app(
        ports,
        tokens=tokens,
        render_metrics=render_metrics,
        clock=clock,
        feed=feed,
        open_reads=open_reads,
    )
    return AdminServer(app, listener, on_leave=feed.close, tls=tls)
