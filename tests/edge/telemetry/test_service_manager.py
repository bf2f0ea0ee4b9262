from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ds4watch.telemetry.service_manager import ServiceManager, service_manager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_hears_what_it_is_told(tmp_path: Path, *, is_abstract: bool) -> None:
    address = f"@ds4watch-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0", 1) if is_abstract else address)
        manager = service_manager({"NOTIFY_SOCKET": address})
        manager.ready()
        assert systemd.recv(100) == b"READY=1"
        manager.reloading()
        assert systemd.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        manager.alive()
        manager.stopping()
        assert [systemd.recv(100), systemd.recv(100)] == [b"WATCHDOG=1", b"STOPPING=1"]


def test_nobody_listens_and_the_service_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service_manager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    assert "systemd could not be told READY" in caplog.text


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_a_watchdog_waits_only_where_it_waits_for_us(
    environ: dict[str, str], seconds: float | None
) -> None:
    assert service_manager(environ) == ServiceManager(None, seconds)
