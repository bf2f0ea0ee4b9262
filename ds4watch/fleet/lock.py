"""One daemon a state folder: a lock file that lives as long as its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from ds4watch.model.errors import ConfigError, Located

LOCK_FILE = "daemon.lock"
REPLICA_FILE = "replica.id"
MAX_SOCKET_PATH_BYTES = 107
"""sun_path of a Unix socket has 108 bytes, the last of them zero."""


@contextlib.contextmanager
def daemon_lock(state_dir: Path) -> Iterator[None]:
    """Hold the folder's lock, with our pid in it. Raises ConfigError if another daemon has it."""
    path = state_dir / LOCK_FILE
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            finding = Located(
                f"another daemon, process {_pid(path) or 'unknown'}, runs on this state folder",
                str(state_dir),
                mend="stop it with `ds4watch down`, or take another folder with --state",
            )
            raise ConfigError(finding) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def replica_id(state_dir: Path) -> str:
    """Return what tells the daemon of this folder from those of others; made once. Raises OSError.

    Only for who holds the folder's lock.
    """
    path = state_dir / REPLICA_FILE
    with contextlib.suppress(FileNotFoundError):
        known = path.read_text(encoding="ascii").strip()
        if known:
            return known
    fresh = secrets.token_hex(16)
    temporary = path.with_suffix(".new")
    temporary.write_text(f"{fresh}\n", encoding="ascii")
    temporary.replace(path)
    return fresh


def running_daemon(state_dir: Path) -> int | None:
    """Return the pid of the daemon that holds the folder's lock, if one does."""
    path = state_dir / LOCK_FILE
    if not path.exists():
        return None
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _pid(path)
    finally:
        os.close(descriptor)
    return None


def make_state_dir(state_dir: Path) -> None:
    """Make the state folder, for us alone. Raises ConfigError if it cannot be written."""
    socket_length = len(os.fsencode(state_dir / "control.sock"))
    if socket_length > MAX_SOCKET_PATH_BYTES:
        finding = Located(
            f"the path is too long by {socket_length - MAX_SOCKET_PATH_BYTES} bytes for a socket",
            str(state_dir),
            field="state_dir",
            mend="take a folder with a shorter path",
        )
        raise ConfigError(finding)
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state_dir / "spool").mkdir(mode=0o700, exist_ok=True)
        probe = state_dir / f".probe-{os.getpid()}"
        probe.write_bytes(b"ds4watch")
        probe.unlink()
    except OSError as error:
        raise ConfigError(_unwritable(state_dir, error)) from error


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(_unwritable(path.parent, error)) from error


def _unwritable(state_dir: Path, error: OSError) -> Located:
    reason = (error.strerror or str(error)).lower()
    return Located(
        f"the state folder cannot be written: {reason}",
        str(state_dir),
        field="state_dir",
        mend="make it writable, or take another folder with state_dir or --state",
    )


def _pid(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
