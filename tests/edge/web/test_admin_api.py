from __future__ import annotations

import asyncio
import re
import socket
import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ds4watch.access.roles import Role
from ds4watch.model.errors import ConfigError
from ds4watch.web.tokens import ADMIN_TOKEN_FILE, TOKENS_FILE, open_tokens
from tests.edge.web.fake_answers import AT
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving

API = "/api/ds4/v1"
OPERATOR = {"Authorization": f"Bearer {SECRETS[Role.OPERATOR]}"}
VIEWER = {"Authorization": f"Bearer {SECRETS[Role.VIEWER]}"}
HOLD = {"seconds": 60, "why": "a demonstration"}


async def test_what_the_daemon_knows_is_served() -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        assert (await get(client, "/status"))["policy"]["level"] == 2
        workers = (await get(client, "/workers"))["workers"]
        assert [worker["id"] for worker in workers] == ["sim-full-1", "sim-quantized-1"]
        assert len((await get(client, "/alerts"))["alerts"]) == 2
        signals = await get(client, "/signals")
        assert signals["signals"]["ds4_prefill_token_ratio"] is None
        assert signals["workers"]["sim-full-1"]["ds4_cache_miss_ratio"] == 0.25
        assert await get(client, "/health") == {"status": "ok", "at": AT}


async def get(client: aiohttp.ClientSession, path: str, status: int = 200) -> Any:
    async with client.get(API + path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json(content_type=None)


async def test_metrics_come_in_the_prometheus_text_format() -> None:
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
        client.get("/metrics") as answer,
    ):
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "up 1" in await answer.text()


async def test_readiness_is_503_until_every_worker_is_ready() -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        late = await get(client, "/ready", 503)
        assert late == {"ready": False, "waiting_for": ["sim-quantized-1 to load its model"]}
        daemon.state["waiting_for"] = []
        daemon.state["fleet"][1]["phase"] = "ready"
        assert (await get(client, "/ready"))["ready"] is True


async def test_money_is_read_by_the_hour_and_for_62_days_at_most() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        found = await get(client, "/cost?start_at=0&end_at=7200")
        assert [row["nanos"] for row in found["costs"]] == [2_500_000_000, 500_000_001, 10**9]
        assert [row["key"] for row in found["work"]] == ["alice", "bob"]
        why = await get(client, "/cost/why?at=7199")
        assert why["hour_at"] == 3600
        measure = why["measures"][0]
        assert measure["expected"] + sum(measure["causes"].values()) == measure["actual"]
        for span in ("start_at=7200&end_at=0", f"start_at=0&end_at={63 * 86_400}"):
            refused = await get(client, f"/cost?{span}", 422)
            assert refused["detail"].startswith("end_at: must be after start_at")


async def test_the_audit_is_read_page_by_page() -> None:
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        first = await get(client, "/audit?limit=3")
        assert [row["id"] for row in first["audit"]] == [4, 3, 2]
        rest = await get(client, f"/audit?limit=3&cursor={first['next_cursor']}")
        assert [row["id"] for row in rest["audit"]] == [1]
        assert rest["next_cursor"] is None
        alerts = await get(client, "/audit?kind=alert")
        assert {row["kind"] for row in alerts["audit"]} == {"alert"}


async def test_a_hold_is_placed_and_lifted_by_an_operator() -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        async with client.put(f"{API}/holds/default", json=HOLD, headers=OPERATOR) as answer:
            assert answer.status == 200
            placed = await answer.json()
        assert (placed["until_at"], placed["who"]) == (AT + 60, "operator")
        held = {key: it for key, it in placed.items() if key not in ("told", "dry_run")}
        assert (await get(client, "/status"))["holds"] == [held]
        async with client.delete(f"{API}/holds/default", headers=OPERATOR) as answer:
            assert answer.status == 204
        async with client.delete(f"{API}/holds/default", headers=OPERATOR) as answer:
            assert answer.status == 404
            assert (await answer.json())["detail"] == "there is no hold on default"
    assert daemon.wakes == 2


REFUSALS = [
    ("GET", "/api/ds4/v1/nothing", {}, None, 404, "there is nothing at /api/ds4/v1/nothing"),
    ("GET", "/static/../app.py", {}, None, 404, "there is nothing at"),
    ("GET", f"{API}/audit?limit=0", {}, None, 422, "limit: "),
    ("GET", f"{API}/status", {"Host": "evil.example"}, None, 403, "another host"),
    ("PUT", f"{API}/holds/x", {}, HOLD, 401, "needs a token"),
    ("PUT", f"{API}/holds/x", {"Authorization": "Bearer no"}, HOLD, 401, "not known"),
    ("PUT", f"{API}/holds/x", VIEWER, HOLD, 403, "needs the role operator"),
    ("PUT", f"{API}/holds/x", OPERATOR | {"Origin": "http://evil"}, HOLD, 403, "another origin"),
    ("PUT", f"{API}/holds/x", OPERATOR, HOLD | {"seconds": -1}, 422, "seconds: "),
    ("PUT", f"{API}/holds/x", OPERATOR, HOLD | {"more": 1}, 422, "more: "),
    ("PUT", f"{API}/holds/x", OPERATOR, HOLD | {"why": "x" * 70_000}, 413, "65536 bytes"),
    ("POST", f"{API}/status", OPERATOR, None, 405, "Method Not Allowed"),
    ("DELETE", f"{API}/holds/%20", OPERATOR, None, 422, "target: "),
]


@pytest.mark.parametrize(("method", "path", "headers", "body", "status", "detail"), REFUSALS)
async def test_refusals_are_problem_documents(
    method: str, path: str, headers: dict[str, str], body: Any, status: int, detail: str
) -> None:
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession() as client,
        client.request(method, server.url + path, headers=headers, json=body) as answer,
    ):
        assert answer.status == status
        assert answer.headers["Content-Type"] == "application/problem+json"
        document = await answer.json(content_type=None)
        assert document["status"] == status
        assert detail in document["detail"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless() -> Any:
        for _ in range(64):
            yield b"x" * 4096

    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
        client.put(f"{API}/holds/x", data=endless(), headers=OPERATOR) as answer,
    ):
        assert answer.status == 413


async def test_off_loopback_reading_needs_a_token_too() -> None:
    async with (
        serving(FakeDaemon(), open_reads=False) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        for path in ("/", "/metrics", "/static/page.js", f"{API}/status", f"{API}/openapi.json"):
            async with client.get(path) as answer:
                assert answer.status == 401, path
            async with client.get(path, headers=VIEWER | {"Host": "box.example"}) as answer:
                assert answer.status == 200, path


async def test_a_failure_inside_is_a_500_that_tells_nothing_and_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    daemon = FakeDaemon()
    daemon.broken = True
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        document = await get(client, "/status", 500)
        assert "SECRET" not in str(document)
        assert "GET /api/ds4/v1/status failed" in caplog.text
        assert (await get(client, "/health"))["status"] == "ok"


async def test_the_page_needs_nothing_from_elsewhere_and_no_inline_script() -> None:
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        async with client.get("/") as answer:
            page = await answer.text()
            policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in page.replace("http-equiv", "")
        assert "<style" not in page
        assert "style=" not in page
        found = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
        assert {"/static/page.js", "/static/page.css", "/static/icon.svg"} <= set(found)
        for path in found:
            async with client.get(path) as answer:
                assert answer.status == 200


async def test_a_port_in_use_is_one_finding_with_the_way_to_mend_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as raised:
            async with serving(FakeDaemon(), port=port):
                pass
    assert str(raised.value) == (
        f"admin.port: 127.0.0.1:{port} is in use (stop what uses it, or set admin.port)"
    )


async def test_leaving_lets_an_open_request_end_and_frees_the_port() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    class Slow(FakeDaemon):
        async def audit(self, **_: Any) -> list[dict[str, Any]]:
            entered.set()
            await leave.wait()
            return []

    async with aiohttp.ClientSession() as client:
        async with serving(Slow()) as server:
            port = server.port
            asking = asyncio.create_task(get_url(client, f"{server.url}{API}/audit"))
            await entered.wait()
            leave.set()
        assert (await asking)["audit"] == []
    async with serving(FakeDaemon(), port=port):
        pass


async def get_url(client: aiohttp.ClientSession, url: str) -> Any:
    async with client.get(url) as answer:
        return await answer.json()


def test_the_admin_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = open_tokens(tmp_path)
    path = tmp_path / ADMIN_TOKEN_FILE
    secret = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = first.find(secret)
    assert found is not None
    assert found.role is Role.ADMIN
    assert open_tokens(tmp_path) == first
    assert secret not in repr(first)


def test_tokens_that_others_may_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / TOKENS_FILE
    path.write_text("")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="may be read by others"):
        open_tokens(tmp_path)


async def test_every_route_is_in_the_documentation() -> None:
    docs = Path(__file__).parents[3] / "docs"
    document = "".join(
        (docs / name).read_text(encoding="utf-8") for name in ("admin-api.md", "prometheus-api.md")
    )
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        paths = (await get(client, "/openapi.json"))["paths"]
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in document


async def test_an_operator_steers_a_worker_and_a_viewer_does_not() -> None:
    daemon = FakeDaemon()
    why = {"why": "its GPU is lent out", "who": "ann"}
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        path = f"{API}/workers/sim-full-1/stop"
        async with client.post(path, json=why, headers=OPERATOR) as answer:
            assert answer.status == 202
            assert await answer.json() == {"worker": "sim-full-1", "told": "sim-full-1: stop"}
        async with client.post(path, json=why, headers=VIEWER) as answer:
            assert answer.status == 403
        async with client.post(path, json=why) as answer:
            assert answer.status == 401
    assert daemon.steered == [("sim-full-1", "stop", "ann", "its GPU is lent out")]
    assert daemon.wakes == 1


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/workers/gone-0/stop", 404, "there is no worker gone-0"),
        ("/workers/sim-full-1/sleep", 409, "sim-full-1 has no sleep mode"),
        ("/workers/sim-full-1/explode", 422, "verb: "),
    ],
)
async def test_what_a_worker_cannot_be_is_told(path: str, status: int, told: str) -> None:
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
        client.post(API + path, json={"why": "x"}, headers=OPERATOR) as answer,
    ):
        assert answer.status == status
        assert told in (await answer.json(content_type=None))["detail"]


async def test_a_worker_that_is_stopped_on_purpose_is_not_waited_for() -> None:
    daemon = FakeDaemon(waiting_for=[])
    daemon.state["fleet"][1] |= {"phase": "absent", "wanted": {"wish": "stopped"}}
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        assert (await get(client, "/ready"))["ready"] is True
