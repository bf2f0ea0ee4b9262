"""A worker as the properties of a transient unit."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dbus_fast import Variant

from ds4watch.fleet.command import HOST
from ds4watch.fleet.recipe import is_secret

_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """What a unit is made of. `secrets` is a file that only its user can read."""

    description: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: Path
    port: int
    log: Path
    stop_grace_seconds: float
    memory_max_bytes: int | None = None
    slice_name: str | None = None
    user: str | None = None


def properties_of(plan: UnitPlan) -> dict[str, Variant]:
    """Return the properties for StartTransientUnit.

    Environment is shown to everybody who can ask systemd: what looks like a secret is left to
    `write_secrets`.
    """
    enter = str(Path(__file__).with_name("enter.py"))
    command = [sys.executable, "-I", "-S", enter, HOST, str(plan.port), "1", "--", *plan.argv]
    public = [f"{name}={value}" for name, value in plan.environment.items() if not is_secret(name)]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    found = {
        "Description": Variant("s", plan.description),
        "Type": Variant("s", "exec"),
        "ExecStart": Variant("a(sasb)", [[command[0], command, False]]),
        "Environment": Variant("as", public),
        "EnvironmentFiles": Variant("a(sb)", [[str(plan.secrets), False]]),
        "WorkingDirectory": Variant("s", str(Path.cwd())),
        "StandardOutputFileToAppend": Variant("s", str(plan.log)),
        "StandardErrorFileToAppend": Variant("s", str(plan.log)),
        "Restart": Variant("s", "no"),
        "KillMode": Variant("s", "control-group"),
        "SendSIGKILL": Variant("b", True),  # noqa: FBT003 - a D-Bus value
        "TimeoutStopUSec": Variant("t", int(plan.stop_grace_seconds * _MICROSECONDS)),
        "OOMPolicy": Variant("s", "kill"),
        "LimitNOFILE": Variant("t", min(files, 2**63) if files > 0 else 2**63),
        "AddRef": Variant("b", True),  # noqa: FBT003 - a D-Bus value
    }
    if plan.memory_max_bytes is not None:
        found["MemoryMax"] = Variant("t", plan.memory_max_bytes)
    if plan.slice_name is not None:
        found["Slice"] = Variant("s", plan.slice_name)
    if plan.user is not None:
        found["User"] = Variant("s", plan.user)
    return found


def write_secrets(plan: UnitPlan) -> None:
    """Write the part of the environment that nobody else may read, in systemd's quoting."""
    lines = [
        f"{name}={_quoted(value)}\n" for name, value in plan.environment.items() if is_secret(name)
    ]
    plan.secrets.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(plan.secrets, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.writelines(lines)


def _quoted(value: str) -> str:
    escaped = "".join(f"\\{it}" if it in '\\"$`' else it for it in value)
    return f'"{escaped}"'
