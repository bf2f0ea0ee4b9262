"""Ports: kept among daemons, and a stolen one noticed at once."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ds4watch.fleet import enter
from ds4watch.fleet.backend import LocalBackend
from ds4watch.fleet.ports import Listener, hold_free_port, listener_on
from ds4watch.model.errors import WorkerError
from tests.edge.fleet.fleets import (
    LocalFleet,
    listening,
    place_of,
    port_of,
    processes_with,
    sim,
    until,
    until_up,
)

HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
import enter
held = enter.hold(int(sys.argv[2]))
print('held' if held else 'refused', flush=True)
time.sleep(60)
"""


@pytest.fixture
async def fleet(state_dir: Path, free_port: int) -> AsyncIterator[LocalFleet]:
    fleet = LocalFleet(place_of(state_dir, free_port))
    yield fleet
    await (await fleet.daemon()).adopt(())
    fleet.reap()


def bound(port: int) -> socket.socket:
    """Return a socket as that of a vLLM that loads: bound, not listening, others may bind too."""
    loading = socket.socket()
    loading.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    loading.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    loading.bind(("127.0.0.1", port))
    return loading


def test_a_port_that_a_loading_vllm_is_bound_to_is_not_free(free_port: int) -> None:
    assert enter.is_free("127.0.0.1", free_port)
    with bound(free_port):
        assert not enter.is_free("127.0.0.1", free_port)
    assert enter.is_free("127.0.0.1", free_port)


def test_a_port_that_somebody_listens_on_is_not_free(free_port: int) -> None:
    with listening(free_port):
        assert not enter.is_free("127.0.0.1", free_port)


def test_a_port_with_closed_connections_only_is_free(free_port: int) -> None:
    with listening(free_port) as server, socket.create_connection(("127.0.0.1", free_port)):
        connection, _ = server.accept()
        connection.close()  # the side that closes first keeps the port for a minute
    assert enter.is_free("127.0.0.1", free_port)


def test_two_daemons_never_get_one_port(free_port: int) -> None:
    with hold_free_port(free_port, ()) as one, hold_free_port(free_port, ()) as other:
        assert one.port != other.port
    with hold_free_port(free_port, ()) as again:
        assert again.port == one.port


def test_a_port_is_held_as_long_as_the_process_that_got_it_and_no_longer(free_port: int) -> None:
    folder = str(Path(enter.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", HOLD, folder, str(free_port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert enter.hold(free_port) is None
        other.kill()
        other.wait()
    held = enter.hold(free_port)
    assert held is not None
    held.close()


def test_without_a_free_port_it_is_said_from_where_on(free_port: int) -> None:
    with pytest.raises(WorkerError, match=f"no free port from {free_port} on"):
        hold_free_port(free_port, range(free_port, 65536))


def test_who_listens_on_a_port_is_told_by_its_socket(free_port: int) -> None:
    assert listener_on(free_port, [os.getpid()]) is Listener.NOBODY
    with listening(free_port):
        assert listener_on(free_port, [os.getpid()]) is Listener.OURS
        assert listener_on(free_port, []) is Listener.STRANGER


def test_one_stranger_beside_us_is_enough(free_port: int) -> None:
    code = f"""
import socket, time
it = socket.socket()
it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
it.bind(('127.0.0.1', {free_port}))
it.listen()
print('up', flush=True)
time.sleep(60)
"""
    with (
        listening(free_port),
        subprocess.Popen(
            [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True
        ) as thief,
    ):
        assert thief.stdout is not None
        assert thief.stdout.readline() == "up\n"
        assert listener_on(free_port, [os.getpid()]) is Listener.STRANGER
        thief.kill()


async def test_a_worker_whose_port_was_stolen_is_dead_and_comes_back_on_another(
    fleet: LocalFleet, free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    backend, spec = await fleet.daemon(), sim()
    await backend.start(spec)
    with listening(free_port):  # long before a worker that has just been started
        await until(lambda: not backend.is_alive(spec), "a theft that is noticed")
        assert f"another process took its port {free_port}" in caplog.text
        assert await backend.stop(spec)
        await backend.start(spec)
        url = await until_up(backend, spec)
        assert port_of(url) != free_port
    assert await backend.stop(spec)


async def test_a_worker_keeps_its_port_while_no_daemon_runs(
    fleet: LocalFleet, free_port: int
) -> None:
    first: LocalBackend = await fleet.daemon()
    await first.start(sim())
    pid = first.pid(sim())
    with hold_free_port(free_port, ()) as other:  # it does not listen yet
        assert other.port != free_port
    assert pid is not None
    assert await first.stop(sim())
    assert not processes_with(f"--port {free_port}")
    with hold_free_port(free_port, ()) as again:
        assert again.port == free_port


async def test_entering_without_a_free_port_says_so(free_port: int) -> None:
    program = str(Path(enter.__file__))
    arguments = ["127.0.0.1", str(free_port), "1", "--", "/bin/echo", "{host}:{port}"]

    async def run() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", program, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    where = f"127.0.0.1:{free_port}"
    assert await run() == (0, f"{enter.ANNOUNCEMENT}http://{where}\n{where}\n")
    with listening(free_port):
        code, output = await run()
    assert code == enter.EXIT_NO_PORT
    assert f"no port is free on 127.0.0.1, of 1 from {free_port} on" in output
