"""A wire between a program and a server that a test can cut and mend."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Proxy:
    """Passes bytes on to a loopback port, until it is cut: then nothing answers, nothing closes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open = threading.Event()
        self._open.set()
        self._ended = False
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._open.set()
        for it in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
            it.close()

    def cut(self) -> None:
        """Let nothing through from now on; connections stay open."""
        self._open.clear()

    def mend(self) -> None:
        """Let everything through again."""
        self._open.set()

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._sockets += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)
