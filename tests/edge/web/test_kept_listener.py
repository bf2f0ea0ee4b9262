"""A listening socket that outlives the program which serves on it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ds4watch.model.errors import ConfigError
from ds4watch.telemetry.service_manager import ServiceManager
from ds4watch.web.kept_listener import NAME, KeptListener, handed_on
from ds4watch.web.listen import bind
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving

NOBODY = ServiceManager()
HOST = "127.0.0.1"


@pytest.fixture
def kept() -> Iterator[KeptListener]:
    it = KeptListener((), NOBODY)
    yield it
    it.close()


@pytest.fixture
def port() -> int:
    with bind(HOST, 0, setting="admin") as free:
        return int(free.getsockname()[1])


def test_who_connects_between_two_servers_waits_and_is_not_refused(
    kept: KeptListener, port: int
) -> None:
    kept.listen(HOST, port).close()
    with socket.create_connection((HOST, port)) as client:
        client.sendall(b"waits")
        with kept.listen(HOST, port) as second:
            second.settimeout(5)
            taken, _ = second.accept()
            with taken:
                assert taken.recv(5) == b"waits"


def test_another_address_is_bound_anew_and_the_old_one_is_free(
    kept: KeptListener, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    kept.listen(HOST, port).close()
    with bind(HOST, 0, setting="admin") as free:
        other = int(free.getsockname()[1])
    kept.listen(HOST, other).close()
    assert "not at admin.host and admin.port" in caplog.text
    with pytest.raises(ConnectionRefusedError), socket.create_connection((HOST, port)):
        pass


@pytest.mark.parametrize("kind", ["not listening", "datagrams", "all addresses"])
def test_a_socket_that_does_not_fit_is_closed_and_one_is_bound(kind: str, port: int) -> None:
    came = socket.socket(type=socket.SOCK_DGRAM if kind == "datagrams" else socket.SOCK_STREAM)
    if kind == "all addresses":
        came.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        came.bind(("0.0.0.0", port))
        came.listen()
    elif kind == "datagrams":
        came.bind((HOST, port))
    kept = KeptListener([came], NOBODY)
    with kept.listen(HOST, port) as listener:
        assert listener.getsockname() == (HOST, port)
        assert came.fileno() == -1
    kept.close()


def test_an_address_in_use_is_said_at_once(kept: KeptListener, port: int) -> None:
    with bind(HOST, port, setting="admin"), pytest.raises(ConfigError, match="is in use"):
        kept.listen(HOST, port)


def test_systemd_is_given_the_socket_to_keep(tmp_path: Path, port: int) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        kept = KeptListener((), ServiceManager(str(address)))
        kept.listen(HOST, port).close()
        removed, none, _, _ = socket.recv_fds(systemd, 200, 4)
        assert (removed, none) == (f"FDSTOREREMOVE=1\nFDNAME={NAME}".encode(), [])
        told, descriptors, _, _ = socket.recv_fds(systemd, 200, 4)
        assert told == f"FDSTORE=1\nFDNAME={NAME}".encode()
        kept.close()
        with socket.socket(fileno=descriptors[0]) as theirs:
            assert theirs.getsockname() == (HOST, port)
            with socket.create_connection((HOST, port)):
                pass


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "many"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0", "LISTEN_FDNAMES": NAME},
    ],
)
def test_what_is_not_for_us_is_left_alone_and_told_to_no_child(environ: dict[str, str]) -> None:
    given = dict(environ)
    assert handed_on(given) == []
    assert given == {}


PROGRAM = """
import json, os, socket, subprocess, sys
from ds4watch.telemetry.service_manager import ServiceManager
from ds4watch.web.kept_listener import KeptListener, handed_on

came = handed_on(os.environ)
kept = KeptListener(came, ServiceManager())
port = int(sys.argv[1])
listener = kept.listen("127.0.0.1", port)
if sys.argv[2] == "first":
    kept.hand_on(os.environ)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1], "second"])
inherited = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, close_fds=False)
print(json.dumps({
    "came": len(came),
    "told": [name for name in os.environ if name.startswith("LISTEN_")],
    "inherited": inherited.stdout.split(),
}), flush=True)
taken, _ = listener.accept()
taken.sendall(b"second")
"""


def test_the_socket_goes_along_as_a_program_executes_itself_anew_and_to_no_child(port: int) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(port), "first"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told == {"came": 1, "told": [], "inherited": ["0", "1", "2", "3"]}  # 3: ls itself
        with socket.create_connection((HOST, port)) as client:
            assert client.recv(6) == b"second"
    assert process.returncode == 0


async def test_a_request_on_its_way_as_the_server_ends_is_answered() -> None:
    async with serving(FakeDaemon()) as server:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        # By the answer to another the bare connection is taken, too.
        assert await asyncio.to_thread(_status, server.port) == 200
        ending = asyncio.create_task(server.__aexit__(None, None, None))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        host = f"Host: {HOST}:{server.port}\r\n\r\n"
        writer.write(b"GET /api/ds4/v1/health HTTP/1.1\r\n" + host.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in head.lower()
        writer.close()
        await ending


def test_the_port_speaks_http_again_after_the_socket_was_lent_twice(
    kept: KeptListener, port: int
) -> None:
    async def served() -> None:
        for _ in range(2):
            async with serving(FakeDaemon(), listener=kept.listen(HOST, port)):
                assert await asyncio.to_thread(_status, port) == 200

    asyncio.run(served())


def _status(port: int) -> int:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/api/ds4/v1/health")
        return connection.getresponse().status
    finally:
        connection.close()
