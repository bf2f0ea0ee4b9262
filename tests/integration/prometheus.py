"""A real Prometheus that scrapes a page each second."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 30.0


class Prometheus:
    """One that can be killed, and started again on the same data."""

    def __init__(self, folder: Path, port: int, targets: dict[str, int]) -> None:
        """`targets`: loopback ports by job."""
        self._folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        jobs = "".join(
            f"  - job_name: {job}\n    static_configs: [{{targets: ['127.0.0.1:{at}']}}]\n"
            for job, at in targets.items()
        )
        timing = "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        (folder / "prometheus.yml").write_text(f"{timing}scrape_configs:\n{jobs}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log_file = self._folder / "prometheus.log"
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, log_file.read_text()
            assert time.monotonic() < deadline, log_file.read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return what an expression gives now."""
        status, body = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        assert status == 200, body
        found: list[dict[str, Any]] = json.loads(body)["data"]["result"]
        return found

    def _is_ready(self) -> bool:
        try:
            return self._get("/-/ready")[0] == 200
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()


@contextmanager
def prometheus(folder: Path, port: int, targets: dict[str, int]) -> Iterator[Prometheus]:
    """Yield a Prometheus that runs."""
    found = Prometheus(folder, port, targets)
    found.start()
    try:
        yield found
    finally:
        found.kill()
