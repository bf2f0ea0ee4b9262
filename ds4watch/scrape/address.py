"""Where a target is: its URL taken apart once, and what of it may be shown."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from ds4watch.model.errors import EdgeReason, ScrapeError

_PORTS = {"http": 80, "https": 443}
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~-._"
_SAFE_IN_QUERY = _SAFE_IN_PATH + "?[]"


@dataclass(frozen=True, slots=True)
class Address:
    """A target's URL. `host_header` and `request_target` are as they stand in the request."""

    host: str
    port: int
    encrypted: bool
    host_header: str
    request_target: str

    def __str__(self) -> str:
        """Render without the query, which may hold a secret."""
        scheme = "https" if self.encrypted else "http"
        path, mark, _ = self.request_target.partition("?")
        return f"{scheme}://{self.host_header}{path}{'?…' if mark else ''}"


def address_of(url: str) -> Address:
    """Take a URL apart. Raises ScrapeError(OTHER) if it is no address; never quotes the URL."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        port = _PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    except (ValueError, UnicodeError) as error:
        raise _refused("the target's address is no URL") from error
    if not host or not port or parts.scheme not in _PORTS:
        raise _refused("the target's address is not http://host:port/path, nor https://")
    if parts.username is not None:
        raise _refused("the target's address holds credentials: set them for its group instead")
    path = quote(parts.path or "/", safe=_SAFE_IN_PATH)
    query = f"?{quote(parts.query, safe=_SAFE_IN_QUERY)}" if parts.query else ""
    shown = f"[{host}]" if ":" in host else host
    usual = port == _PORTS[parts.scheme]
    return Address(
        host=host,
        port=port,
        encrypted=parts.scheme == "https",
        host_header=shown if usual else f"{shown}:{port}",
        request_target=path + query,
    )


def _refused(why: str) -> ScrapeError:
    return ScrapeError(why, reason=EdgeReason.OTHER)
