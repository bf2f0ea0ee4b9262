"""What systemd is told of a service of `Type=notify`: ready, reloading, alive (sd_notify(3)).

It is also given a descriptor to keep over a restart, where the unit says FileDescriptorStoreMax=.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """The way to tell. Without an address nobody asked, and nothing is sent.

    watchdog_seconds: the time within which `alive` has to be said again; None if nobody waits.
    """

    address: str | None = None
    watchdog_seconds: float | None = None

    def ready(self) -> None:
        """Say that the service serves."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """Say that settings are read anew; `ready` ends it."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def alive(self) -> None:
        """Say that the work goes on."""
        self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the service ends."""
        self._tell("STOPPING=1")

    def keep(self, name: str, descriptor: int) -> None:
        """Have it keep a descriptor; it hands that to the next start (sd_listen_fds(3))."""
        self._tell(f"FDSTORE=1\nFDNAME={name}", descriptor)

    def let_go(self, name: str) -> None:
        """Have it close what it keeps by that name."""
        self._tell(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def _tell(self, what: str, *descriptors: int) -> None:
        if self.address is None:
            return
        # a name that begins with @ is in the abstract namespace
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.connect(name)
                if descriptors:
                    socket.send_fds(sender, [what.encode()], list(descriptors))
                else:
                    sender.send(what.encode())
        except OSError as error:
            log.warning("systemd could not be told %s: %s", what.partition("=")[0], error)


def service_manager(environ: Mapping[str, str]) -> ServiceManager:
    """Return the way to tell, from NOTIFY_SOCKET and WATCHDOG_USEC.

    Both stay in the environment for the case that this process executes itself anew; who starts
    others leaves them out.
    """
    watchdog = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID") in (None, str(os.getpid()))
    seconds = int(watchdog) / _MICROSECONDS if watchdog.isdigit() and is_ours else None
    return ServiceManager(environ.get("NOTIFY_SOCKET") or None, seconds or None)
