"""Lists of targets from real files and from a real web server, while a daemon would run."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from ds4watch.config.files import LoadedSettings, find_settings
from ds4watch.scrape.discovery import Discovery
from ds4watch.scrape.groups import scrape_plan
from ds4watch.scrape.listing import MAX_LIST_BYTES
from ds4watch.telemetry.metrics import Telemetry

SOON = 0.05


class Found:
    """A discovery that runs, and what it has counted."""

    def __init__(self, discovery: Discovery, telemetry: Telemetry) -> None:
        self.discovery = discovery
        self._telemetry = telemetry

    def names(self) -> list[str]:
        return [target.name for target in self.discovery.targets]

    def count(self, line: str) -> float | None:
        for text in self._telemetry.render().decode().splitlines():
            if text.startswith(line):
                return float(text.rpartition(" ")[2])
        return None

    async def until(self, *names: str) -> None:
        """Wait for these targets; the test's time limit ends it."""
        while self.names() != list(names):
            await asyncio.sleep(0.01)

    async def until_counted(self, line: str) -> None:
        while not self.count(line):
            await asyncio.sleep(0.01)


def settings(folder: Path, *groups: dict[str, Any]) -> LoadedSettings:
    file = folder / "ds4watch.yml"
    file.write_text(yaml.safe_dump({"scrape": {"groups": list(groups)}}), encoding="utf-8")
    return find_settings(file, {})


@asynccontextmanager
async def running(folder: Path, *groups: dict[str, Any]) -> AsyncIterator[Found]:
    plan = scrape_plan(settings(folder, *groups))
    telemetry = Telemetry()
    async with Discovery(plan.groups, telemetry.process) as discovery:
        task = asyncio.create_task(discovery.run())
        yield Found(discovery, telemetry)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def file_group(*files: str, name: str = "pool", **more: Any) -> dict[str, Any]:
    sd = {"files": list(files), "refresh_seconds": SOON}
    return {"name": name, "file_sd_configs": [sd], **more}


def write(path: Path, *addresses: str, **labels: str) -> None:
    """Replace a file in one step, as those who write such files should."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([{"targets": addresses, "labels": labels}]), encoding="utf-8")
    fresh.replace(path)


async def test_static_targets_are_there_from_the_start(tmp_path: Path) -> None:
    static = {"targets": ["a:1", "b:2"], "labels": {"profile": "llama"}}
    async with running(tmp_path, {"name": "pool", "static_configs": [static]}) as found:
        assert found.names() == ["pool/a:1", "pool/b:2"]
        assert found.discovery.is_settled
        assert dict(found.discovery.targets[0].labels)["profile"] == "llama"
        assert found.count('ds4_discovery_targets{group="pool"}') == 2


async def test_files_are_read_at_the_start_and_again_when_they_change(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    (tmp_path / "b.yml").write_text("- targets: [b:1]\n  labels: {zone: x}\n", encoding="utf-8")
    async with running(tmp_path, file_group("*.json", "b.yml")) as found:
        assert found.names() == ["pool/a:1", "pool/b:1"]
        kept = found.discovery.targets[1]
        write(tmp_path / "a.json", "a:1", "a:2")
        await found.until("pool/a:1", "pool/a:2", "pool/b:1")
        assert found.discovery.targets[2] is kept
        write(tmp_path / "c.json", "c:1")
        await found.until("pool/a:1", "pool/a:2", "pool/c:1", "pool/b:1")


async def test_targets_are_the_same_object_while_the_files_say_the_same(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    async with running(tmp_path, file_group("a.json")) as found:
        before = found.discovery.targets
        write(tmp_path / "a.json", "a:1")
        await asyncio.sleep(4 * SOON)  # several looks
        assert found.discovery.targets is before


async def test_a_broken_file_keeps_its_last_list_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write(tmp_path / "a.json", "a:1")
    async with running(tmp_path, file_group("a.json")) as found:
        (tmp_path / "a.json").write_text('[{"targets": [1]}]', encoding="utf-8")
        line = 'ds4_discovery_failures_total{group="pool",kind="parse"}'
        await found.until_counted(line)
        while (found.count(line) or 0) < 3:
            await asyncio.sleep(0.01)
        assert found.names() == ["pool/a:1"]
        told = [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING]
        place = tmp_path / "a.json"
        assert told == [
            f"scrape group pool: {place}: [0].targets[0]: must be text; its last list holds"
        ]
        write(place, "a:2")
        await found.until("pool/a:2")
        assert f"scrape group pool: {place} is good again, or no longer there" in caplog.messages


async def test_a_named_file_that_goes_keeps_its_targets(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    async with running(tmp_path, file_group("a.json")) as found:
        (tmp_path / "a.json").unlink()
        await found.until_counted('ds4_discovery_failures_total{group="pool",kind="gone"}')
        assert found.names() == ["pool/a:1"]


async def test_a_file_that_a_pattern_no_longer_finds_takes_its_targets_along(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    async with running(tmp_path, file_group("*.json")) as found:
        (tmp_path / "a.json").unlink()
        await found.until("pool/b:1")


async def test_without_its_first_list_a_group_is_not_settled(tmp_path: Path) -> None:
    async with running(tmp_path, file_group("late.json")) as found:
        assert not found.discovery.is_settled
        write(tmp_path / "late.json", "a:1")
        await found.until("pool/a:1")
        assert found.discovery.is_settled


async def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b" " * (MAX_LIST_BYTES + 1))
    async with running(tmp_path, file_group("a.json")) as found:
        await found.until_counted('ds4_discovery_failures_total{group="pool",kind="too_large"}')


async def test_the_path_of_a_file_can_be_relabelled(tmp_path: Path) -> None:
    write(tmp_path / "rack7.json", "a:1")
    step = {
        "source_labels": ["__meta_filepath"],
        "regex": ".*/(.+)[.]json",
        "target_label": "rack",
    }
    async with running(tmp_path, file_group("*.json", relabel_configs=[step])) as found:
        labels = dict(found.discovery.targets[0].labels)
        assert labels["rack"] == "rack7"
        assert not [name for name in labels if name.startswith("__")]


async def test_two_targets_of_one_name_and_what_is_over_the_limit_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.json", "a:1", "a:1", "a:2", "a:3", "no/port")
    async with running(tmp_path, file_group("a.json", target_limit=3)) as found:
        await found.until("pool/a:1", "pool/a:2")
        assert len([it for it in caplog.messages if "is the name of" in it]) == 1
        for kind in ("duplicate", "limit", "invalid"):
            line = f'ds4_discovery_failures_total{{group="pool",kind="{kind}"}}'
            assert found.count(line) == 1.0
        assert "scrape group pool: refused 1 targets are over target_limit (3)" in caplog.messages


class ListServer:
    """A web server whose answer a test sets; it keeps the requests' headers."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b"[]"
        self.content_type = "application/json"
        self.asked: list[dict[str, str]] = []
        self.hang: asyncio.Event | None = None
        self.url = ""

    def lists(self, *addresses: str) -> None:
        self.body = json.dumps([{"targets": addresses}]).encode()

    async def respond(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.headers))
        if self.hang is not None:
            await self.hang.wait()
        headers = {"Content-Type": self.content_type, "Location": "/elsewhere"}
        return web.Response(body=self.body, status=self.status, headers=headers)

    async def until_asked(self, times: int) -> None:
        wanted = len(self.asked) + times
        while len(self.asked) < wanted:
            await asyncio.sleep(0.01)


@pytest.fixture
async def server() -> AsyncIterator[ListServer]:
    server = ListServer()
    application = web.Application()
    application.router.add_get("/targets", server.respond)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/targets"
    yield server
    if server.hang is not None:
        server.hang.set()
    await runner.cleanup()


def web_group(server: ListServer, **more: Any) -> dict[str, Any]:
    sd = {"url": server.url, "refresh_seconds": 0.25, **more}
    return {"name": "pool", "http_sd_configs": [sd]}


async def test_a_web_server_is_asked_again_and_told_how_often(
    tmp_path: Path, server: ListServer
) -> None:
    server.lists("a:1")
    async with running(tmp_path, web_group(server)) as found:
        assert found.names() == ["pool/a:1"]
        assert server.asked[0]["X-Prometheus-Refresh-Interval-Seconds"] == "0.25"
        assert server.asked[0]["Accept"] == "application/json"
        assert "Authorization" not in server.asked[0]
        server.lists("b:1", "c:1")
        await found.until("pool/b:1", "pool/c:1")
        server.lists()
        await found.until()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"status": 500}, "status"),
        ({"status": 302}, "status"),
        ({"content_type": "text/html"}, "body"),
        ({"body": b"[{]"}, "parse"),
        ({"body": b" " * (MAX_LIST_BYTES + 1)}, "too_large"),
        ({"hang": True}, "timeout"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_failing_web_server_keeps_its_last_list(
    tmp_path: Path, server: ListServer, change: dict[str, Any], kind: str
) -> None:
    server.lists("a:1")
    async with running(tmp_path, web_group(server)) as found:
        assert found.names() == ["pool/a:1"]
        if change.pop("hang", False):
            server.hang = asyncio.Event()
        for name, value in change.items():
            setattr(server, name, value)
        await found.until_counted(f'ds4_discovery_failures_total{{group="pool",kind="{kind}"}}')
        assert found.names() == ["pool/a:1"]
        assert found.discovery.is_settled


async def test_a_web_server_that_is_not_there_holds_nobody_up_and_is_tried_again(
    tmp_path: Path, server: ListServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.status = 503
    group = web_group(server) | {"static_configs": [{"targets": ["s:1"]}]}
    async with running(tmp_path, group) as found:
        assert found.names() == ["pool/s:1"]
        assert not found.discovery.is_settled
        server.status = 200
        server.lists("a:1")
        await found.until("pool/s:1", "pool/a:1")
        assert found.discovery.is_settled
    told = [it for it in caplog.messages if "answered 503" in it]
    assert len(told) == 1
    assert told[0].endswith("it has not listed any targets yet")


async def test_secrets_are_sent_read_anew_and_never_logged(
    tmp_path: Path, server: ListServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "secret").write_text("first-secret\n", encoding="utf-8")
    token = {"authorization": {"credentials_file": "secret"}}
    async with running(tmp_path, web_group(server, **token)):
        assert server.asked[-1]["Authorization"] == "Bearer first-secret"
        (tmp_path / "secret").write_text("second-secret", encoding="utf-8")
        await server.until_asked(2)
        assert server.asked[-1]["Authorization"] == "Bearer second-secret"
        server.status = 401
        await server.until_asked(2)
    assert "-secret" not in caplog.text


async def test_user_and_password_are_sent(tmp_path: Path, server: ListServer) -> None:
    login = {"basic_auth": {"username": "ann", "password": "pass:word"}}
    async with running(tmp_path, web_group(server, **login)):
        told = server.asked[-1]["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(told) == b"ann:pass:word"


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "locked.json"
    write(path, "a:1")
    path.chmod(0)
    yield path
    path.chmod(0o600)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, locked: Path) -> None:
    async with running(tmp_path, file_group(locked.name)) as found:
        await found.until_counted('ds4_discovery_failures_total{group="pool",kind="other"}')
