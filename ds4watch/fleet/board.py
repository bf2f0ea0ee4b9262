"""The daemon's end of the way to the gateways: the board file and the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ds4watch.fleet.gateway_counts import AdmissionCounts, counts_in, counts_of
from ds4watch.model.limits import Limits
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import ApiKey, Board, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerLoad, WorkerView

log = logging.getLogger(__name__)

CONTROL_SOCKET = "control.sock"
_LINE_LIMIT_BYTES = 8 << 20
_BACKLOG_LIMIT_BYTES = 8 << 20
_CLOSE_SECONDS = 1.0
_SETTLE_SECONDS = 10.0
_STATS = b'{"type":"stats"}\n'
_NO_LOAD = WorkerLoad()


@dataclass(frozen=True, slots=True)
class GatewayView:
    """A gateway process as the daemon sees it."""

    name: str
    pid: int
    policy_version: int
    inflight: int | None = None
    unserved: Mapping[str, int] = field(default_factory=dict)
    """Requests that found no ready worker, by model, since the gateway's start."""
    filtered: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """What the output filter found, by rule and action, since then."""
    scores: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Answers scored and the sum of their scores, by worker, since then."""
    aside: Mapping[str, str] = field(default_factory=dict)
    """Workers that it leaves out, and why."""
    long_open: int = 0
    long_waiting: int = 0
    """Long prompts at workers, and those that wait for their turn."""
    long_sessions: tuple[int, int] = (0, 0)
    """Requests of conversations of many turns in the last minutes, and how many of them failed."""
    admission: AdmissionCounts | None = None


class _Link:
    """One connected gateway."""

    def __init__(self, view: GatewayView, writer: asyncio.StreamWriter) -> None:
        self.view = view
        self.writer = writer

    def send(self, line: bytes) -> None:
        transport = self.writer.transport
        if transport.get_write_buffer_size() > _BACKLOG_LIMIT_BYTES:
            log.warning("gateway %s does not read its control socket: cut off", self.view.name)
            transport.abort()
            return
        self.writer.write(line)


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class BoardPublisher:
    """Writes the board (atomic rename) and pushes it to each connected gateway."""

    def __init__(
        self,
        state_dir: Path,
        clock: Clock,
        *,
        policy: ServicePolicy,
        fleet: FleetSnapshot | None = None,
        keys: tuple[ApiKey, ...] = (),
    ) -> None:
        """Begin with `fleet` and `keys`, so that gateways that are there already serve on."""
        self._path = state_dir / "board.json"
        self._socket = state_dir / CONTROL_SOCKET
        self._clock = clock
        self._links: dict[str, _Link] = {}
        self._serving: set[asyncio.Task[Any]] = set()
        self._acknowledged = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._written = False
        self._began_at = clock.monotonic()
        self._gone: dict[str, float] = {}
        self.board = Board(
            version=0, fleet=fleet or FleetSnapshot(at=clock.now()), policy=policy, keys=keys
        )

    async def __aenter__(self) -> Self:
        self.board = replace(self.board, version=self._last_version())
        self._socket.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(
            self._serve, path=self._socket, limit=_LINE_LIMIT_BYTES
        )
        self._socket.chmod(0o600)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for link in self._links.values():
            link.writer.close()
        if (
            self._serving
        ):  # not to be cancelled in the middle, which asyncio would tell with a trace
            await asyncio.wait(self._serving, timeout=_CLOSE_SECONDS)
        self._socket.unlink(missing_ok=True)

    def is_news(self, fleet: FleetSnapshot) -> bool:
        """Return whether a worker stands otherwise than published, loads aside."""
        return _standing(fleet) != _standing(self.board.fleet)

    def publish_fleet(self, fleet: FleetSnapshot) -> None:
        """Publish a new snapshot of the fleet under the policy and with the keys in force."""
        self._publish(replace(self.board, fleet=fleet))

    def publish_keys(self, keys: tuple[ApiKey, ...]) -> None:
        """Publish another table of keys."""
        self._publish(replace(self.board, keys=keys))

    def publish_eased_models(self, eased: Mapping[str, Limits]) -> None:
        """Publish what requests for single models get by."""
        self._publish(replace(self.board, eased_models=dict(eased)))

    def policy(self) -> ServicePolicy:
        """Return the policy in force."""
        return self.board.policy

    async def publish_policy(self, policy: ServicePolicy, *, timeout_seconds: float) -> bool:
        """Publish a policy; return whether every live gateway acknowledged it in time.

        Without a live gateway there is nobody to obey, and the answer is False.
        """
        self._publish(replace(self.board, policy=policy))
        return await self._wait(
            lambda: (
                bool(self._links)
                and all(it.view.policy_version >= policy.version for it in self._links.values())
            ),
            timeout_seconds,
        )

    async def connected(self, count: int, *, timeout_seconds: float) -> bool:
        """Wait until so many gateways are connected."""
        return await self._wait(lambda: len(self._links) >= count, timeout_seconds)

    def ask_stats(self) -> None:
        """Ask each gateway for its in-flight counts; the answers come in by themselves."""
        for link in self._links.values():
            link.send(_STATS)

    def gateways(self) -> tuple[GatewayView, ...]:
        """Return the connected gateways by name."""
        return tuple(self._links[name].view for name in sorted(self._links))

    def _publish(self, board: Board) -> None:
        before = self.board
        self.board = replace(board, version=before.version + 1, gateways=self._live())
        document = json.dumps(self.board.as_json(), separators=(",", ":"))
        # Loads change each second and mean nothing to a gateway that starts later.
        if not self._written or _lasting(before) != _lasting(self.board):
            self._written = self._write(document)
        line = f'{{"type":"board","board":{document}}}\n'.encode()
        for link in list(self._links.values()):
            link.send(line)

    def _live(self) -> int:
        """Return how many gateways share the limits; 0, not known, until all had time to connect.

        One that has just gone still counts for a while: it may be on its way back.
        """
        now = self._clock.monotonic()
        if now - self._began_at < _SETTLE_SECONDS:
            return 0
        self._gone = {name: at for name, at in self._gone.items() if now - at < _SETTLE_SECONDS}
        return len(self._links.keys() | self._gone.keys())

    def _write(self, document: str) -> bool:
        temporary = self._path.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(document)
            temporary.replace(self._path)
        except OSError as error:
            log.error("the board file %s cannot be written: %s", self._path, error)  # noqa: TRY400 - one line, the reason says it all
            return False
        return True

    def _last_version(self) -> int:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(self._path.read_text(encoding="utf-8"))["version"])
        return 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: _Link | None = None
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if message["type"] == "hello":
                    link = self._greet(message, writer)
                elif link is not None:
                    link.view = _heard(link.view, message)
                    self._acknowledged.set()
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("control socket: a gateway's message is not understood: %s", error)
        finally:
            self._part(link)
            writer.close()

    def _greet(self, message: Mapping[str, Any], writer: asyncio.StreamWriter) -> _Link:
        view = GatewayView(
            name=message["gateway"], pid=message["pid"], policy_version=message["policy_version"]
        )
        link = _Link(view, writer)
        self._links[view.name] = link
        log.info("gateway %s connected, process %s", view.name, view.pid)
        link.send(_line({"type": "board", "board": self.board.as_json()}))
        self._acknowledged.set()
        return link

    def _part(self, link: _Link | None) -> None:
        if link is not None and self._links.get(link.view.name) is link:
            del self._links[link.view.name]
            self._gone[link.view.name] = self._clock.monotonic()
            log.info("gateway %s is gone from the control socket", link.view.name)
            self._acknowledged.set()

    async def _wait(self, done: Callable[[], bool], timeout_seconds: float) -> bool:
        try:
            async with asyncio.timeout(timeout_seconds):
                while not done():
                    self._acknowledged.clear()
                    await self._acknowledged.wait()
        except TimeoutError:
            return False
        return True


def _lasting(board: Board) -> tuple[object, ...]:
    """Return what of a board is worth a write: all but loads and versions."""
    # Of money only whether there is any: it goes with each request.
    keys = tuple(
        replace(key, left=None if key.left is None else replace(key.left, nanos=key.left.nanos > 0))
        for key in board.keys
    )
    return _standing(board.fleet), board.policy, keys, board.gateways, board.eased_models


def _standing(fleet: FleetSnapshot) -> tuple[WorkerView, ...]:
    return tuple(replace(worker, load=_NO_LOAD) for worker in fleet.workers)


def _heard(view: GatewayView, message: Mapping[str, Any]) -> GatewayView:
    """Return the view after an `ack` or a `stats` message."""
    if message["type"] == "ack":
        return replace(view, policy_version=int(message["policy_version"]))
    if message["type"] == "stats":
        filtered = {(str(rule), str(act)): int(n) for rule, act, n in message.get("filtered", ())}
        scores = {
            str(worker): (int(count), float(total))
            for worker, (count, total) in message.get("scores", {}).items()
        }
        requests, errors = message.get("long_sessions", (0, 0))  # older gateways tell none
        return replace(
            view,
            inflight=int(message["inflight"]),
            unserved=counts_in(message, "unserved"),
            admission=counts_of(message),
            filtered=filtered,
            scores=scores,
            aside={str(name): str(why) for name, why in message.get("aside", {}).items()},
            long_open=int(message.get("long_open", 0)),
            long_waiting=int(message.get("long_waiting", 0)),
            long_sessions=(int(requests), int(errors)),
        )
    return view


def last_policy(state_dir: Path, stored: Mapping[str, Any] | None) -> ServicePolicy:
    """Return the newest policy known: the database's, or the board file's if a daemon died between.

    A document that cannot be read is told and left aside.
    """
    documents: list[Mapping[str, Any]] = [stored] if stored is not None else []
    path = state_dir / "board.json"
    if path.exists():
        with contextlib.suppress(OSError, ValueError, KeyError):
            documents.append(json.loads(path.read_text(encoding="utf-8"))["policy"])
    found = [ServicePolicy()]
    for document in documents:
        try:
            found.append(ServicePolicy.from_json(document))
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a stored service policy cannot be read: %s", error)
    return max(found, key=lambda policy: policy.version)


def last_keys(state_dir: Path) -> tuple[ApiKey, ...]:
    """Return the keys of the last board; none if there is no board, or none that can be read."""
    try:
        board = json.loads((state_dir / "board.json").read_text(encoding="utf-8"))
        return tuple(ApiKey.from_json(key) for key in board["keys"])
    except FileNotFoundError:
        return ()
    except (OSError, KeyError, TypeError, ValueError) as error:
        log.warning("the keys of the last board cannot be read: %s", error)
        return ()


def last_fleet(state_dir: Path, running: Container[int]) -> FleetSnapshot:
    """Return the fleet of the last board, without workers whose process has ended since.

    running: pids that still run. Empty if there is no board, or none that can be read.
    """
    try:
        board = json.loads((state_dir / "board.json").read_text(encoding="utf-8"))
        workers = [WorkerView.from_json(worker) for worker in board["workers"]]
        at = float(board["at"])
    except FileNotFoundError:
        return FleetSnapshot(at=0.0)
    except (OSError, KeyError, TypeError, ValueError) as error:
        log.warning("the last board cannot be read: %s", error)
        return FleetSnapshot(at=0.0)
    return FleetSnapshot(
        at, tuple(worker for worker in workers if worker.pid is None or worker.pid in running)
    )
