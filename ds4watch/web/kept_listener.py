"""The admin API's listening socket, which outlives the program that serves on it.

A reload executes the program anew and hands the socket on; systemd keeps it over a restart
(FDSTORE=1 of sd_notify(3)). Who connects meanwhile waits in its backlog, and is not refused. It
comes back in the form of sd_listen_fds(3), so that one of a socket unit is taken, too.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Any, Protocol

from ds4watch.model.errors import ConfigError
from ds4watch.web.listen import bind

log = logging.getLogger(__name__)

NAME = "ds4watch-admin"
_FIRST = 3
_MOST = 16
_PID, _COUNT, _NAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"
_LET_GO_SECONDS = 2.0
_LOOK_SECONDS = 0.05


class Shelf(Protocol):
    """Who keeps a descriptor while no daemon runs."""

    def keep(self, name: str, descriptor: int) -> None:
        """Keep it by a name."""
        ...

    def let_go(self, name: str) -> None:
        """Close what is kept by a name."""
        ...


def handed_on(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """Return the sockets that came with the start; no child of ours gets them, or is told of them.

    What is no socket is closed.
    """
    told = {name: environ.pop(name, "") for name in (_PID, _COUNT, _NAMES)}
    count = told[_COUNT]
    if told[_PID] != str(os.getpid()) or not (count.isascii() and count.isdecimal()):
        return []
    found = []
    for descriptor in range(_FIRST, _FIRST + min(int(count), _MOST)):
        try:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
            found.append(socket.socket(fileno=descriptor))
        except OSError as error:
            log.warning("descriptor %d was handed on, and is no socket: %s", descriptor, error)
            with suppress(OSError):
                os.close(descriptor)
    return found


class KeptListener:
    """Has one listening socket, and lends copies of it to who serves."""

    def __init__(self, came: Iterable[socket.socket], shelf: Shelf) -> None:
        """`came`: sockets to choose from; those that do not fit are closed."""
        self._sockets = list(came)
        self._shelf = shelf

    def listen(self, host: str, port: int) -> socket.socket:
        """Return a socket that listens there, for its taker to close; ours stays open.

        Raises ConfigError if it cannot be had.
        """
        fitting = next((it for it in self._sockets if _listens_at(it, host, port)), None)
        others = [it for it in self._sockets if it is not fitting]
        for it in others:
            log.info("a socket that was handed on is not at admin.host and admin.port: closed")
            it.close()
        if fitting is None:
            self._shelf.let_go(NAME)
            fitting = _bind(host, port, patience_seconds=_LET_GO_SECONDS if others else 0.0)
        self._sockets = [fitting]
        self._shelf.keep(NAME, fitting.fileno())
        return fitting.dup()

    def hand_on(self, environ: MutableMapping[str, str]) -> None:
        """Leave the socket to the program that this process is about to become.

        To be called last: it takes the place of whatever the first descriptor was.
        """
        if not self._sockets:
            return
        (kept,) = self._sockets
        if kept.fileno() == _FIRST:
            os.set_inheritable(_FIRST, True)  # noqa: FBT003 - positional only
        else:
            os.dup2(kept.fileno(), _FIRST, inheritable=True)
        environ.update({_PID: str(os.getpid()), _COUNT: "1", _NAMES: NAME})

    def close(self) -> None:
        """Close what is held."""
        for it in self._sockets:
            it.close()
        self._sockets = []


def _bind(host: str, port: int, *, patience_seconds: float) -> socket.socket:
    """Bind anew; who keeps a socket that we gave up needs a moment to close its copy."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return bind(host, port, setting="admin")
        except ConfigError as error:
            is_busy = getattr(error.__cause__, "errno", None) == errno.EADDRINUSE
            if not is_busy or time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def _listens_at(it: socket.socket, host: str, port: int) -> bool:
    try:
        is_listening = it.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        family, kind, _, _, address = _first_address(host, port)
    except OSError:
        return False
    return (
        is_listening
        and (it.family, it.type) == (family, kind)
        and it.getsockname()[:2] == address[:2]
    )


def _first_address(host: str, port: int) -> tuple[Any, ...]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
