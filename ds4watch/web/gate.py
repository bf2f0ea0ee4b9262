"""Who is let in: a pure decision from the facts of a request."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from ds4watch.access.keys import bearer_token
from ds4watch.access.roles import Role, allows
from ds4watch.web.tokens import TokenTable

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
READS = frozenset({"GET", "HEAD", "OPTIONS"})
_ASKED_BY_POST = frozenset(
    f"/api/v1/{name}"
    for name in ("query", "query_range", "query_exemplars", "series", "labels", "format_query")
)
"""Where clients of Prometheus send what is too long for an address: nothing changes by it."""

SIGNED = frozenset({"/api/ds4/v1/hooks/slack"})
"""Routes that look for a signature of their own; who calls them knows neither token nor host."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules of entry.

    open_reads: reading needs no token (loopback only).
    hosts: names that the Host header may give; None: any. Without this check, a web page whose
        name is made to resolve to 127.0.0.1 could read us through its visitor's browser.
    """

    tokens: TokenTable
    open_reads: bool = True
    hosts: frozenset[str] | None = LOOPBACK_HOSTS


@dataclass(frozen=True, slots=True)
class Visit:
    """The facts of a request that matter here."""

    method: str
    host: str = ""
    origin: str | None = None
    authorization: str | None = None
    path: str = ""

    @property
    def is_read(self) -> bool:
        """Whether nothing is to be changed."""
        by_post = self.method == "POST" and self.path in _ASKED_BY_POST
        return by_post or self.method in READS


@dataclass(frozen=True, slots=True)
class Turned:
    """Turned away, and why."""

    status: HTTPStatus
    detail: str


def admit(gate: Gate, visit: Visit) -> Role | Turned | None:
    """Return the visitor's role, None for a reader without a token, or why they may not enter."""
    if visit.method == "POST" and visit.path in SIGNED:
        return None
    if gate.hosts is not None and host_name(visit.host) not in gate.hosts:
        return Turned(HTTPStatus.FORBIDDEN, "the Host header names another host")
    is_read = visit.is_read
    if not is_read and visit.origin is not None and not _is_own(visit.origin, visit.host):
        return Turned(HTTPStatus.FORBIDDEN, "a page of another origin may not change anything")
    token = bearer_token(visit.authorization)
    role = gate.tokens.role_of(token)
    if role is None:
        return _without_role(gate, is_read=is_read, has_token=token is not None)
    needed = Role.VIEWER if is_read else Role.OPERATOR
    if not allows(role, needed):
        return Turned(HTTPStatus.FORBIDDEN, f"needs the role {needed} or higher, not {role}")
    return role


def _without_role(gate: Gate, *, is_read: bool, has_token: bool) -> Turned | None:
    if is_read and gate.open_reads:
        return None
    detail = "the token is not known" if has_token else "needs a token: Authorization: Bearer …"
    return Turned(HTTPStatus.UNAUTHORIZED, detail)


def host_name(host: str) -> str:
    """Return a Host header without its port, lower-case."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() and name else host.strip().lower()


def _is_own(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
