"""How many processes the kernel has killed for want of memory: here, and on the whole machine."""

from __future__ import annotations

from pathlib import Path

_OWN_EVENTS = Path("/sys/fs/cgroup/memory.events")
_OWN_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/vmstat")
_NAME = "oom_kill "


def kernel_kills() -> int | None:
    """Return the higher of the counts of our cgroup and of the machine; None if there is neither.

    Workers run in our cgroup or below it, where a limit of its own may be what kills them.
    """
    counts = [_count(path) for path in (_own_events(), _OWN_EVENTS, _MACHINE)]
    return max((count for count in counts if count is not None), default=None)


def risen(before: int | None, now: int | None) -> int | None:
    """Return by how much a count rose; None if that cannot be told."""
    return None if before is None or now is None else max(0, now - before)


def _own_events() -> Path:
    try:
        line = _OWN_CGROUP.read_text(encoding="utf-8").strip().splitlines()[-1]
    except (OSError, IndexError):
        return _OWN_EVENTS
    return _CGROUPS / line.rpartition(":")[2].lstrip("/") / "memory.events"


def _count(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    found = [line for line in text.splitlines() if line.startswith(_NAME)]
    return int(found[0].removeprefix(_NAME)) if found else None
