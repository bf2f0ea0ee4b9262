"""systemd's manager over D-Bus: the few calls that transient units need.

The names and types are those of systemd 252's own introspection (`systemd --bus-introspect`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.errors import AuthError, DBusError, InvalidAddressError

from ds4watch.config.settings import Bus, SystemdSettings
from ds4watch.model.errors import EdgeReason, WorkerError

log = logging.getLogger(__name__)

_SERVICE = "org.freedesktop.systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_PATH = "/org/freedesktop/systemd1"
_TIMEOUT_SECONDS = 10.0
_GONE = ("org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.systemd1.NotReferenced")
_DENIED = (
    "org.freedesktop.DBus.Error.AccessDenied",
    "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
)
_RUNS = ("active", "activating", "reloading", "deactivating")
_CLD_EXITED = 1


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit as systemd tells of it.

    exit_code: how its main process ended (negative: by that signal); None if it runs or never ran.
    """

    is_there: bool = False
    is_running: bool = False
    is_ending: bool = False
    invocation: str = ""
    main_pid: int = 0
    exit_code: int | None = None
    result: str = ""


class _Bus(MessageBus):
    """A bus whose loss while something is sent is told to who waits for the answer, and no more.

    dbus-fast 5.2 goes on to watch the closed socket, and so leaves the futures of both to nobody.
    """

    def send(self, msg: Message) -> asyncio.Future[None]:  # type: ignore[override]  # as MessageBus
        msg.serial = msg.serial or self.next_serial()
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written.add_done_callback(lambda it: it.cancelled() or it.exception())
        assert self._writer is not None
        with contextlib.suppress(OSError):
            self._writer.schedule_write(msg, written)
        return written


_UNREACHED = (OSError, EOFError, DBusError, TimeoutError, InvalidAddressError, AuthError)


class Manager:
    """One connection, made when it is needed, and again when it was lost."""

    def __init__(self, *, is_system: bool, address: str | None = None) -> None:
        """Take the system bus or the user's own; `address` is that of another."""
        self.is_system = is_system
        self._bus_type = BusType.SYSTEM if is_system else BusType.SESSION
        self._address = address
        self._bus: MessageBus | None = None
        self._connecting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    async def start_unit(self, name: str, properties: Mapping[str, Variant]) -> None:
        """Start a transient unit. Raises WorkerError."""
        listed = [[key, value] for key, value in properties.items()]
        await self._call("StartTransientUnit", "ssa(sv)a(sa(sv))", [name, "fail", listed, []])

    async def stop_unit(self, name: str) -> None:
        """Begin to stop a unit; one that is gone is stopped. Raises WorkerError."""
        await self._call("StopUnit", "ss", [name, "replace"], missing_ok=True)

    async def kill_unit(self, name: str, number: int) -> None:
        """Send a signal to every process of a unit. Raises WorkerError."""
        await self._call("KillUnit", "ssi", [name, "all", number], missing_ok=True)

    async def forget_unit(self, name: str) -> None:
        """Let systemd drop a unit that has ended. Raises WorkerError."""
        await self._call("ResetFailedUnit", "s", [name], missing_ok=True)
        await self._call("UnrefUnit", "s", [name], missing_ok=True)

    async def keep_unit(self, name: str) -> None:
        """Have systemd keep a unit that ends, so that its exit status can be read."""
        await self._call("RefUnit", "s", [name], missing_ok=True)

    async def units(self, pattern: str) -> list[str]:
        """Return the names of units that match a pattern. Raises WorkerError."""
        body = await self._call("ListUnitsByPatterns", "asas", [[], [pattern]])
        return [str(row[0]) for row in body[0]]

    async def state(self, name: str) -> UnitState:
        """Return how a unit stands. Raises WorkerError if systemd cannot be asked."""
        found = await self._call("GetUnit", "s", [name], missing_ok=True)
        if not found:
            return UnitState()
        unit = await self._properties(found[0], "org.freedesktop.systemd1.Unit")
        service = await self._properties(found[0], "org.freedesktop.systemd1.Service")
        if not unit or not service:
            return UnitState()
        main_pid = int(service["MainPID"].value)
        return UnitState(
            is_there=True,
            is_running=unit["ActiveState"].value in _RUNS,
            is_ending=unit["ActiveState"].value == "deactivating",
            invocation=bytes(unit["InvocationID"].value).hex(),
            main_pid=main_pid,
            exit_code=None if main_pid else _exit_code(service),
            result=str(service["Result"].value),
        )

    def close(self) -> None:
        """End the connection."""
        if self._bus is not None:
            self._bus.disconnect()
            self._bus = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _properties(self, path: str, interface: str) -> Mapping[str, Variant]:
        message = Message(
            destination=_SERVICE,
            path=path,
            interface="org.freedesktop.DBus.Properties",
            member="GetAll",
            signature="s",
            body=[interface],
        )
        body = await self._answer(message, missing_ok=True)
        properties: Mapping[str, Variant] = body[0] if body else {}
        return properties

    async def _call(
        self, member: str, signature: str, body: Sequence[Any], *, missing_ok: bool = False
    ) -> list[Any]:
        message = Message(
            destination=_SERVICE,
            path=_PATH,
            interface=_MANAGER,
            member=member,
            signature=signature,
            body=list(body),
        )
        return await self._answer(message, missing_ok=missing_ok)

    async def _answer(self, message: Message, *, missing_ok: bool) -> list[Any]:
        """Return the body of the answer; nothing if the unit is missing and may be."""
        try:
            bus = await self._connected()
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                reply = await bus.call(message)
        except _UNREACHED as error:
            self.close()
            raise WorkerError(
                f"systemd cannot be asked ({message.member}): {error or type(error).__name__}",
                reason=EdgeReason.CONNECT,
                retryable=True,
            ) from error
        if reply is None or reply.message_type is not MessageType.ERROR:
            return list(reply.body) if reply is not None else []
        if reply.error_name in _GONE and missing_ok:
            return []
        raise _refusal(message.member or "", reply)

    async def _connected(self) -> MessageBus:
        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                bus = _Bus(self._address, bus_type=self._bus_type)
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await bus.connect()
                self._bus = bus
                self._watching = asyncio.create_task(_until_lost(bus), name="systemd's bus")
            return self._bus


def is_system(settings: SystemdSettings, environ: Mapping[str, str], *, is_root: bool) -> bool:
    """Return whether the system's own systemd is meant.

    A service of the system that runs as a user of its own has no session, and so no bus of that.
    """
    if settings.bus is not None:
        return settings.bus is not Bus.USER
    return is_root or not environ.get("DBUS_SESSION_BUS_ADDRESS")


async def _until_lost(bus: MessageBus) -> None:
    """Tell of a connection that is lost; one that we end is not."""
    try:
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
    except (OSError, EOFError) as error:
        log.warning("the bus of systemd is lost: %s", error or "closed")


def _refusal(member: str, reply: Message) -> WorkerError:
    text = str(reply.body[0]) if reply.body else "no reason given"
    if reply.error_name in _DENIED:
        text += " (the daemon's user needs the polkit right org.freedesktop.systemd1.manage-units)"
    return WorkerError(f"systemd refuses {member}: {text}", reason=EdgeReason.REFUSED)


def _exit_code(service: Mapping[str, Variant]) -> int | None:
    """Return what waitid said of the main process: si_code tells an exit from a signal."""
    code, status = int(service["ExecMainCode"].value), int(service["ExecMainStatus"].value)
    if not code:
        return None
    return status if code == _CLD_EXITED else -status
