"""The gateway: requests a second, added latency and streams a second, beside others.

python -m benchmarks.bench_gateway [seconds [rounds [name…]]]

One run, one upstream (a worker that answers from memory), one load generator (`wrk`): straight to
the worker, through ours (one process, with everything on: a key, the spool, a level of the policy),
through vLLM's router, through a bare relay over aiohttp, and through LiteLLM's proxy. The peers'
virtual environments are made in `.venv-peers` on first use; LiteLLM's takes minutes and some
hundred MB, so it is measured only if named or there already. Rounds take turns, so that a busy
machine is busy for all; medians are told. CPU is that of the gateway's process (all its threads)
for each request.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.support.processes import (
    ROOT,
    cpu_seconds,
    fetched,
    free_port,
    python,
    running,
    wait_until,
)
from ds4watch.model.service_policy import ApiKey, Board, Limits, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView

CONNECTIONS = 32
SECRET = "sk-" + hashlib.sha256(b"bench").hexdigest()
PEERS = ROOT / ".venv-peers"
TARGETS = (7000.0, 0.4, 2086.0)
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Tell me about the sea in %09d words, please."},
    ],
    "max_tokens": 64,
    "temperature": 0.7,
}
# Each request is another: the same one over and over is odd, and a gateway may treat it so.
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {secret}"
local count = 0
function request()
  count = count + 1
  return wrk.format(nil, nil, nil, string.format([==[{body}]==], count))
end
"""
Start = Callable[[ExitStack, Path, str], "Front"]


@dataclass(frozen=True, slots=True)
class Front:
    """Something to send requests to."""

    url: str
    pid: int


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk told, and the CPU a request cost the process in the middle."""

    per_second: float
    median_ms: float
    cpu_us: float


@dataclass(slots=True)
class Measured:
    """Runs of one front."""

    single: list[Load] = field(default_factory=list)
    plain: list[Load] = field(default_factory=list)
    streams: list[Load] = field(default_factory=list)

    def figures(self) -> tuple[float, float, float]:
        """Return requests a second, median ms at one connection, streams a second."""
        return (
            statistics.median(load.per_second for load in self.plain),
            statistics.median(load.median_ms for load in self.single),
            statistics.median(load.per_second for load in self.streams),
        )

    def cpu_us(self) -> tuple[float, float]:
        """Return the CPU of a request and of a stream."""
        return (
            statistics.median(load.cpu_us for load in self.plain),
            statistics.median(load.cpu_us for load in self.streams),
        )


def main(seconds: float = 5, rounds: int = 3, names: Sequence[str] = ()) -> None:
    """Measure, and print."""
    if shutil.which("wrk") is None:
        raise SystemExit("needs the program wrk (Debian: apt-get install wrk)")
    fronts = dict(FRONTS)
    if not names and not (PEERS / "litellm").exists():
        print("LiteLLM is left out: name it, as in ARGS='5 3 direct ours vllm-router litellm'")
        del fronts["litellm"]
    folder = Path(tempfile.mkdtemp(prefix="bench-gateway-"))
    try:
        with ExitStack() as stack:
            worker = _worker(stack, folder)
            chosen = {
                name: start(stack, folder, worker)
                for name, start in fronts.items()
                if not names or name in names
            }
            found = {name: Measured() for name in chosen}
            for _ in range(rounds):
                for name, front in chosen.items():
                    _measure(front, found[name], folder, seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _print(found)


def _print(found: dict[str, Measured]) -> None:
    base = found["direct"].figures()[1] if "direct" in found else 0.0
    for name, measured in found.items():
        plain, median, streams = measured.figures()
        cpu, cpu_stream = measured.cpu_us()
        print(
            f"{name:12} {plain:8.0f} requests/s  {median - base:6.3f} ms added  "
            f"{streams:7.0f} streams/s  CPU {cpu:6.0f} us a request, {cpu_stream:6.0f} us a stream"
        )
    ours = found.get("ours")
    if ours is None:
        return
    plain, median, streams = ours.figures()
    if plain < TARGETS[0] or median - base > TARGETS[1] or streams < TARGETS[2]:
        print("short of a target: {:.0f} requests/s, {} ms, {:.0f} streams/s".format(*TARGETS))
    for name in ("vllm-router", "litellm"):
        if name in found:
            other = found[name].figures()
            _ratio(f"requests/s, ours to {name} (more is better)", plain, other[0])
            _ratio(f"streams/s, ours to {name} (more is better)", streams, other[2])
            _ratio(f"added ms, ours to {name} (less is better)", median - base, other[1] - base)


def _ratio(what: str, ours: float, theirs: float) -> None:
    if theirs <= 0:
        print(f"{what}: theirs is {theirs:g}, so there is no ratio")
    else:
        print(f"{what}: ratio={ours / theirs:.2f}")


def _measure(front: Front, into: Measured, folder: Path, seconds: float) -> None:
    single = _wrk(front, folder / "plain.lua", seconds=seconds / 2, connections=1)
    plain = _wrk(front, folder / "plain.lua", seconds=seconds, connections=CONNECTIONS)
    streams = _wrk(front, folder / "stream.lua", seconds=seconds, connections=CONNECTIONS)
    into.single.append(single)
    into.plain.append(plain)
    into.streams.append(streams)


def _wrk(front: Front, script: Path, *, seconds: float, connections: int) -> Load:
    before = cpu_seconds(front.pid)
    options = [
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}s",
        "--latency",
        "--timeout",
        "30s",
    ]
    command = ["wrk", *options, "-s", str(script), f"{front.url}/v1/chat/completions"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = cpu_seconds(front.pid) - before
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"{front.url}: not all is well:\n{said}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    median = re.search(r"50%\s+([\d.]+)(us|ms|s)", said)
    count = re.search(r"(\d+) requests in", said)
    if rate is None or median is None or count is None:
        raise SystemExit(f"wrk is not understood:\n{said}")
    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3}[median.group(2)]
    return Load(
        per_second=float(rate.group(1)),
        median_ms=float(median.group(1)) * scale,
        cpu_us=used / max(1, int(count.group(1))) * 1e6,
    )


def _worker(stack: ExitStack, folder: Path) -> str:
    for name, more in (("plain", {}), ("stream", {"stream": True})):
        body = json.dumps(CHAT | more, separators=(",", ":"))
        (folder / f"{name}.lua").write_text(SCRIPT.format(secret=SECRET, body=body))
    port = free_port()
    command = python("benchmarks.support.canned_worker", port)
    return _listening(stack, command, folder / "worker.log", port, "/v1/models").url


def _direct(stack: ExitStack, folder: Path, worker: str) -> Front:
    del stack, folder
    return Front(worker, pid=1)


def _ours(stack: ExitStack, folder: Path, worker: str) -> Front:
    """Ours, with three keys, a level of the policy that caps answers, and the spool."""
    state, port = folder / "state", free_port()
    state.mkdir()
    limits = Limits(max_tokens_cap=512, max_inflight=512, shed_below_priority=2)
    view = WorkerView("w1", "p", ("m",), worker, WorkerPhase.READY, since=1.0)
    keys = tuple(
        ApiKey(name, hashlib.sha256(secret.encode()).hexdigest())
        for name, secret in (("one", "x"), ("two", "y"), ("bench", SECRET))
    )
    policy = ServicePolicy(version=2, level=1, limits=limits, ladder=(Limits(), limits))
    board = Board(1, FleetSnapshot(1.0, (view,)), policy, keys)
    (state / "board.json").write_text(json.dumps(board.as_json()))
    command = python(
        "ds4watch.gateway", "--name", "g0", "--state", state, "--host", "127.0.0.1", "--port", port
    )
    return _listening(stack, command, folder / "ours.log", port, "/health")


def _bare_relay(stack: ExitStack, folder: Path, worker: str) -> Front:
    port = free_port()
    command = python("benchmarks.support.bare_relay", port, worker)
    return _listening(stack, command, folder / "relay.log", port, None)


def _vllm_router(stack: ExitStack, folder: Path, worker: str) -> Front:
    port, program = free_port(), _peer("vllm-router", "vllm-router", "vllm-router")
    command = [
        program, "--worker-urls", worker, "--host", "127.0.0.1", "--port", port,
        "--policy", "round_robin", "--log-level", "error",
        "--prometheus-port", free_port(),
    ]  # fmt: skip
    return _listening(stack, command, folder / "router.log", port, "/v1/models")


def _litellm(stack: ExitStack, folder: Path, worker: str) -> Front:
    port, program = free_port(), _peer("litellm", "litellm[proxy]", "litellm")
    parameters = {"model": "openai/m", "api_base": f"{worker}/v1", "api_key": "none"}
    told = {
        "model_list": [{"model_name": "m", "litellm_params": parameters}],
        "general_settings": {"master_key": SECRET},
    }
    config = folder / "litellm.yaml"
    config.write_text(json.dumps(told))  # JSON is YAML
    command = [
        program, "--config", config, "--host", "127.0.0.1", "--port", port,
        "--num_workers", "1", "--telemetry", "False",
    ]  # fmt: skip
    return _listening(stack, command, folder / "litellm.log", port, "/health/liveliness")


FRONTS: dict[str, Start] = {
    "direct": _direct,
    "ours": _ours,
    "vllm-router": _vllm_router,
    "bare-relay": _bare_relay,
    "litellm": _litellm,
}


def _peer(name: str, requirement: str, program: str) -> Path:
    """Return a peer's program, in a virtual environment of its own that is made once."""
    folder = PEERS / name
    if not (folder / "bin" / program).exists():
        print(f"{requirement} goes into {folder}: once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = folder / "bin" / "pip"
        subprocess.run([pip, "install", "--quiet", requirement], check=True)
    return folder / "bin" / program


def _listening(
    stack: ExitStack, command: Sequence[object], log: Path, port: int, path: str | None
) -> Front:
    process = stack.enter_context(running([str(part) for part in command], log))
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} has ended:\n{log.read_text()[-2000:]}")
        if path is None:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        return bool(fetched(url + path))

    wait_until(answers, 180, f"{command[0]} on {url}")
    return Front(url, process.pid)


def _arguments(given: Sequence[str]) -> Iterator[object]:
    if given:
        yield float(given[0])
    if len(given) > 1:
        yield int(given[1])
    if len(given) > 2:
        yield given[2:]


if __name__ == "__main__":
    main(*_arguments(sys.argv[1:]))  # type: ignore[arg-type]
