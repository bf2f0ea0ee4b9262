"""Tokens as files: made, rotated, revoked by the command line, obeyed at once; and TLS."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path

import aiohttp
import pytest

from ds4watch.access.roles import Role
from ds4watch.model.errors import ConfigError
from ds4watch.web.listen import read_tls
from ds4watch.web.tokens import TokenFiles, local_file
from tests.edge.cli.test_commands import ds4watch
from tests.edge.scrape.authority import Authority
from tests.edge.web.asking import ask
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving


def role_of(files: TokenFiles, secret: str) -> Role | None:
    found = files.find(secret)
    return None if found is None else found.role


def test_the_first_start_makes_a_private_token_for_each_role(tmp_path: Path) -> None:
    files = TokenFiles(tmp_path)
    for role in Role:
        path = tmp_path / local_file(role)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert role_of(files, path.read_text().strip()) is role


async def test_tokens_are_made_rotated_and_revoked_while_the_daemon_runs(tmp_path: Path) -> None:
    told: list[str] = []
    files = TokenFiles(tmp_path, on_change=told.extend)
    where = ("--state", str(tmp_path))
    made = await ds4watch("tokens", "create", "ann", "--role", "operator", *where, cwd=tmp_path)
    secret = made.out.strip()
    assert made.code == 0, made.err
    assert role_of(files, secret) is Role.OPERATOR
    stored = tmp_path / "tokens"
    assert secret not in stored.read_text()
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    twice = await ds4watch("tokens", "create", "ann", *where, cwd=tmp_path)
    assert (twice.code, "there is a token ann" in twice.err) == (2, True)
    rotated = await ds4watch("tokens", "rotate", "ann", *where, cwd=tmp_path)
    assert role_of(files, secret) is None
    assert role_of(files, rotated.out.strip()) is Role.OPERATOR
    listed = await ds4watch("tokens", "list", "--json", *where, cwd=tmp_path)
    names = [(it["name"], it["role"]) for it in json.loads(listed.out)]
    assert names == [*((it.value, it.value) for it in Role), ("ann", "operator")]
    old = (tmp_path / "admin.token").read_text().strip()
    await ds4watch("tokens", "rotate", "admin", *where, cwd=tmp_path)
    assert role_of(files, old) is None
    assert role_of(files, (tmp_path / "admin.token").read_text().strip()) is Role.ADMIN
    gone = await ds4watch("tokens", "revoke", "ann", "--json", *where, cwd=tmp_path)
    assert json.loads(gone.out) == {"revoked": "ann"}
    assert role_of(files, rotated.out.strip()) is None
    made = await ds4watch("tokens", "create", "bob", "--json", *where, cwd=tmp_path)
    assert (made.err, role_of(files, json.loads(made.out)["secret"])) == ("", Role.VIEWER)
    assert told == [
        "ann (operator) is let in",
        "ann has another secret or role (operator)",
        "admin has another secret or role (admin)",
        "ann is let in no more",
        "bob (viewer) is let in",
    ]


def test_a_tokens_file_that_breaks_leaves_the_tokens_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = TokenFiles(tmp_path)
    secret = (tmp_path / "admin.token").read_text().strip()
    broken = tmp_path / "tokens"
    broken.write_text("admin hunter2\n")
    broken.chmod(0o600)
    assert role_of(files, secret) is Role.ADMIN
    assert role_of(files, secret) is Role.ADMIN
    assert caplog.text.count("the tokens stay as they were") == 1
    assert "hunter2" not in caplog.text


async def test_the_api_is_served_over_tls_and_the_command_line_trusts_its_certificate(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    authority.certificate("here", alternative="DNS:localhost")
    certificate, key = tmp_path / "here.pem", tmp_path / "here.key"
    tls = read_tls(str(certificate), str(key), setting="admin")
    assert tls is not None
    trusting = ssl.create_default_context(cafile=authority.ca_file)
    connector = aiohttp.TCPConnector(ssl=trusting)
    async with serving(FakeDaemon(), tls=tls) as server:
        url = f"https://localhost:{server.port}"
        async with aiohttp.ClientSession(url, connector=connector) as client:
            assert (await ask(client, "GET", "/health")).status == 200
            link = await ask(client, "POST", "/session")
            async with client.get(link.body["path"], allow_redirects=False) as entered:
                assert "Secure" in entered.headers["Set-Cookie"]
        asked = ("silences", "--admin", url)
        stranger = await ds4watch(*asked, cwd=tmp_path)
        assert (stranger.code, "is not trusted" in stranger.err) == (1, True)
        settings = f"admin: {{tls_certificate: {certificate}, tls_key: {key}}}"
        (tmp_path / "ds4watch.yml").write_text(settings)
        trusted = await ds4watch(*asked, cwd=tmp_path)
        assert trusted.out == "nothing is silenced\n", trusted.err


def test_tls_files_that_are_no_good_are_one_finding(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("nonsense")
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="may be read by others"):
        read_tls(str(key), str(key), setting="admin")
    key.chmod(0o600)
    with pytest.raises(ConfigError, match=r"admin\.tls_certificate: .*cannot be used for TLS"):
        read_tls(str(key), str(key), setting="admin")
    with pytest.raises(ConfigError, match="no such file"):
        read_tls(str(key), str(tmp_path / "none"), setting="admin")
    assert read_tls(None, None, setting="admin") is None
