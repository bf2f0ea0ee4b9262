"""What every backend does with workers, on simulated ones; Ray's part is in integration/."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import is_missing
from tests.edge.fleet.contract import Contract
from tests.edge.fleet.fake_systemd import fake_systemd
from tests.edge.fleet.fleets import Fleet, LocalFleet, SystemdFleet, place_of


class TestLocal(Contract):
    @pytest.fixture
    async def fleet(self, state_dir: Path, free_port: int) -> AsyncIterator[Fleet]:
        fleet = LocalFleet(place_of(state_dir, free_port))
        yield fleet
        fleet.reap()


class TestSystemd(Contract):
    """systemd's answers are a fake's: see fake_systemd.py."""

    @pytest.fixture
    async def fleet(self, state_dir: Path, free_port: int) -> AsyncIterator[Fleet]:
        if shutil.which("dbus-daemon") is None:
            is_missing("the program dbus-daemon is not installed")
        async with fake_systemd(state_dir) as (_, address), AsyncExitStack() as stack:
            yield SystemdFleet(state_dir, free_port, address, stack)
