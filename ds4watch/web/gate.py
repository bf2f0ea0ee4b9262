"""Who is let in: a pure decision from the facts of a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Protocol

from ds4watch.access.keys import bearer_token
from ds4watch.access.roles import Role, allows
from ds4watch.web.sessions import COOKIE
from ds4watch.web.tokens import TokenEntry

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
ENTRY = "/login"
"""Where a page comes in by a link, which is all it has then."""
READS = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKED_BY_POST = frozenset(
    f"/api/v1/{name}"
    for name in ("query", "query_range", "query_exemplars", "series", "labels", "format_query")
)
"""Where clients of Prometheus send what is too long for an address: nothing changes by it."""

SIGNED = frozenset({"/api/ds4/v1/hooks/slack"})
"""Routes that look for a signature of their own; who calls them knows neither token nor host."""
ALERTS = frozenset({"/api/ds4/v1/hooks/alertmanager"})
"""Routes that take many alerts at once, of who has a token."""


class Secrets(Protocol):
    """Where a secret is looked up."""

    def find(self, secret: str | None) -> TokenEntry | None:
        """Return what a secret stands for; None if it is not known."""
        ...


class Tokens(Secrets, Protocol):
    """Where tokens are, as they stand now."""

    def known(self, sha256: str) -> TokenEntry | None:
        """Return the token with this digest; None if it is let in no more."""
        ...


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules of entry.

    tokens: of headers. sessions: of the page's cookie; each is good as long as its token is.
    open_reads: reading needs no token (loopback only).
    hosts: names that the Host header may give; None: any. Without this check, a web page whose
        name is made to resolve to 127.0.0.1 could read us through its visitor's browser.
    """

    tokens: Tokens
    open_reads: bool = True
    hosts: frozenset[str] | None = LOOPBACK_HOSTS
    sessions: Secrets | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """The facts of a request that matter here."""

    method: str
    host: str = ""
    origin: str | None = None
    authorization: str | None = None
    path: str = ""
    cookie: str | None = None

    @property
    def session(self) -> str | None:
        """The secret of the page's session, if there is one."""
        return session_of(self.cookie)

    @property
    def is_read(self) -> bool:
        """Whether nothing is to be changed."""
        by_post = self.method == "POST" and self.path in _ASKED_BY_POST
        return by_post or self.method in READS


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who was let in: role None for a reader without a token; `name` is for the audit.

    is_named: the token was made for somebody, who answers for what is done with it.
    sha256: of the token's secret.
    """

    role: Role | None
    name: str = ""
    is_named: bool = False
    sha256: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Turned:
    """Turned away, and why."""

    status: HTTPStatus
    detail: str


def admit(gate: Gate, visit: Visit) -> Visitor | Turned:
    """Return who the visitor is, or why they may not enter."""
    if visit.method == "POST" and visit.path in SIGNED:
        return Visitor(None)
    if gate.hosts is not None and host_name(visit.host) not in gate.hosts:
        return Turned(HTTPStatus.FORBIDDEN, "the Host header names another host")
    is_read = visit.is_read
    if not is_read and visit.origin is not None and not _is_own(visit.origin, visit.host):
        return Turned(HTTPStatus.FORBIDDEN, "a page of another origin may not change anything")
    token = bearer_token(visit.authorization)
    entry = gate.tokens.find(token)
    if entry is None and visit.authorization is None and gate.sessions is not None:
        entry = _still_good(gate.tokens, gate.sessions.find(visit.session))
        if entry is not None and not is_read and visit.origin is None:
            # Browsers send a cookie by themselves: a change must say which page it comes from.
            return Turned(HTTPStatus.FORBIDDEN, "a change by cookie needs the header Origin")
    if entry is None:
        is_open = is_read and (gate.open_reads or visit.path == ENTRY)
        return Visitor(None) if is_open else _unknown(has_token=token is not None)
    needed = Role.VIEWER if is_read else Role.OPERATOR
    if not allows(entry.role, needed):
        return Turned(HTTPStatus.FORBIDDEN, f"needs the role {needed} or higher, not {entry.role}")
    name = entry.name or entry.role.value
    return Visitor(entry.role, name, is_named=_is_named(entry), sha256=entry.sha256)


def _still_good(tokens: Tokens, session: TokenEntry | None) -> TokenEntry | None:
    """Return a session unless its token was revoked, rotated, or may do less by now."""
    token = tokens.known(session.sha256) if session is not None else None
    if token is None or session is None or not allows(token.role, session.role):
        return None
    return session


def session_of(cookie: str | None) -> str | None:
    """Return the session's secret from a Cookie header."""
    try:
        found = SimpleCookie(cookie or "").get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None else None


def _is_named(entry: TokenEntry) -> bool:
    return bool(entry.name) and not entry.is_local


def _unknown(*, has_token: bool) -> Turned:
    detail = "the token is not known" if has_token else "needs a token: Authorization: Bearer …"
    return Turned(HTTPStatus.UNAUTHORIZED, detail)


def host_name(host: str) -> str:
    """Return a Host header without its port, lower-case."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() and name else host.strip().lower()


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
