"""Reaction: from a queue that grows to a gateway that obeys, beside Prometheus and Alertmanager.

python -m benchmarks.bench_reaction [moments]

Both watch the same simulated workers every second and evaluate the same rule, without `for`, every
second. At moments spread evenly over the second, the same for both, one worker's page begins to
show a long queue. Ours: until a gateway, asked every few milliseconds, is on the new level; a
request then has to come back shortened. Theirs: until Alertmanager's webhook (`group_wait: 0s`)
arrives, as if whoever gets it obeyed at once. The last line is `ratio=` our median ÷ theirs.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from benchmarks.support.processes import fetched, free_port, python, running, wait_until

MOMENTS = 40
WORKERS = 10
"""A worker's turn comes each 50 s: by then Alertmanager has forgotten its last group, and does not
hold the new one back for `group_interval`. Each has its own phase in Prometheus."""
PERIOD_SECONDS = 5
"""Whole seconds, so that a moment's place in the second is its number's."""
PATIENCE_SECONDS = 3.0
POLL_SECONDS = 0.004
QUEUE = 100
CAP = 16
TARGET_SECONDS = 0.55
RULES = {
    "groups": [
        {
            "name": "reaction",
            "interval": "1s",
            "rules": [
                {
                    "alert": "QueueHigh",
                    "expr": "vllm:num_requests_waiting > 50",
                    "labels": {"severity": "critical"},
                }
            ],
        }
    ]
}
POLICY = {
    "pools": {
        "default": {
            "settle_seconds": 0,
            "clear_hold_seconds": 0,
            "ladder": [{"name": "shorter-answers", "max_tokens_cap": CAP}],
        }
    },
    "bindings": [{"match": {"alertname": "QueueHigh"}, "level": 1}],
}


@dataclass(slots=True)
class Told:
    """When the webhook was told of an alert of each worker, for the first time since `clear`."""

    at: dict[str, float] = field(default_factory=dict)

    def note(self, message: dict[str, Any]) -> None:
        """Note the alerts of a webhook's body that fire."""
        now = time.monotonic()
        for alert in message["alerts"]:
            if alert["status"] == "firing":
                self.at.setdefault(alert["labels"]["instance"], now)


@dataclass(frozen=True, slots=True)
class Setting:
    """What runs: simulated workers, our daemon's gateway, and the peer's webhook."""

    workers: Sequence[str]
    gateway: http.client.HTTPConnection
    told: Told

    def level(self) -> int:
        """Return the level that the gateway is on."""
        return int(_asked(self.gateway, "GET", "/health", None)["level"])

    def tokens(self) -> int:
        """Return how many tokens a request for four times the cap gets."""
        body = {
            "model": "sim",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 4 * CAP,
            "ignore_eos": True,
        }
        answer = _asked(self.gateway, "POST", "/v1/chat/completions", body)
        return int(answer["usage"]["completion_tokens"])


def main(moments: int = MOMENTS) -> None:
    """Measure, and print."""
    for program in ("prometheus", "prometheus-alertmanager"):
        if shutil.which(program) is None:
            raise SystemExit(f"needs the program {program} (Debian: apt-get install {program})")
    folder = Path(tempfile.mkdtemp(prefix="bench-reaction-"))
    try:
        with ExitStack() as stack:
            setting = _start(stack, folder)
            pairs = list(_measured(setting, moments))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    print(f"{moments} moments over the second, from the raise to its effect:")
    _print("Prometheus + Alertmanager + webhook", theirs)
    _print("ds4watch + its gateway", ours)
    if statistics.median(ours) > TARGET_SECONDS:
        print(f"over the target of {TARGET_SECONDS} s")
    print(f"ratio={statistics.median(ours) / statistics.median(theirs):.2f}")


def _print(name: str, seconds: Sequence[float]) -> None:
    low, high = min(seconds), max(seconds)
    median = statistics.median(seconds)
    print(f"{name:36} median {median:.3f} s (from {low:.3f} to {high:.3f})", flush=True)


def _measured(setting: Setting, moments: int) -> Iterator[tuple[float, float]]:
    """Yield our time and theirs for each moment."""
    began = time.monotonic() + 1.0
    for number in range(moments):
        worker = setting.workers[number % len(setting.workers)]
        due = began + number * PERIOD_SECONDS + number / moments
        time.sleep(max(0.0, due - time.monotonic() - 0.1))
        if setting.level() != 0:
            raise SystemExit("the gateway is not back to normal before the next moment")
        setting.told.at.clear()
        time.sleep(max(0.0, due - time.monotonic()))
        yield _one(setting, worker)


def _one(setting: Setting, worker: str) -> tuple[float, float]:
    control = http.client.HTTPConnection(worker, timeout=PATIENCE_SECONDS)
    raised = time.monotonic()
    _asked(control, "POST", "/sim/fault", {"fault": "queue", "value": QUEUE, "on": True})
    ours = _waited(lambda: setting.level() == 1, "the gateway") - raised
    if setting.tokens() != CAP:
        raise SystemExit("the gateway says that it is on level 1 and does not shorten answers")
    _waited(lambda: worker in setting.told.at, "the webhook")
    theirs = setting.told.at[worker] - raised
    _asked(control, "POST", "/sim/fault", {"fault": "queue", "on": False})
    control.close()
    return ours, theirs


def _waited(is_so: Callable[[], bool], what: str) -> float:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: nothing within {PATIENCE_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return time.monotonic()


def _asked(connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> Any:
    payload = None if body is None else json.dumps(body)
    connection.request(method, path, payload, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {text[:200]!r}")
    return json.loads(text)


def _start(stack: ExitStack, folder: Path) -> Setting:
    (folder / "rules.yml").write_text(yaml.safe_dump(RULES))
    (folder / "policy.yml").write_text(yaml.safe_dump(POLICY))
    workers = _workers(stack, folder)
    told = Told()
    hook = stack.enter_context(_webhook(told))
    _prometheus(stack, folder, workers, _alertmanager(stack, folder, hook))
    gateway = http.client.HTTPConnection("127.0.0.1", _ds4watch(stack, folder, workers), timeout=5)
    stack.callback(gateway.close)
    return Setting(workers, gateway, told)


def _workers(stack: ExitStack, folder: Path) -> list[str]:
    log = folder / "sim.log"
    command = python(
        "ds4watch", "sim", "--port", 0, "--count", WORKERS, "--served-model-name", "sim",
        "--decode-tokens-per-second", 2000,
    )  # fmt: skip
    stack.enter_context(running(command, log))
    ready = "simulated worker ready on http://"
    wait_until(lambda: log.read_text().count(ready) == WORKERS, 60, "simulated workers")
    return [line.removeprefix(ready) for line in log.read_text().splitlines() if ready in line]


@contextlib.contextmanager
def _webhook(told: Told) -> Iterator[int]:
    """Serve a webhook; yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            told.note(json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _alertmanager(stack: ExitStack, folder: Path, hook: int) -> str:
    port = free_port()
    config = {
        "route": {
            "receiver": "hook",
            "group_by": ["alertname", "instance"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [
            {"name": "hook", "webhook_configs": [{"url": f"http://127.0.0.1:{hook}/"}]},
        ],
    }
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    command = [
        "prometheus-alertmanager",
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    stack.enter_context(running(command, folder / "alertmanager.log"))
    place = f"127.0.0.1:{port}"
    wait_until(lambda: bool(fetched(f"http://{place}/-/ready")), 30, "Alertmanager")
    return place


def _prometheus(stack: ExitStack, folder: Path, workers: Sequence[str], alertmanager: str) -> None:
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [{"job_name": "vllm", "static_configs": [{"targets": [*workers]}]}],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    stack.enter_context(running(command, folder / "prometheus.log"))
    query = f"http://127.0.0.1:{port}/api/v1/query?query=sum(up)"

    def all_up() -> bool:
        found = json.loads(fetched(query))["data"]["result"]
        return bool(found) and float(found[0]["value"][1]) == len(workers)

    wait_until(all_up, 30, "Prometheus")


def _ds4watch(stack: ExitStack, folder: Path, workers: Sequence[str]) -> int:
    """Start a daemon with its gateway; return the gateway's port."""
    admin, gateway = free_port(), free_port()
    external = [
        {"name": f"sim-{number}", "url": f"http://{place}", "models": ["sim"]}
        for number, place in enumerate(workers)
    ]
    config = {
        "state_dir": str(folder / "state"),
        "admin": {"port": admin},
        "gateway": {"port": gateway},
        "fleet": {"workers": [], "external": external},
        "rules": [str(folder / "rules.yml")],
        "policy": str(folder / "policy.yml"),
    }
    file = folder / "ds4watch.yml"
    file.write_text(yaml.safe_dump(config))
    command = python("ds4watch", "up", "--config", file)
    stack.callback(_down, file)
    stack.enter_context(running(command, folder / "ds4watch.log"))

    def is_ready() -> bool:
        health = json.loads(fetched(f"http://127.0.0.1:{gateway}/health"))
        return bool(health["models"] == ["sim"])

    wait_until(is_ready, 60, "ds4watch")
    ready = 'ds4_worker_state{profile="external",state="ready"'

    def all_ready() -> bool:
        page = fetched(f"http://127.0.0.1:{admin}/metrics").splitlines()
        states = [line for line in page if line.startswith(ready) and line.endswith(" 1.0")]
        return len(states) == len(workers)

    wait_until(all_ready, 60, "the workers of ds4watch")
    return gateway


def _down(file: Path) -> None:
    """End the gateway, which outlives the daemon."""
    with running(python("ds4watch", "down", "--config", file), file.parent / "down.log") as ending:
        ending.wait(30)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
