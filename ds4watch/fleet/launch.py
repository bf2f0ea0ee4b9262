"""Start a unit: take its lock, write its record, become it.

Run as `python -I -S launch.py RECORD LOCK META -- ARGV…`, standard library only. The record is
written by the process that the unit becomes, before it becomes it, so a daemon killed at any
moment never leaves a unit that the next one cannot find. The lock lives as long as the unit does:
two processes are never the same unit.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path

EXIT_LOCKED = 75


def start_ticks_of(pid: int | str) -> int:
    """Return field 22 of /proc/PID/stat: start time in clock ticks since boot."""
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[19])


def boot_id() -> str:
    """Return the id of this boot of the kernel; with pid and start ticks it names a process."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def main(arguments: list[str]) -> None:
    """Become the unit. Never returns; exit status 75 if another process is the unit."""
    record, lock, meta = arguments[:3]
    argv = arguments[4:]
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stderr.write(f"ds4watch: another process already is this unit ({lock})\n")
        sys.exit(EXIT_LOCKED)
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional-only
    identity = {
        "pid": os.getpid(),
        "start_ticks": start_ticks_of("self"),
        "boot_id": boot_id(),
    }
    temporary = Path(f"{record}.{os.getpid()}")
    temporary.write_text(json.dumps(json.loads(meta) | identity), encoding="utf-8")
    temporary.replace(record)
    os.execvp(argv[0], argv)  # noqa: S606 - this is what a launcher is for; no shell


if __name__ == "__main__":
    main(sys.argv[1:])
