"""From `source` to how a remote server is asked; secrets and certificates checked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.config.files import LoadedSettings
from ds4watch.config.scrape import TlsConfig
from ds4watch.config.source import SourceKind
from ds4watch.model.errors import ConfigError
from ds4watch.scrape.groups import Reading, credentials_of, document_of, tls_of
from ds4watch.scrape.options import Credentials


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How a server is asked.

    verify: file or folder of the authorities to trust; True for those of the library, False to
    take any certificate. own: our own certificate, and its key.
    """

    url: str
    timeout_seconds: float = 10.0
    retries: int = 2
    concurrency: int = 4
    max_body_bytes: int = 16 << 20
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Credentials | None = None
    verify: Path | bool = True
    own: tuple[Path, Path] | None = None


def remote_options(loaded: LoadedSettings) -> RemoteOptions | None:
    """Return how the server is asked, or None if rules are evaluated here. Raises ConfigError."""
    source = loaded.settings.source
    if source.kind is SourceKind.EMBEDDED or source.url is None:
        return None
    reading = Reading(loaded, document_of(loaded))
    place = ("source",)
    credentials = credentials_of(source.basic_auth, source.authorization, reading, place)
    tls_of(source.tls_config, reading, place)  # reads every file once, to tell what is wrong
    if reading.findings:
        raise ConfigError(*reading.findings)
    tls = source.tls_config or TlsConfig()
    has_own = tls.cert_file is not None and tls.key_file is not None
    return RemoteOptions(
        url=source.url.rstrip("/"),
        timeout_seconds=source.timeout_seconds,
        retries=source.retries,
        concurrency=source.concurrency,
        max_body_bytes=source.max_body_bytes,
        headers=dict(source.headers),
        credentials=credentials,
        verify=_verify(tls, reading),
        own=(reading.path(tls.cert_file or ""), reading.path(tls.key_file or ""))
        if has_own
        else None,
    )


def _verify(tls: TlsConfig, reading: Reading) -> Path | bool:
    if tls.insecure_skip_verify:
        return False
    if tls.ca_file is not None:
        return reading.path(tls.ca_file)
    system = ssl.get_default_verify_paths()
    found = system.cafile or system.capath
    return Path(found) if found else True
