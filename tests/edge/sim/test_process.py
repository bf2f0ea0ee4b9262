"""The commands as processes: what the daemon and a person see."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]

HELLO = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2000, "ignore_eos": True}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ds4watch", *arguments]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            _command("sim", "--port", "0", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "ready on http://127.0.0.1:" in line
    return line.split()[-1]


def _post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def _load(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command("load", *arguments), capture_output=True, text=True, check=False, timeout=60
    )


def test_names_may_follow_each_other_as_after_vllms_option(start: Start) -> None:
    process = start("--served-model-name", "one", "two", "--served-model-name", "three")
    with urllib.request.urlopen(_url(process) + "/v1/models") as response:
        names = [card["id"] for card in json.load(response)["data"]]
    assert names == ["one", "three", "two"]


def test_one_process_plays_many_workers(start: Start) -> None:
    process = start("--count", "20", "--fault", "slow=2")
    urls = {_url(process) for _ in range(20)}
    assert len(urls) == 20
    for url in urls:
        with urllib.request.urlopen(url + "/metrics") as response:
            assert b"vllm:num_requests_running" in response.read()


def test_sigterm_cuts_open_requests_and_exits_clean(start: Start) -> None:
    process = start("--decode-tokens-per-second", "5")
    url = _url(process)
    failures: list[Exception] = []

    def ask() -> None:
        try:
            _post(url + "/v1/chat/completions", HELLO)
        except OSError as error:
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    _until_running(url)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    asking.join(timeout=10)
    assert failures


def test_with_a_shutdown_timeout_open_requests_are_finished_first(start: Start) -> None:
    process = start("--decode-tokens-per-second", "50", "--shutdown-timeout", "30")
    url = _url(process)
    answers: list[Any] = []
    body = HELLO | {"max_tokens": 25}
    asking = threading.Thread(
        target=lambda: answers.append(_post(url + "/v1/chat/completions", body))
    )
    asking.start()
    _until_running(url)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    asking.join(timeout=10)
    assert answers[0]["usage"]["completion_tokens"] == 25


def _until_running(url: str) -> None:
    while True:
        with urllib.request.urlopen(url + "/load") as response:
            if json.load(response)["server_load"]:
                return


def test_a_crash_ends_the_process_with_code_1(start: Start) -> None:
    process = start()
    _post(_url(process) + "/sim/fault", {"fault": "crash", "on": True})
    assert process.wait(timeout=10) == 1


def test_out_of_memory_at_start_says_so_like_vllm_and_exits_1(start: Start) -> None:
    process = start("--fault", "oom_at_start")
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "torch.OutOfMemoryError: CUDA out of memory." in errors
    assert "Traceback" not in errors


def until_it_minds(process: subprocess.Popen[str], number: int) -> None:
    """Wait until a process has a handler for a signal: before, it ends it."""
    deadline = time.monotonic() + 30
    while True:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        (caught,) = [line for line in status.splitlines() if line.startswith("SigCgt:")]
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            return
        assert time.monotonic() < deadline, status
        time.sleep(0.02)


def test_before_its_start_up_time_is_over_it_stops_on_sigterm_without_a_word(start: Start) -> None:
    process = start("--startup-seconds", "600", "--fault", "hang")
    until_it_minds(process, signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (0, "", "")


def test_a_taken_port_and_an_unknown_fault_are_one_line_and_code_2(start: Start) -> None:
    taken = _url(start()).rpartition(":")[2]
    for arguments in (("--port", taken), ("--fault", "gremlin"), ("--kv-blocks", "2")):
        done = subprocess.run(
            _command("sim", *arguments), capture_output=True, text=True, check=False, timeout=30
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert arguments[0] in done.stderr


def test_load_sums_up_what_came_back(start: Start) -> None:
    url = _url(start("--served-model-name", "sim-full", "sim", "--decode-tokens-per-second", "500"))
    arguments = ("--url", url, "--requests", "40", "--concurrency", "8", "--max-tokens", "5")
    done = _load(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["requests"], summary["ok"], summary["errors"]) == (40, 40, {})
    assert summary["completion_tokens"] == 200
    assert 0 < summary["cached_tokens"] < summary["prompt_tokens"]
    assert 0 < summary["p50_seconds"] <= summary["p95_seconds"]
    again = _load(*arguments, "--no-stream", "--model", "sim-full")
    assert "ok          40" in again.stdout
    assert "errors      none" in again.stdout


class _Shedding(BaseHTTPRequestHandler):
    """A gateway under pressure: answers one in two, marked as degraded, and sheds the other."""

    answered = 0

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": "tiny-full"}, {"id": "tiny"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["model"] == "tiny"
        type(self).answered += 1
        if type(self).answered % 2:
            self._send(503, {"error": {}})
        else:
            self._send(200, {"usage": {"prompt_tokens": 7, "completion_tokens": 3}})

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if status == 200 and self.command == "POST":
            self.send_header("x-ds4-degraded", "max_tokens")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def test_load_tells_sheds_and_degraded_answers_apart() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Shedding)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        done = _load(
            "--url", url, "--requests", "10", "--concurrency", "1", "--no-stream", "--json"
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    summary = json.loads(done.stdout)
    assert (summary["ok"], summary["shed"], summary["degraded"]) == (5, 5, 5)
    assert summary["errors"] == {"503": 5}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--url", "http://127.0.0.1:1"), 1, "ds4watch up"),
        (("--url", "http://192.0.2.1:8400"), 2, "loopback only"),
        (("--concurrency", "10000"), 2, "--concurrency"),
    ],
)
def test_load_says_in_one_line_why_it_cannot(
    arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = _load(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
