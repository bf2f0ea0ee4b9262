"""`scrape.groups`: targets that somebody else runs, in the words of Prometheus's scrape_configs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from ds4watch.config.patterns import compile_anchored
from ds4watch.config.section import Seconds, Section

LABEL_NAME_PATTERN = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
DEFAULT_REGEX = "(.*)"
DEFAULT_REPLACEMENT = "$1"
DEFAULT_SEPARATOR = ";"


class RelabelAction(StrEnum):
    """What one step of relabelling does."""

    REPLACE = "replace"
    KEEP = "keep"
    DROP = "drop"
    KEEP_EQUAL = "keepequal"
    DROP_EQUAL = "dropequal"
    HASH_MOD = "hashmod"
    LABEL_MAP = "labelmap"
    LABEL_DROP = "labeldrop"
    LABEL_KEEP = "labelkeep"
    LOWERCASE = "lowercase"
    UPPERCASE = "uppercase"


class Scheme(StrEnum):
    """How a page is fetched."""

    HTTP = "http"
    HTTPS = "https"


def address_fault(address: str) -> str | None:
    """Return what keeps `address` from being a host with a port, or None."""
    if any(sign in address for sign in "/?#@\\") or any(char <= " " for char in address):
        return "must be host:port, without http:// and path (see scheme and metrics_path)"
    try:
        parts = urlsplit(f"http://{address}/")
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    return None if has_host else "must be host:port"


def _regex(text: str) -> str:
    compile_anchored(text)
    return text


def _address(address: str) -> str:
    fault = address_fault(address)
    if fault:
        raise ValueError(fault)
    return address


LabelName = Annotated[str, Field(pattern=LABEL_NAME_PATTERN)]
Regex = Annotated[str, AfterValidator(_regex)]
Address = Annotated[str, AfterValidator(_address)]


class RelabelConfig(Section):
    """One step of relabelling."""

    source_labels: tuple[LabelName, ...] = Field((), description="Labels whose values are joined.")
    separator: str = Field(DEFAULT_SEPARATOR, description="Put between the joined values.")
    target_label: str = Field("", description="Label that is written; `$1` is filled in.")
    regex: Regex = Field(DEFAULT_REGEX, description="RE2, has to match the whole joined value.")
    modulus: int = Field(0, ge=0, lt=1 << 64, description="Of the hash, for `hashmod`.")
    replacement: str = Field(
        DEFAULT_REPLACEMENT, description="What is written; `$1` or `${1}` is filled in, `$$` is $."
    )
    action: RelabelAction = Field(RelabelAction.REPLACE, description="What the step does.")


class BasicAuth(Section):
    """User and password."""

    username: str = Field("", description="User.")
    password: str | None = Field(None, repr=False, description="Password; better a file.")
    password_file: str | None = Field(None, description="File that holds nothing but the password.")


class Authorization(Section):
    """What is sent in the Authorization header."""

    type: str = Field("Bearer", pattern=r"^[A-Za-z][A-Za-z0-9-]*$", description="Its first word.")
    credentials: str | None = Field(None, repr=False, description="The token; better a file.")
    credentials_file: str | None = Field(None, description="File that holds nothing but the token.")


class TlsConfig(Section):
    """How the other side's certificate is checked, and which is shown to it."""

    ca_file: str | None = Field(
        None, description="Certificates of the authorities to trust, instead of the system's."
    )
    cert_file: str | None = Field(None, description="Our own certificate.")
    key_file: str | None = Field(None, description="The key of our own certificate.")
    server_name: str | None = Field(
        None, description="Name that the certificate has to bear, if not the address's host."
    )
    insecure_skip_verify: bool = Field(default=False, description="Take any certificate.")


class StaticConfig(Section):
    """Targets that are written down."""

    targets: tuple[Address, ...] = Field(description="Addresses, as host:port.")
    labels: dict[LabelName, str] = Field(
        default_factory=dict, description="Labels of all of these targets."
    )


class FileSdConfig(Section):
    """Targets that files list."""

    files: tuple[Annotated[str, Field(pattern=r"\.(json|ya?ml)$")], ...] = Field(
        min_length=1, description="Files or patterns (* ? [), ending in .json, .yml or .yaml."
    )
    refresh_seconds: Seconds = Field(5.0, description="Time between two looks at the files.")


class HttpSdConfig(Section):
    """Targets that a web server lists."""

    url: str = Field(pattern=r"^https?://", description="Address that answers with the JSON list.")
    refresh_seconds: Seconds = Field(60.0, description="Time between two requests.")
    basic_auth: BasicAuth | None = Field(None, description="User and password for it.")
    authorization: Authorization | None = Field(None, description="Token for it.")
    tls_config: TlsConfig | None = Field(None, description="TLS towards it.")


class ScrapeGroup(Section):
    """Targets that are fetched in the same way."""

    name: str = Field(
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$",
        description="Name, unique; the `job` label of its targets (Prometheus: job_name).",
    )
    interval_seconds: Seconds | None = Field(
        None, description="Time between two scrapes. Default: scrape.interval_seconds."
    )
    timeout_seconds: Seconds | None = Field(
        None,
        description="Time after which one scrape has failed. Default: scrape.timeout_seconds.",
    )
    scheme: Scheme = Field(Scheme.HTTP, description="How the page is fetched.")
    metrics_path: str = Field("/metrics", pattern=r"^/[^?#]*$", description="Path of the page.")
    params: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Query parameters of the page's address."
    )
    static_configs: tuple[StaticConfig, ...] = Field((), description="Targets written down here.")
    file_sd_configs: tuple[FileSdConfig, ...] = Field((), description="Targets from files.")
    http_sd_configs: tuple[HttpSdConfig, ...] = Field((), description="Targets from the web.")
    relabel_configs: tuple[RelabelConfig, ...] = Field((), description="Relabelling, in order.")
    target_limit: int = Field(
        5000, ge=1, le=100_000, description="Most targets; those beyond it are refused."
    )
    sample_limit: int = Field(100_000, ge=0, description="Most samples on a page; 0 is no limit.")
    label_limit: int = Field(64, ge=0, description="Most labels of a series; 0 is no limit.")
    label_value_length_limit: int = Field(
        4096, ge=0, description="Longest value of a label, in bytes; 0 is no limit."
    )
    max_body_bytes: int | None = Field(
        None, ge=1024, description="Largest page accepted. Default: scrape.max_body_bytes."
    )
    basic_auth: BasicAuth | None = Field(None, description="User and password for the targets.")
    authorization: Authorization | None = Field(None, description="Token for the targets.")
    tls_config: TlsConfig | None = Field(None, description="TLS towards the targets.")
