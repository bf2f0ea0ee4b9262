"""A worker whose network comes apart, in a namespace of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import is_missing
from tests.edge.gateway.processes import Worker, gateway_of, load, running, sims, until
from tests.edge.gateway.support import board_of

pytestmark = pytest.mark.slow

CLIENTS = 24
KEPT_FILES = 40
"""Idle connections to workers that may still be there, and a few more."""


@dataclass(frozen=True)
class Island:
    """A network namespace, and the only cable to it."""

    name: str
    here: str
    host: str

    def within(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    def unplug(self) -> None:
        """Whatever is sent vanishes, both ways, without a word."""
        ip(*self.within()[1:], "ip", "link", "set", "cable", "down")

    def plug_in(self) -> None:
        ip(*self.within()[1:], "ip", "link", "set", "cable", "up")

    def mute(self) -> None:
        """What is sent there arrives, and no answer comes."""
        ip(*self.within()[1:], "ip", "route", "add", "blackhole", f"{self.here}/32")

    def unmute(self) -> None:
        ip(*self.within()[1:], "ip", "route", "del", "blackhole", f"{self.here}/32")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


@contextmanager
def island() -> Iterator[Island]:
    """Make a namespace with an address of its own; remove it, cable and all."""
    if shutil.which("ip") is None:
        is_missing("the program ip is not installed")
    made = Island(f"ds4-{os.getpid()}", f"10.251.{os.getpid() % 250}.1", "")
    made = Island(made.name, made.here, made.here[:-1] + "2")
    cable = f"ds4c{os.getpid()}"
    try:
        try:
            ip("netns", "add", made.name)
        except AssertionError as error:
            # No package brings this: a container's root may not.
            pytest.skip(f"network namespaces cannot be made here ({error})")
        ip("link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", made.name)
        ip("addr", "add", f"{made.here}/30", "dev", cable)
        ip("link", "set", cable, "up")
        inside = made.within()[1:]
        ip(*inside, "ip", "addr", "add", f"{made.host}/30", "dev", "cable")
        ip(*inside, "ip", "link", "set", "cable", "up")
        yield made
    finally:
        for gone in (("link", "del", cable), ("netns", "del", made.name)):
            subprocess.run(["ip", *gone], check=False, capture_output=True)


@pytest.fixture
def place() -> Iterator[Island]:
    with island() as made:
        yield made


@pytest.mark.parametrize(("cut", "heal"), [("unplug", "plug_in"), ("mute", "unmute")])
async def test_others_serve_on_and_it_comes_back_when_the_network_heals(
    tmp_path: Path, place: Island, cut: str, heal: str
) -> None:
    far = Worker("far", 8000, host=place.host, prefix=place.within())
    async with running([far, *sims(1)]) as workers:
        board = board_of(*(worker.view for worker in workers))
        quick: dict[str, Any] = {"connect_timeout_seconds": 0.3, "request_timeout_seconds": 60.0}
        async with gateway_of(tmp_path, board, **quick) as gateway:
            async with load(gateway, CLIENTS) as clients:
                await until(lambda: (200, "far") in clients.answers)
                before = gateway.files
                getattr(place, cut)()
                await clients.more(2 * CLIENTS)  # by the other one, at once
                at_cut = len(clients.answers)
                getattr(place, heal)()
                await until(lambda: (200, "far") in clients.answers[at_cut:], 40)
            assert {status for status, _ in clients.answers} == {200}
            await until(lambda: gateway.files <= before)


async def test_what_was_open_at_a_host_that_is_gone_is_asked_elsewhere_in_seconds(
    tmp_path: Path, place: Island
) -> None:
    slow = ("--decode-tokens-per-second", "1")
    far = Worker("far", 8000, host=place.host, prefix=place.within(), options=slow)
    async with running([far, *sims(1)]) as workers:
        board = board_of(*(worker.view for worker in workers))
        quick: dict[str, Any] = {"connect_timeout_seconds": 0.3, "request_timeout_seconds": 300.0}
        async with gateway_of(tmp_path, board, **quick) as gateway:
            before = gateway.files
            async with load(gateway, CLIENTS, max_tokens=30, ignore_eos=True) as clients:
                await until(lambda: gateway.files >= before + CLIENTS + 2)
                await clients.more(3)  # of the near one
                place.unplug()
                clients.is_over = True
            assert len(clients.answers) >= CLIENTS
            assert set(clients.answers) == {(200, "w0")}
            await until(lambda: gateway.files <= before + KEPT_FILES)
