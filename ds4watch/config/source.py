"""`source`: where rules are evaluated, and how a remote server is asked."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import urlsplit

from pydantic import Field

from ds4watch.config.scrape import Authorization, BasicAuth, TlsConfig
from ds4watch.config.section import Seconds, Section

MAX_HEADERS = 32
_OURS = ("authorization", "host", "content-length", "transfer-encoding", "connection")

Fault: TypeAlias = tuple[tuple[str, ...], str, str | None]
"""Where below the section, what, and how to mend it."""


class SourceKind(StrEnum):
    """Who evaluates the rules."""

    EMBEDDED = "embedded"
    PROMETHEUS = "prometheus"


class RecordedSeries(StrEnum):
    """What becomes of series that our recording rules make."""

    INLINE = "inline"
    SERVER = "server"


class SourceSettings(Section):
    """Where rules are evaluated: here, or on a server that speaks Prometheus's HTTP API."""

    kind: SourceKind = Field(
        SourceKind.EMBEDDED,
        description="`embedded` evaluates in the daemon; `prometheus` asks a Prometheus, Thanos, "
        "Mimir or VictoriaMetrics.",
    )
    url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Address of the server, as it is before /api/v1/query.",
    )
    interval_seconds: Seconds = Field(15.0, description="Time between two rounds of questions.")
    timeout_seconds: Seconds = Field(10.0, description="Time for one answer.")
    retries: int = Field(
        2, ge=0, le=10, description="Further tries after a failure that may pass, in the interval."
    )
    concurrency: int = Field(4, ge=1, le=64, description="Questions in flight at once.")
    max_age_seconds: float = Field(
        120.0,
        ge=0,
        description="If the newest `up` on the server is older, its data count as no data. More "
        "than its scrape interval; 0 for a server that scrapes nothing.",
    )
    max_body_bytes: int = Field(16 << 20, ge=1024, description="Largest answer accepted.")
    recorded: RecordedSeries = Field(
        RecordedSeries.INLINE,
        description="Series of our recording rules: `inline` puts their expressions in their "
        "place; `server` takes them from the server, which has the rules too.",
    )
    only: str | None = Field(
        None,
        description='Matchers that are added to every selector, as {job=~"ds4watch|vllm"}.',
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Sent with each question, as X-Scope-OrgID for Mimir.",
    )
    basic_auth: BasicAuth | None = Field(None, description="User and password for it.")
    authorization: Authorization | None = Field(None, description="Token for it.")
    tls_config: TlsConfig | None = Field(None, description="TLS towards it.")


def source_faults(source: SourceSettings) -> Iterator[Fault]:
    """Yield what does not go together in the section."""
    if source.kind is SourceKind.PROMETHEUS and source.url is None:
        yield ("url",), "is missing", "name the server, as http://prometheus:9090"
    if source.kind is SourceKind.EMBEDDED and source.url is not None:
        yield ("url",), "is not used by an embedded source", "add kind: prometheus"
    if source.url is not None:
        yield from _url_faults(source.url)
    if source.timeout_seconds > source.interval_seconds:
        message = f"must be at most source.interval_seconds ({source.interval_seconds:g})"
        yield ("timeout_seconds",), f"{message}, got {source.timeout_seconds:g}", None
    if source.interval_seconds < 1:
        yield ("interval_seconds",), f"must be at least 1, got {source.interval_seconds:g}", None
    if source.only is not None and not (source.only[:1] == "{" and source.only[-1:] == "}"):
        yield ("only",), "must be matchers in braces", 'as {job=~"ds4watch|vllm"}'
    yield from _header_faults(source.headers)
    if source.tls_config is not None and source.tls_config.server_name is not None:
        mend = "name the server in url as its certificate does"
        yield ("tls_config", "server_name"), "is not supported here", mend


def _url_faults(url: str) -> Iterator[Fault]:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        yield ("url",), "must name a host, and a port that is a number", None
        return
    if not has_host:
        yield ("url",), "must name a host", None
    if parts.username or parts.password:
        yield ("url",), "must not hold user and password", "put them under basic_auth"
    if parts.query or parts.fragment:
        yield ("url",), "must have nothing behind ? or #", "send what is wanted as headers"
    if parts.path.rstrip("/").endswith(("/api/v1", "/api/v1/query")):
        yield ("url",), "must end before /api/v1", None


def _header_faults(headers: dict[str, str]) -> Iterator[Fault]:
    if len(headers) > MAX_HEADERS:
        yield ("headers",), f"must be at most {MAX_HEADERS}", None
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            yield ("headers", name), "is no name of a header", None
        elif name.lower() in _OURS:
            mend = "use basic_auth or authorization" if name.lower() == "authorization" else None
            yield ("headers", name), "is not to be set here", mend
        if not value.isascii() or not value.isprintable() or value != value.strip():
            yield ("headers", name), "must be plain text without line breaks", None
