"""A daemon over workers that ask for a key: one of its own, one of somebody else's."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.flow.daemon import PROGRAM, ask, chat, environment, free_ports, new_daemon, until

pytestmark = pytest.mark.slow

OURS, THEIRS = "s3cret-of-ours", "s3cret-of-theirs"
PROFILE = {
    "name": "keyed",
    "engine": "sim",
    "served_names": ["keyed", "sim"],
    "max_model_len": 8192,
    "api_key_env": "KEYED_KEY",
}


@contextmanager
def somebody_elses(port: int) -> Iterator[None]:
    argv = (*PROGRAM, "sim", "--port", str(port), "--served-model-name", "theirs")
    process = subprocess.Popen(argv, env=environment(VLLM_API_KEY=THEIRS))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def holding(folder: Path, secret: str) -> list[str]:
    """Return the files under a folder that hold a secret."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if secret.encode() in path.read_bytes()]


def test_both_serve_and_the_keys_are_nowhere_else() -> None:
    (port,) = free_ports(1)
    theirs = {"name": "theirs", "url": f"http://127.0.0.1:{port}", "api_key_file": "theirs.key"}
    fleet = {"profiles_dir": ".", "workers": [{"profile": "keyed"}], "external": [theirs]}
    with somebody_elses(port), new_daemon(fleet=fleet, more={"KEYED_KEY": OURS}) as daemon:
        (daemon.folder / "keyed.yml").write_text(yaml.safe_dump(PROFILE))
        (daemon.folder / "theirs.key").write_text(THEIRS + "\n")
        daemon.up()
        until(lambda: "theirs" in daemon.models(), "somebody else's worker")
        headers = {"Authorization": "Bearer of-the-client"}
        for model in ("keyed", "theirs"):
            answer = ask(
                daemon.gateway_port, "/v1/chat/completions", chat(model=model), headers=headers
            )
            assert answer.status == 200, answer.body
        query = "/api/v1/query?query=sum(up%7Bworker%3D%22theirs%22%7D)%3D%3D1"
        until(lambda: ask(daemon.admin_port, query).json()["data"]["result"], "a scrape of it")
        shown = (
            ask(daemon.admin_port, "/api/ds4/v1/config").body + json.dumps(daemon.status()).encode()
        )
        assert OURS.encode() not in shown
        assert THEIRS.encode() not in shown
        assert holding(daemon.state, OURS) == ["keyed-0"]
        assert holding(daemon.state, THEIRS) == []
        assert OURS not in daemon.log_text()
        # The next daemon takes its worker over, though its own environment has another key.
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
        before = daemon.note_pids()["worker/keyed-0"]
        daemon.environment = {"KEYED_KEY": "s3cret-of-tomorrow"}
        daemon.start()
        daemon.until_ready()
        assert daemon.note_pids()["worker/keyed-0"] == before
        assert daemon.complete(model="keyed").status == 200
