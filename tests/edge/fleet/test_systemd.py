"""The systemd backend at its D-Bus calls. No systemd runs here: what answers is a fake.

Its list of calls and properties is held against what the real program says of itself.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from dbus_fast import Variant

from ds4watch.config.settings import BackendKind, Bus, FleetSettings, SystemdSettings
from ds4watch.fleet.open_backend import open_backend
from ds4watch.fleet.process import ProcessTable
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.fleet.systemd_bus import Manager, is_system
from ds4watch.fleet.systemd_unit import UnitPlan, properties_of, write_secrets
from ds4watch.fleet.unit_record import UnitRecords
from ds4watch.model.errors import ConfigError, WorkerError
from tests.conftest import is_missing
from tests.edge.clock import SystemClock
from tests.edge.fleet.fake_systemd import (
    METHODS,
    ONLY_SETTABLE,
    SERVICE_PROPERTIES,
    SETTABLE,
    UNIT_PROPERTIES,
    FakeSystemd,
    fake_systemd,
)
from tests.edge.fleet.fleets import SystemdFleet, place_of, sim, until, until_up

SYSTEMD = Path("/lib/systemd/systemd")
PLAN = UnitPlan(
    description="ds4watch worker a",
    argv=("/usr/bin/python3", "-m", "vllm"),
    environment={"PATH": "/usr/bin", "HF_TOKEN": 'se"cret$', "A_PASSWORD": "b\\c"},
    secrets=Path("/nowhere/a.env"),
    port=8101,
    log=Path("/var/log/a.log"),
    stop_grace_seconds=15.0,
)


@pytest.fixture
async def systemd(state_dir: Path) -> AsyncIterator[tuple[FakeSystemd, str]]:
    async with fake_systemd(state_dir) as found:
        yield found


@pytest.fixture
async def fleet(
    state_dir: Path, free_port: int, systemd: tuple[FakeSystemd, str]
) -> AsyncIterator[SystemdFleet]:
    async with AsyncExitStack() as stack:
        yield SystemdFleet(state_dir, free_port, systemd[1], stack)


def introspected(interface: str) -> ET.Element:
    """Return what systemd's own program says of an interface of its."""
    if not SYSTEMD.exists():
        is_missing("the program systemd is not installed")
    done = subprocess.run(
        [SYSTEMD, f"--bus-introspect=org.freedesktop.systemd1.{interface}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        is_missing("this systemd does not describe its interfaces")
    node = ET.fromstring(done.stdout[done.stdout.index("<node") :])
    found = node.find(f"interface[@name='org.freedesktop.systemd1.{interface}']")
    assert found is not None
    return found


def test_calls_are_those_of_the_real_systemd() -> None:
    manager = introspected("Manager")
    for name, signatures in METHODS.items():
        found = manager.findall(f"method[@name='{name}']/arg")
        told = [
            "".join(it.attrib["type"] for it in found if it.get("direction") == way)
            for way in ("in", "out")
        ]
        assert tuple(told) == signatures, name


@pytest.mark.parametrize(
    ("interface", "properties"),
    [("Unit", UNIT_PROPERTIES), ("Service", SERVICE_PROPERTIES | SETTABLE)],
)
def test_properties_have_the_types_of_the_real_systemd(
    interface: str, properties: dict[str, str]
) -> None:
    real = introspected(interface).findall("property")
    types = {it.attrib["name"]: it.attrib["type"] for it in real}
    assert {name: types.get(name) for name in properties} == properties


def test_properties_that_can_only_be_set_are_known_to_the_real_systemd() -> None:
    libraries = list(Path("/usr/lib").glob("*/systemd/libsystemd-*.so"))
    if not libraries:
        is_missing("the libraries of systemd are not installed")
    words = b"".join(it.read_bytes() for it in libraries)
    assert [name for name in ONLY_SETTABLE if name.encode() not in words] == []


def test_a_unit_is_one_control_group_that_systemd_does_not_restart() -> None:
    found = properties_of(
        replace(PLAN, memory_max_bytes=1 << 30, slice_name="llm.slice", user="me")
    )
    assert {name: value.signature for name, value in found.items()} == SETTABLE | ONLY_SETTABLE
    told = {name: value.value for name, value in found.items()}
    assert (told["KillMode"], told["Restart"], told["OOMPolicy"]) == (
        "control-group",
        "no",
        "kill",
    )
    assert told["TimeoutStopUSec"] == 15_000_000
    assert (told["MemoryMax"], told["Slice"], told["User"]) == (1 << 30, "llm.slice", "me")
    assert told["StandardOutputFileToAppend"] == "/var/log/a.log"
    assert not {"MemoryMax", "Slice", "User"} & properties_of(PLAN).keys()


def test_secrets_are_in_a_file_of_their_own_that_nobody_else_may_read(tmp_path: Path) -> None:
    plan = replace(PLAN, secrets=tmp_path / "run" / "a.env")
    write_secrets(plan)
    assert "secret" not in "".join(map(repr, properties_of(plan).values())).replace("secrets", "")
    assert properties_of(plan)["Environment"] == Variant("as", ["PATH=/usr/bin"])
    assert stat.S_IMODE(plan.secrets.stat().st_mode) == 0o600
    assert plan.secrets.read_text() == 'HF_TOKEN="se\\"cret\\$"\nA_PASSWORD="b\\\\c"\n'


async def test_what_polkit_denies_is_said_with_the_right_that_is_missing(
    systemd: tuple[FakeSystemd, str], fleet: SystemdFleet
) -> None:
    systemd[0].refuse.add("StartTransientUnit")
    backend = await fleet.daemon()
    with pytest.raises(WorkerError, match="needs the polkit right"):
        await backend.start(sim())
    assert not backend.is_alive(sim())
    systemd[0].refuse.clear()
    await backend.start(sim())
    assert await backend.stop(sim())


async def test_a_unit_that_somebody_started_anew_is_not_taken_for_ours(
    systemd: tuple[FakeSystemd, str], fleet: SystemdFleet
) -> None:
    first = await fleet.daemon()
    await first.start(sim())
    (unit,) = systemd[0].units.values()
    unit.invocation = os.urandom(16)
    assert await (await fleet.daemon()).adopt([sim()]) == {}
    assert not unit.is_running


async def test_nothing_is_left_of_a_stopped_worker(
    systemd: tuple[FakeSystemd, str], fleet: SystemdFleet, state_dir: Path
) -> None:
    backend = await fleet.daemon()
    await backend.start(sim())
    unit = UnitRecords(state_dir).unit("sim-0")
    assert list(systemd[0].units) == [unit]
    assert UnitRecords(state_dir).read(unit) is not None
    assert await backend.stop(sim())
    assert await backend.adopt(()) == {}
    assert systemd[0].units == {}
    assert list((state_dir / "run").glob("systemd/*")) == []


async def test_without_the_bus_workers_go_on_and_their_death_is_still_noticed(
    state_dir: Path, free_port: int
) -> None:
    async with AsyncExitStack() as stack:
        async with fake_systemd(state_dir) as (_, address):
            backend = await SystemdFleet(state_dir, free_port, address, stack).daemon()
            await backend.start(sim())
            await until_up(backend, sim())
            assert backend.is_alive(sim())
        await until(lambda: not backend.is_alive(sim()), "the end of a fake that kills its units")
        assert backend.exit_code(sim()) is None
        assert not await backend.stop(sim())
        with pytest.raises(WorkerError, match="systemd cannot be asked"):
            await backend.start(WorkerSpec("other", sim().profile))


async def test_a_systemd_that_cannot_be_reached_is_one_clear_line(
    state_dir: Path, free_port: int
) -> None:
    settings = FleetSettings(backend=BackendKind.SYSTEMD, systemd=SystemdSettings(bus=Bus.SYSTEM))
    if Path("/run/dbus/system_bus_socket").exists():
        pytest.skip("this host has a system bus")
    table = ProcessTable(state_dir, SystemClock())
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError) as caught:
            await open_backend(
                settings, place_of(state_dir, free_port), table, SystemClock(), stack
            )
    assert str(caught.value).startswith("fleet.backend: systemd cannot be asked")
    assert "set fleet.systemd.bus" in str(caught.value)
    await asyncio.sleep(0)


async def down(state_dir: Path, config: Path, address: str) -> tuple[int | None, str]:
    """Run `ds4watch down` beside the fake; return its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ds4watch", "down"),
        *("--config", str(config), "--state", str(state_dir)),
        env={**os.environ, "DBUS_SESSION_BUS_ADDRESS": address},
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_down_tells_of_a_unit_that_survives_and_how_it_is_ended(
    systemd: tuple[FakeSystemd, str], fleet: SystemdFleet, state_dir: Path, tmp_path: Path
) -> None:
    config = tmp_path / "ds4watch.yml"
    config.write_text("fleet: {backend: systemd, systemd: {bus: user}, stop_grace_seconds: 1}\n")
    backend = await fleet.daemon()
    await backend.start(sim())
    unit = UnitRecords(state_dir).unit("sim-0")
    systemd[0].refuse.update(("StopUnit", "KillUnit"))
    told = f"{unit}: still runs; end it with `systemctl --user kill --signal=KILL {unit}`\n"
    assert await down(state_dir, config, systemd[1]) == (1, told)
    systemd[0].refuse.clear()
    assert await down(state_dir, config, systemd[1]) == (0, "everything is stopped\n")
    assert not systemd[0].units[unit].is_running


@pytest.mark.parametrize(
    ("bus", "environ", "is_root", "is_of_the_system"),
    [
        (None, {}, False, True),  # a service with a user of its own
        (None, {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}, False, False),
        (None, {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}, True, True),
        (Bus.USER, {}, True, False),
        (Bus.SYSTEM, {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}, False, True),
    ],
)
def test_a_service_means_the_systemd_of_the_system(
    bus: Bus | None, environ: dict[str, str], is_root: bool, is_of_the_system: bool
) -> None:
    assert is_system(SystemdSettings(bus=bus), environ, is_root=is_root) is is_of_the_system


async def test_a_bus_that_has_no_address_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    manager = Manager(is_system=False)
    with pytest.raises(WorkerError, match="systemd cannot be asked"):
        await manager.units("ds4watch-*")
    manager.close()
