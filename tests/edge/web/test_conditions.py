"""ETags, Idempotency-Key, and what a page in a browser may do."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ds4watch.access.roles import Role
from ds4watch.web.tokens import TokenFiles, write_private
from tests.edge.web.asking import API, OPERATOR, ask, bearer
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving

HOLD = {"seconds": 60, "why": "a test"}


async def test_an_answer_that_the_client_has_is_not_sent_again() -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        first = await ask(client, "GET", "/workers")
        tag = first.headers["ETag"]
        for wanted in (tag, f'"x", W/{tag}', "*"):
            again = await ask(client, "GET", "/workers", headers={"If-None-Match": wanted})
            assert (again.status, again.body, again.headers["ETag"]) == (304, "", tag)
        daemon.state["fleet"][0]["phase"] = "failed"
        changed = await ask(client, "GET", "/workers", headers={"If-None-Match": tag})
        assert (changed.status, changed.headers["ETag"] != tag) == (200, True)


async def test_a_change_on_old_sight_is_refused() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        none_yet = await ask(client, "PUT", "/holds/a", HOLD, headers=OPERATOR | {"If-Match": "*"})
        assert none_yet.status == 412
        await ask(client, "PUT", "/holds/a", HOLD)
        tag = (await ask(client, "GET", "/holds/a")).headers["ETag"]
        seen = OPERATOR | {"If-Match": tag}
        longer = await ask(client, "PUT", "/holds/a", HOLD | {"seconds": 90}, headers=seen)
        assert longer.status == 200
        stale = await ask(client, "DELETE", "/holds/a", headers=seen)
        assert (stale.status, stale.body["status"]) == (412, 412)
        fresh = (await ask(client, "GET", "/holds/a")).headers["ETag"]
        lifted = await ask(client, "DELETE", "/holds/a", headers=OPERATOR | {"If-Match": fresh})
        assert lifted.status == 204


async def test_a_verb_is_held_against_what_it_is_done_to_and_a_stream_has_no_tag() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        path = "/actions/set_level:default:3"
        tag = (await ask(client, "GET", path)).headers["ETag"]
        for wanted, status in ((tag, 202), ('"old"', 412)):
            headers = OPERATOR | {"If-Match": wanted}
            answer = await ask(client, "POST", f"{path}/undo", {"why": "x"}, headers=headers)
            assert answer.status == status
        async with asyncio.timeout(5):
            endless = await ask(client, "POST", "/events/x", headers=OPERATOR | {"If-Match": tag})
        assert endless.status == 412


async def test_of_who_has_no_token_no_answer_is_kept() -> None:
    """The signed route lets anybody in: they would push out the answers of others."""
    daemon = FakeDaemon()
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        for number in range(3):
            headers = {"Idempotency-Key": f"k-{number}"}
            assert (await ask(client, "POST", "/hooks/slack", headers=headers)).status == 401
    assert daemon.desk.answers == {}


async def test_who_sends_a_key_again_gets_the_same_answer_and_it_is_done_once() -> None:
    daemon = FakeDaemon()
    headers = OPERATOR | {"Idempotency-Key": "k-1"}
    asked = {"name": "shorter-answers", "why": "a test"}
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        first = await ask(client, "POST", "/actions", asked, headers=headers)
        again = await ask(client, "POST", "/actions", asked, headers=headers)
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert again.headers["X-Content-Type-Options"] == "nosniff"
        other = await ask(client, "POST", "/actions", asked | {"why": "b"}, headers=headers)
        assert other.status == 422
        assert "another request" in other.body["detail"]
        elsewhere = await ask(client, "POST", "/silences", asked, headers=headers)
        assert elsewhere.status == 422
        admin = bearer(Role.ADMIN) | {"Idempotency-Key": "k-1"}
        assert (await ask(client, "POST", "/actions", asked, headers=admin)).body["id"] == 2
        odd = OPERATOR | {"Idempotency-Key": "x" * 256}
        assert (await ask(client, "POST", "/actions", asked, headers=odd)).status == 400
    assert len(daemon.desk.asked) == 2


async def test_a_deletion_is_answered_as_before_too() -> None:
    headers = OPERATOR | {"Idempotency-Key": "k-2"}
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        await ask(client, "PUT", "/holds/a", HOLD)
        for _ in range(2):
            assert (await ask(client, "DELETE", "/holds/a", headers=headers)).status == 204
        assert (await ask(client, "DELETE", "/holds/a")).status == 404


async def test_the_same_key_twice_at_once_is_a_conflict() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    class Slow(FakeDaemon):
        async def hold(self, **asked: Any) -> dict[str, Any]:
            entered.set()
            await leave.wait()
            return await super().hold(**asked)

    headers = OPERATOR | {"Idempotency-Key": "k"}
    async with serving(Slow()) as server, aiohttp.ClientSession(server.url) as client:
        first = asyncio.create_task(ask(client, "PUT", "/holds/a", HOLD, headers=headers))
        await entered.wait()
        assert (await ask(client, "PUT", "/holds/a", HOLD, headers=headers)).status == 409
        leave.set()
        assert (await first).status == 200


async def entered(
    client: aiohttp.ClientSession, headers: dict[str, str] | None = None
) -> dict[str, str]:
    """Return the cookie of a page that came in by a link."""
    link = await ask(client, "POST", "/session", headers=headers or bearer(Role.ADMIN))
    assert link.status == 201
    async with client.get(link.body["path"], allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = SimpleCookie(answer.headers["Set-Cookie"])["ds4_session"]
    assert (cookie["samesite"], cookie["httponly"], cookie["path"]) == ("strict", True, "/")
    async with client.get(link.body["path"], allow_redirects=False) as spent:
        assert spent.status == 403
    return {"Cookie": f"ds4_session={cookie.value}"}


async def test_a_page_enters_once_by_a_link_acts_as_an_operator_and_leaves() -> None:
    daemon = FakeDaemon()
    jar = aiohttp.DummyCookieJar()
    async with (
        serving(daemon, open_reads=False) as server,
        aiohttp.ClientSession(server.url, cookie_jar=jar) as client,
    ):
        cookie = await entered(client)
        own = cookie | {"Origin": server.url}
        who = await ask(client, "GET", "/session", headers=cookie)
        assert who.body == {"role": "operator", "name": "admin"}
        assert (await ask(client, "PUT", "/holds/a", HOLD, headers=own)).status == 200
        key = {"name": "k", "sha256": "ab" * 32}
        assert (await ask(client, "POST", "/keys", key, headers=own)).status == 403
        assert (await ask(client, "DELETE", "/session", headers=own)).status == 204
        assert (await ask(client, "GET", "/session", headers=cookie)).status == 401


async def test_a_session_ends_with_the_token_that_it_came_by(tmp_path: Path) -> None:
    tokens = TokenFiles(tmp_path)
    secret = (tmp_path / "operator.token").read_text().strip()
    jar = aiohttp.DummyCookieJar()
    async with (
        serving(FakeDaemon(), open_reads=False, tokens=tokens) as server,
        aiohttp.ClientSession(server.url, cookie_jar=jar) as client,
    ):
        cookie = await entered(client, {"Authorization": f"Bearer {secret}"})
        assert (await ask(client, "GET", "/session", headers=cookie)).status == 200
        write_private(tmp_path / "operator.token", "another\n")
        assert (await ask(client, "GET", "/session", headers=cookie)).status == 401


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", "http://127.0.0.1:1"])
async def test_a_cookie_changes_nothing_from_another_page_or_from_nowhere(
    origin: str | None,
) -> None:
    daemon = FakeDaemon()
    jar = aiohttp.DummyCookieJar()
    async with (
        serving(daemon) as server,
        aiohttp.ClientSession(server.url, cookie_jar=jar) as client,
    ):
        headers = await entered(client) | ({"Origin": origin} if origin else {})
        assert (await ask(client, "PUT", "/holds/a", HOLD, headers=headers)).status == 403
        # A form can send a simple request; it would have the cookie, but not our origin.
        form = {"Content-Type": "text/plain"} | headers
        async with client.post(f"{API}/silences", data="{}", headers=form) as answer:
            assert answer.status == 403
    assert daemon.held == {}
