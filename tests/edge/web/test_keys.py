"""API keys over the admin API and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ds4watch.access.keys import digest
from ds4watch.access.roles import Role
from ds4watch.access.signature import signing_key
from tests.edge.cli.test_commands import ds4watch
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving

KEY: dict[str, Any] = {"name": "team-a", "sha256": "ab" * 32, "why": "new"}
ROTATED: dict[str, Any] = {"sha256": "cd" * 32}


async def post(
    daemon: FakeDaemon, path: str, body: dict[str, Any], role: Role | None = Role.ADMIN
) -> tuple[int, dict[str, Any]]:
    headers = {} if role is None else {"Authorization": f"Bearer {SECRETS[role]}"}
    async with serving(daemon) as server, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{server.port}/api/ds4/v1/keys{path}"
        async with session.post(address, json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize(
    ("path", "body", "role", "status"),
    [
        ("", KEY, None, 401),
        ("", KEY, Role.VIEWER, 403),
        ("", KEY, Role.OPERATOR, 403),
        ("", KEY | {"who": "ann"}, Role.OPERATOR, 403),
        ("", KEY, Role.ADMIN, 201),
        ("", KEY | {"name": "there"}, Role.ADMIN, 409),
        ("", KEY | {"sha256": "the secret itself"}, Role.ADMIN, 422),
        ("", KEY | {"name": "../x"}, Role.ADMIN, 422),
        ("", KEY | {"limits": {"priority": 10}}, Role.ADMIN, 422),
        ("", KEY | {"budget": {"day": -1}}, Role.ADMIN, 422),
        ("", KEY | {"secret": "x"}, Role.ADMIN, 422),
        ("/there/revoke", {}, Role.OPERATOR, 403),
        ("/there/revoke", {}, Role.ADMIN, 200),
        ("/none/revoke", {}, Role.ADMIN, 404),
        ("/there/rotate", ROTATED, Role.OPERATOR, 403),
        ("/there/rotate", ROTATED, Role.ADMIN, 200),
        ("/none/rotate", ROTATED, Role.ADMIN, 404),
        ("/there/rotate", {}, Role.ADMIN, 422),
    ],
)
@pytest.mark.asyncio
async def test_only_an_admin_gives_and_takes_access(
    path: str, body: dict[str, Any], role: Role | None, status: int
) -> None:
    daemon = FakeDaemon()
    daemon.api_keys["there"] = KEY | {"signing": "", "expires_at": None}
    assert (await post(daemon, path, body, role))[0] == status


@pytest.mark.asyncio
async def test_the_command_line_makes_a_secret_that_the_daemon_never_sees(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "admin.token").write_text(SECRETS[Role.ADMIN] + "\n")
    environ = {"STATE_DIRECTORY": str(state), "LOGNAME": "ann"}
    daemon = FakeDaemon()
    async with serving(daemon) as server:
        where = ("--admin", server.url)
        asked = ("--model", "m", "--rpm", "60", "--budget-day", "2.50", "--expires", "90d")
        made = await ds4watch("keys", "add", "team-a", *asked, *where, cwd=tmp_path, **environ)
        secret = made.out.strip()
        assert made.code == 0, made.err
        assert "shown this once" in made.err
        key = dict(daemon.api_keys["team-a"])
        assert (key["sha256"], key["who"]) == (digest(secret), "ann")
        assert key["limits"]["models"] == ["m"]
        assert key["budget"] == {"hour": None, "day": 2_500_000_000, "month": None}
        assert secret not in repr(key)
        listed = await ds4watch("keys", *where, cwd=tmp_path, **environ)
        assert "team-a" in listed.out
        assert "rpm 60" in listed.out
        rotated = await ds4watch("keys", "rotate", "team-a", *where, cwd=tmp_path, **environ)
        assert daemon.api_keys["team-a"]["sha256"] == digest(rotated.out.strip())
        assert rotated.out.strip() != secret
        signer = await ds4watch(
            "keys", "add", "signer", "--signed", "--json", *where, cwd=tmp_path, **environ
        )
        told = json.loads(signer.out)
        assert daemon.api_keys["signer"]["signing"] == signing_key(told["secret"])
        odd = await ds4watch(
            "keys", "add", "x", "--budget-day", "much", *where, cwd=tmp_path, **environ
        )
        assert (odd.code, odd.err.count("\n")) == (2, 1)
        gone = await ds4watch("keys", "revoke", "team-a", *where, cwd=tmp_path, **environ)
        assert gone.out == "team-a is let in no more\n"
    assert list(daemon.api_keys) == ["signer"]
