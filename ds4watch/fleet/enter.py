"""Hold a port and become the worker, where no daemon can hold it for the worker.

Run as `python enter.py HOST FIRST COUNT -- ARGV…`, standard library only: by systemd, and as text
on the nodes of a Ray cluster. HOST and PORT in ARGV are put in for `{host}` and `{port}`.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

EXIT_NO_PORT = 76
ANNOUNCEMENT = "ds4watch: the worker is at "
TOWARDS = "towards:"
"""As HOST: our own address on the way to that host, as `towards:10.0.0.1`."""


def hold(port: int) -> socket.socket | None:
    """Return what keeps a port for its holder among all daemons of this host; None if it is held.

    A name in the abstract namespace of Unix sockets: it reaches exactly as far as the port does,
    leaves no file, and is free again when the last process that has it open is gone.
    """
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0ds4watch/port/{port}")
    except OSError:
        held.close()
        return None
    return held


def is_free(host: str, port: int) -> bool:
    """Return whether nobody listens on a port, or is bound to it and will listen.

    vLLM binds minutes before it listens, and in a way in which a second vLLM may bind as well; a
    bound socket stands in no table. What stands there, or lets us bind, are closed connections.
    """
    if _binds(host, port, reuse=False):
        return True
    return _binds(host, port, reuse=True) and _is_in_table(port)


def main(arguments: list[str]) -> None:
    """Become the worker. Never returns; exit status 76 if no port is free."""
    host, first, count = arguments[0], int(arguments[1]), int(arguments[2])
    argv = arguments[4:]
    if host.startswith(TOWARDS):
        host = _own_address(host.removeprefix(TOWARDS))
    for port in range(first, min(first + count, 65536)):
        held = hold(port)
        if held is None:
            continue
        if is_free(host, port):
            os.set_inheritable(held.fileno(), True)  # noqa: FBT003 - positional-only
            sys.stderr.write(f"{ANNOUNCEMENT}http://{host}:{port}\n")
            sys.stderr.flush()
            given = [part.replace("{host}", host).replace("{port}", str(port)) for part in argv]
            os.execvp(given[0], given)  # noqa: S606 - this is what it is for; no shell
        held.close()
    sys.stderr.write(f"ds4watch: no port is free on {host}, of {count} from {first} on\n")
    sys.exit(EXIT_NO_PORT)


def _binds(host: str, port: int, *, reuse: bool) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _is_in_table(port: int) -> bool:
    ending = f":{port:04X}"
    with Path("/proc/net/tcp").open(encoding="ascii") as table:
        return any(line.split()[1].endswith(ending) for line in table)


def _own_address(towards: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))  # a datagram socket: nothing is sent
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    main(sys.argv[1:])
