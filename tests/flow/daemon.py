"""A daemon as a person runs it: a process of its own, asked over HTTP and the command line."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_API = "/api/ds4/v1"
_PORTS = range(15_000, 31_000)  # under those that the kernel hands out to clients
T = TypeVar("T")

POLICY = """\
pools:
  default:
    settle_seconds: 1
    clear_hold_seconds: 1
    ladder:
      - {name: shorter-answers, max_tokens_cap: 32}
      - {name: shortest-answers, max_tokens_cap: 16}
bindings:
  - {match: {alertname: QueueHigh}, level: 2}
  - {match: {alertname: Busy}, level: 1}
"""
"""Two levels with short times; an alert Busy asks for the first, QueueHigh for both."""

BUSY = """\
groups:
  - name: flow
    rules:
      - alert: Busy
        expr: sum(ds4_running_requests) > 0
        for: 1s
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
"""


def until(look: Callable[[], T | None], what: str = "", *, seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true thing that `look` returns; fail with the last thing seen."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what} (last: {found!r})"
        time.sleep(_LOOK_SECONDS)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if not listens(port):
            found.append(port)
        if len(found) == count:
            break
    return found


def listens(port: int) -> bool:
    """Return whether anybody has a loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


def session_of(leader: int) -> list[int]:
    """Return the running processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_running(int(entry.name)):
            try:
                session = os.getsid(int(entry.name))
            except OSError:
                continue
            if session == leader:
                found.append(int(entry.name))
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> Answer:
    """Send one request to a loopback port: GET, or POST if it has a body, unless told."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as connection:
        payload = None if body is None else json.dumps(body)
        own = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method or ("GET" if body is None else "POST"), path, payload, own)
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, named, answer.read())


def chat(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    """Return the body of a request that is answered with exactly `max_tokens` tokens."""
    messages = [{"role": "user", "content": text}]
    return {"model": "sim", "messages": messages, "max_tokens": 4, "ignore_eos": True} | fields


@dataclass(slots=True)
class Daemon:
    """One state folder and settings file, and the daemon that is started on them."""

    folder: Path
    settings: dict[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What is added to the daemon's own environment."""
    process: subprocess.Popen[str] | None = None
    seen: dict[str, set[int]] = field(default_factory=dict)
    """Every process that was ever written down, by unit; for the end of a test."""

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def config(self) -> Path:
        return self.folder / "ds4watch.yml"

    @property
    def log(self) -> Path:
        return self.folder / "daemon.log"

    @property
    def admin_port(self) -> int:
        return int(self.settings["admin"]["port"])

    @property
    def gateway_port(self) -> int:
        return int(self.settings["gateway"]["port"])

    def start(self) -> None:
        """Start the daemon; returns at once."""
        with self.log.open("a", encoding="utf-8") as stream:
            self.process = subprocess.Popen(
                [*PROGRAM, "up", "--sim", *self.options],
                stdout=stream,
                stderr=stream,
                stdin=subprocess.DEVNULL,
                text=True,
                env=environment(**self.environment),
                start_new_session=True,
            )

    def up(self) -> None:
        """Start the daemon and wait until both workers are ready and the gateway knows."""
        self.start()
        self.until_ready()
        until(lambda: "sim" in self.models(), "a model at the gateway")

    def until_ready(self) -> None:
        until(self.is_ready, "a daemon that is ready")

    def models(self) -> list[str]:
        """Return the models that the gateway offers."""
        return [model["id"] for model in ask(self.gateway_port, "/v1/models").json()["data"]]

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the daemon ended:\n{self.log_text()}"
        try:
            return ask(self.admin_port, f"{_API}/ready").status == 200
        except OSError:
            return False
        finally:
            self.note_pids()

    @property
    def options(self) -> tuple[str, ...]:
        return ("--config", str(self.config), "--state", str(self.state))

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ds4watch to its end."""
        return subprocess.run(
            [*PROGRAM, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS * 2,
            env=environment(),
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of ds4watch."""
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return the daemon's exit code, once it has ended."""
        assert self.process is not None
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = ask(self.admin_port, f"{_API}/status").json()
        return found

    def level(self) -> int:
        return int(self.status()["policy"]["level"])

    def phases(self, alert: str) -> list[str]:
        """Return the phases in which alerts of a name are now."""
        return [it["phase"] for it in self.status()["alerts"] if it["name"] == alert]

    def worker(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(it for it in self.status()["fleet"] if it["id"] == name)
        return found

    def audit(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the audit, oldest first."""
        query = f"?limit=1000&kind={kind}" if kind else "?limit=1000"
        rows: list[dict[str, Any]] = ask(self.admin_port, f"{_API}/audit{query}").json()["audit"]
        return rows[::-1]

    def metric(self, line: str) -> float | None:
        """Return the sum of the lines of /metrics that begin so; None if there is none."""
        page = ask(self.admin_port, "/metrics").body.decode()
        found = [it.rpartition(" ")[2] for it in page.splitlines() if it.startswith(line)]
        return sum(map(float, found)) if found else None

    def complete(self, **fields: Any) -> Answer:
        """Send one chat request through the gateway."""
        return ask(self.gateway_port, "/v1/chat/completions", chat(**fields))

    def rows(self, query: str, base: str = "state.db") -> list[tuple[Any, ...]]:
        """Read a database by plain SQL, as a person would."""
        address = f"file:{self.state / base}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE_SECONDS)) as opened:
            return opened.execute(query).fetchall()

    def booked(self) -> int:
        """Return how many requests are in the ledger."""
        ((count,),) = self.rows("SELECT coalesce(sum(requests), 0) FROM requests_hourly")
        return int(count)

    def records(self) -> dict[str, dict[str, Any]]:
        """Return the process records of the state folder by unit."""
        found = {}
        for path in sorted((self.state / "run").glob("*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            found[record["unit"]] = record
        return found

    def note_pids(self) -> dict[str, int]:
        """Return the pid of each unit, and remember it for the end."""
        pids = {unit: int(record["pid"]) for unit, record in self.records().items()}
        for unit, pid in pids.items():
            self.seen.setdefault(unit, set()).add(pid)
        return pids

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else "no log"

    def assert_nothing_is_left(self, ports: list[int]) -> None:
        """No process, no port, no record, no socket, no lock that is held."""
        left = {unit: session_of(pid) for unit, pids in self.seen.items() for pid in pids}
        assert not any(left.values()), left
        assert not [port for port in ports if listens(port)]
        assert not list((self.state / "run").iterdir())
        assert not list(self.state.glob("*.sock"))
        with (self.state / "daemon.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def assert_history_is_flushed(self) -> None:
        """Nothing waits in a write-ahead log: the databases were closed."""
        assert not list(self.state.glob("*-wal"))

    def ports(self) -> list[int]:
        """Return every port that is in use by daemon, gateway and workers."""
        return [self.admin_port, *(int(it["port"]) for it in self.records().values())]

    def kill_all(self) -> None:
        """End whatever still runs, however the test went."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait()
        self.note_pids()
        for pid in {pid for pids in self.seen.values() for pid in pids}:
            for member in session_of(pid):
                kill(member)


PROGRAM = (sys.executable, "-m", "ds4watch")


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of the commands: what would change their settings is left out."""
    kept = {name: it for name, it in os.environ.items() if not name.startswith("DS4WATCH_")}
    return kept | extra


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def ended(process: subprocess.Popen[str]) -> str:
    """Return the output of a command that is to end by itself and well."""
    output, _ = process.communicate(timeout=PATIENCE_SECONDS * 2)
    assert process.returncode == 0, output
    return output


@contextmanager
def new_daemon(
    *,
    rules: str = BUSY,
    policy: str = POLICY,
    fleet: Mapping[str, Any] | None = None,
    more: Mapping[str, str] | None = None,
    sections: Mapping[str, Any] | None = None,
) -> Iterator[Daemon]:
    """Yield a daemon that is not started yet; at the end nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="ds4-"))
    admin, gateway, first = free_ports(3)
    settings = {
        "rules": ["rules.yml"],
        "policy": "policy.yml",
        "admin": {"port": admin},
        "gateway": {"port": gateway, "drain_seconds": 20},
        "scrape": {"interval_seconds": 0.5},
        "fleet": {"first_port": first, "restart_backoff_seconds": 0.2, **(fleet or {})},
        **(sections or {}),
    }
    daemon = Daemon(folder, settings, more or {})
    (folder / "rules.yml").write_text(rules, encoding="utf-8")
    (folder / "policy.yml").write_text(policy, encoding="utf-8")
    daemon.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    try:
        yield daemon
    finally:
        daemon.kill_all()
        shutil.rmtree(folder, ignore_errors=True)


class Stream(threading.Thread):
    """One streamed request through the gateway, read to its end in a thread."""

    def __init__(self, daemon: Daemon, *, max_tokens: int, patience_seconds: float = 60) -> None:
        super().__init__(daemon=True)
        self._port = daemon.gateway_port
        self._patience_seconds = patience_seconds
        options = {"include_usage": True}
        self._body = chat(
            model="sim-full", max_tokens=max_tokens, stream=True, stream_options=options
        )
        self.begun = threading.Event()
        self.left = threading.Event()
        self.events: list[str] = []
        self.error: Exception | None = None
        self.start()
        assert self.begun.wait(PATIENCE_SECONDS), self.error

    def run(self) -> None:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._port, timeout=self._patience_seconds
        )
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(self._body))
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    self.events.append(line.decode().removeprefix("data: ").strip())
                    self.begun.set()
                if self.left.is_set():
                    return
        except (OSError, http.client.HTTPException) as error:
            self.error = error
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Close the connection, as a client that has heard enough."""
        self.left.set()
        self.join(PATIENCE_SECONDS)

    def completion_tokens(self) -> int | None:
        """Return the length of the answer as its last chunk tells it; None before that."""
        chunks = [json.loads(event) for event in list(self.events) if event != "[DONE]"]
        told = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
        return int(told[-1]["completion_tokens"]) if told else None

    def is_open(self) -> bool:
        """Return whether it still goes on."""
        return self.is_alive()

    def is_whole(self) -> bool:
        """Return whether it came to its own end."""
        return self.error is None and bool(self.events) and self.events[-1] == "[DONE]"
