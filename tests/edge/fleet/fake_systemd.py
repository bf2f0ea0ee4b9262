"""As much of systemd's manager as transient units need, on a bus of its own, with real processes.

It refuses what systemd would: calls, properties and types that are not in systemd's own description
of its interfaces (test_systemd.py compares them with the real program's).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

MANAGER = "org.freedesktop.systemd1.Manager"
UNIT = "org.freedesktop.systemd1.Unit"
SERVICE = "org.freedesktop.systemd1.Service"
ROOT = "/org/freedesktop/systemd1"
METHODS = {
    "StartTransientUnit": ("ssa(sv)a(sa(sv))", "o"),
    "StopUnit": ("ss", "o"),
    "KillUnit": ("ssi", ""),
    "ResetFailedUnit": ("s", ""),
    "RefUnit": ("s", ""),
    "UnrefUnit": ("s", ""),
    "GetUnit": ("s", "o"),
    "ListUnitsByPatterns": ("asas", "a(ssssssouso)"),
}
UNIT_PROPERTIES = {"ActiveState": "s", "InvocationID": "ay"}
SERVICE_PROPERTIES = {"MainPID": "u", "ExecMainCode": "i", "ExecMainStatus": "i", "Result": "s"}
SETTABLE = {
    "Type": "s",
    "Restart": "s",
    "KillMode": "s",
    "SendSIGKILL": "b",
    "TimeoutStopUSec": "t",
    "OOMPolicy": "s",
    "LimitNOFILE": "t",
    "WorkingDirectory": "s",
    "Environment": "as",
    "EnvironmentFiles": "a(sb)",
    "MemoryMax": "t",
    "Slice": "s",
    "User": "s",
}
"""Those that are also readable, under the same name and type."""
ONLY_SETTABLE = {
    "Description": "s",
    "ExecStart": "a(sasb)",
    "StandardOutputFileToAppend": "s",
    "StandardErrorFileToAppend": "s",
    "AddRef": "b",
}


class RefusedError(Exception):
    """A D-Bus error: its name and its text."""


@dataclass
class Unit:
    """One transient unit."""

    name: str
    properties: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None
    invocation: bytes = field(default_factory=lambda: os.urandom(16))
    refs: set[str] = field(default_factory=set)
    stopping: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def active(self) -> str:
        if self.is_running:
            return "deactivating" if self.stopping else "active"
        code = self.process.returncode if self.process is not None else 203
        return "inactive" if code == 0 or self.stopping else "failed"

    def signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


class FakeSystemd:
    """What answers as org.freedesktop.systemd1. `refuse` makes it deny a method."""

    def __init__(self, bus: MessageBus) -> None:
        self.units: dict[str, Unit] = {}
        self.refuse: set[str] = set()
        bus.add_message_handler(self._handle)

    def _handle(self, message: Message) -> Message | bool | None:
        if message.member == "NameOwnerChanged" and not message.body[2]:
            for unit in self.units.values():  # a client that is gone keeps nothing
                unit.refs.discard(message.body[0])
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        if not (message.path or "").startswith(ROOT):
            return None
        try:
            signature, body = self._answer(message)
            return Message.new_method_return(message, signature, body)
        except RefusedError as error:
            return Message.new_error(message, error.args[0], error.args[1])

    def _answer(self, message: Message) -> tuple[str, list[Any]]:
        member = message.member or ""
        if member == "GetAll":
            return "a{sv}", [self._properties(message.path or "", message.body[0])]
        if member in self.refuse:
            text = "Interactive authentication required."
            raise RefusedError("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", text)
        if (message.interface, message.signature) != (MANAGER, METHODS[member][0]):
            raise RefusedError("org.freedesktop.DBus.Error.UnknownMethod", member)
        self._collect()
        method: Callable[..., list[Any]] = getattr(self, f"_{member}")
        return METHODS[member][1], method(message.sender, *message.body)

    def _StartTransientUnit(  # noqa: N802
        self, sender: str, name: str, mode: str, properties: Any, aux: Any
    ) -> list[Any]:
        assert (mode, aux) == ("fail", [])
        if name in self.units:
            raise RefusedError("org.freedesktop.systemd1.UnitExists", f"Unit {name} was loaded.")
        known = SETTABLE | ONLY_SETTABLE
        for key, value in properties:
            if known.get(key) != value.signature:
                text = f"Cannot set property {key}, or unknown property."
                raise RefusedError("org.freedesktop.DBus.Error.PropertyReadOnly", text)
        unit = Unit(name, {key: value.value for key, value in properties})
        if unit.properties.get("AddRef"):
            unit.refs.add(sender)
        self.units[name] = unit
        self._execute(unit)
        return [f"{ROOT}/job/1"]

    def _execute(self, unit: Unit) -> None:
        given = unit.properties
        ((path, argv, _),) = given["ExecStart"]
        pairs = [it.partition("=") for it in given.get("Environment", [])]
        environment = {name: value for name, _, value in pairs}
        for file, _ in given.get("EnvironmentFiles", []):
            for line in Path(file).read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition("=")
                environment[name] = "".join(shlex.split(value))
        log = Path(given["StandardOutputFileToAppend"])
        with log.open("ab") as output, contextlib.suppress(OSError):
            unit.process = subprocess.Popen(
                argv,
                executable=path,
                env=environment,
                cwd=given["WorkingDirectory"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _StopUnit(self, _: str, name: str, mode: str) -> list[Any]:  # noqa: N802
        assert mode == "replace"
        unit = self._unit(name)
        if unit.stopping is None:
            unit.stopping = asyncio.create_task(self._stop(unit))
        return [f"{ROOT}/job/2"]

    async def _stop(self, unit: Unit) -> None:
        unit.signal(signal.SIGTERM)
        deadline = unit.properties["TimeoutStopUSec"] / 1e6
        while unit.is_running and deadline > 0:
            await asyncio.sleep(0.02)
            deadline -= 0.02
        if unit.properties["SendSIGKILL"]:
            unit.signal(signal.SIGKILL)

    def _KillUnit(self, _: str, name: str, whom: str, number: int) -> list[Any]:  # noqa: N802
        assert whom == "all"
        self._unit(name).signal(number)
        return []

    def _ResetFailedUnit(self, _: str, name: str) -> list[Any]:  # noqa: N802
        unit = self._unit(name)
        if unit.active == "failed" and not unit.refs:
            del self.units[name]
        unit.properties["reset"] = True
        return []

    def _RefUnit(self, sender: str, name: str) -> list[Any]:  # noqa: N802
        self._unit(name).refs.add(sender)
        return []

    def _UnrefUnit(self, sender: str, name: str) -> list[Any]:  # noqa: N802
        unit = self._unit(name)
        if sender not in unit.refs:
            raise RefusedError("org.freedesktop.systemd1.NotReferenced", "not referenced")
        unit.refs.remove(sender)
        return []

    def _GetUnit(self, _: str, name: str) -> list[Any]:  # noqa: N802
        self._unit(name)
        return [_path(name)]

    def _ListUnitsByPatterns(  # noqa: N802
        self, _: str, states: list[str], patterns: list[str]
    ) -> list[Any]:
        assert not states
        return [
            [
                [it.name, "", "loaded", it.active, "", "", _path(it.name), 0, "", "/"]
                for it in self.units.values()
                if any(fnmatchcase(it.name, pattern) for pattern in patterns)
            ]
        ]

    def _properties(self, path: str, interface: str) -> dict[str, Variant]:
        unit = next((it for it in self.units.values() if _path(it.name) == path), None)
        if unit is None:
            raise RefusedError("org.freedesktop.systemd1.NoSuchUnit", f"Unit {path} not loaded.")
        running = unit.is_running
        code: int = unit.process.returncode or 0 if unit.process is not None else 203
        values: dict[str, Any]
        if interface == UNIT:
            values = {"ActiveState": unit.active, "InvocationID": unit.invocation}
            return {it: Variant(UNIT_PROPERTIES[it], value) for it, value in values.items()}
        values = {
            "MainPID": unit.process.pid if running and unit.process is not None else 0,
            "ExecMainCode": 0 if running else 1 if code >= 0 else 2,
            "ExecMainStatus": 0 if running else abs(code),
            "Result": "success" if running or code == 0 else "exit-code",
        }
        return {it: Variant(SERVICE_PROPERTIES[it], value) for it, value in values.items()}

    def _unit(self, name: str) -> Unit:
        if name not in self.units:
            raise RefusedError("org.freedesktop.systemd1.NoSuchUnit", f"Unit {name} not loaded.")
        return self.units[name]

    def _collect(self) -> None:
        """Drop what has ended, is held by nobody, and has not failed (CollectMode=inactive)."""
        for unit in list(self.units.values()):
            is_over = unit.active == "inactive" or (
                unit.active == "failed" and "reset" in unit.properties
            )
            if is_over and not unit.refs:
                del self.units[unit.name]


def _path(name: str) -> str:
    escaped = "".join(it if it.isalnum() else f"_{ord(it):02x}" for it in name)
    return f"{ROOT}/unit/{escaped}"


@asynccontextmanager
async def fake_systemd(folder: Path) -> AsyncIterator[tuple[FakeSystemd, str]]:
    """Yield a fake systemd and the address of the bus that it is on."""
    address = f"unix:path={folder}/bus"
    daemon = subprocess.Popen(
        [
            "dbus-daemon",
            "--session",
            "--nofork",
            "--nopidfile",
            f"--address={address}",
            "--print-address=1",
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        bus = await MessageBus(address).connect()
        fake = FakeSystemd(bus)
        await bus.call(
            Message(
                destination="org.freedesktop.DBus",
                path="/org/freedesktop/DBus",
                interface="org.freedesktop.DBus",
                member="AddMatch",
                signature="s",
                body=["type='signal',member='NameOwnerChanged'"],
            )
        )
        await bus.request_name("org.freedesktop.systemd1")
        yield fake, address
        for unit in fake.units.values():
            unit.signal(signal.SIGKILL)
            if unit.process is not None:
                unit.process.wait()
        bus.disconnect()
    finally:
        daemon.terminate()
        daemon.wait()
        if daemon.stdout is not None:
            daemon.stdout.close()


async def _serve(folder: Path) -> None:
    """Be a fake systemd until the process is ended; say the bus's address first."""
    async with fake_systemd(folder) as (_, address):
        print(address, flush=True)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
