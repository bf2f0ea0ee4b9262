from __future__ import annotations

import pytest

from ds4watch.access.keys import digest
from ds4watch.access.roles import Role
from ds4watch.model.errors import ConfigError
from ds4watch.web.gate import Gate, Turned, Visit, admit, host_name
from ds4watch.web.reads import readiness_of
from ds4watch.web.tokens import TokenEntry, TokenTable, read_tokens

TOKENS = TokenTable(tuple(TokenEntry(role, digest(role.value)) for role in Role))
HOST = "127.0.0.1:9464"

# (open reads, method, secret) -> role that is let in, None for nobody in particular, or a status
ROLES = [
    (True, "GET", None, None),
    (True, "GET", "wrong", None),
    (True, "GET", "viewer", Role.VIEWER),
    (True, "POST", None, 401),
    (True, "POST", "wrong", 401),
    (True, "POST", "viewer", 403),
    (True, "POST", "operator", Role.OPERATOR),
    (True, "DELETE", "admin", Role.ADMIN),
    (True, "DELETE", "viewer", 403),
    (True, "PATCH", None, 401),
    (False, "GET", None, 401),
    (False, "HEAD", "wrong", 401),
    (False, "GET", "viewer", Role.VIEWER),
    (False, "POST", "viewer", 403),
    (False, "POST", "operator", Role.OPERATOR),
]


@pytest.mark.parametrize(("open_reads", "method", "secret", "expected"), ROLES)
def test_who_may_do_what(
    open_reads: bool, method: str, secret: str | None, expected: Role | int | None
) -> None:
    authorization = None if secret is None else f"Bearer {secret}"
    visit = Visit(method, HOST, authorization=authorization)
    entry = admit(Gate(TOKENS, open_reads=open_reads), visit)
    assert (int(entry.status) if isinstance(entry, Turned) else entry.role) == expected


@pytest.mark.parametrize(
    ("host", "is_let_in"),
    [
        ("127.0.0.1:9464", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("[::1]:9464", True),
        ("evil.example:9464", False),
        ("127.0.0.1.evil.example", False),
        ("127.0.0.1:x", False),
        ("", False),
    ],
)
def test_another_host_name_is_turned_away_on_loopback(host: str, is_let_in: bool) -> None:
    entry = admit(Gate(TOKENS), Visit("GET", host))
    assert isinstance(entry, Turned) is not is_let_in


@pytest.mark.parametrize(
    ("origin", "is_let_in"),
    [
        (None, True),
        (f"http://{HOST}", True),
        ("http://127.0.0.1:1234", False),
        ("https://evil.example", False),
        ("null", False),
    ],
)
def test_pages_of_other_origins_change_nothing_even_with_a_token(
    origin: str | None, is_let_in: bool
) -> None:
    visit = Visit("POST", HOST, origin=origin, authorization="Bearer admin")
    assert isinstance(admit(Gate(TOKENS), visit), Turned) is not is_let_in


def test_a_host_is_read_without_its_port() -> None:
    assert host_name("A.b:80") == "a.b"
    assert host_name("[::1]") == "[::1]"


def test_token_lines_are_read_and_faults_never_show_a_secret() -> None:
    lines = f"# people\nviewer {digest('x')} ann  # of ops\n\nadmin {digest('y')}\n"
    table = read_tokens(lines, "tokens")
    found = table.find("x")
    assert found is not None
    assert (found.role, found.name) == (Role.VIEWER, "ann")
    admin = table.find("y")
    assert admin is not None
    assert admin.role is Role.ADMIN
    assert table.find("z") is None
    assert digest("x") not in repr(table)
    with pytest.raises(ConfigError) as raised:
        read_tokens("root abc\nadmin hunter2\nadmin\n", "tokens")
    assert [finding.line for finding in raised.value.findings] == [1, 2, 3]
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("waiting", "phases", "expected"),
    [
        ([], ["ready", "ready"], []),
        ([], ["ready", "failed"], ["w1 is failed"]),
        (["w1 to load"], ["ready", "loading"], ["w1 to load"]),
        ([], [], []),
    ],
)
def test_ready_means_every_worker_is(
    waiting: list[str], phases: list[str], expected: list[str]
) -> None:
    fleet = [{"id": f"w{at}", "phase": phase} for at, phase in enumerate(phases)]
    readiness = readiness_of({"waiting_for": waiting, "fleet": fleet})
    assert (readiness.ready, readiness.waiting_for) == (not expected, expected)
