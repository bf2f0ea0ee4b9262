"""Fetches one metrics page, and says in one word why it could not."""

from __future__ import annotations

from typing import NamedTuple

import aiohttp

from ds4watch.config.settings import ScrapeSettings
from ds4watch.model.errors import EdgeReason, ScrapeError

_ACCEPT = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
_READABLE = ("text/plain", "application/openmetrics-text")
_CHUNK_BYTES = 1 << 16


class Fetched(NamedTuple):
    """An answer: its body, decompressed, and its Content-Type (empty if it has none)."""

    body: bytes
    content_type: str


def open_session(settings: ScrapeSettings) -> aiohttp.ClientSession:
    """Open a session for scraping: kept-alive connections, no cookies, no proxies."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=settings.concurrency),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": _ACCEPT, "User-Agent": "ds4watch"},
        trust_env=False,
    )


async def fetch(session: aiohttp.ClientSession, url: str, settings: ScrapeSettings) -> Fetched:
    """Fetch a metrics page. Redirects are not followed.

    Raises ScrapeError whose reason tells connection, time-out, status, size and content apart.
    """
    timeout = aiohttp.ClientTimeout(total=settings.timeout_seconds)
    try:
        async with session.get(url, allow_redirects=False, timeout=timeout) as response:
            _check_head(response)
            body = await _body_of(response, settings.max_body_bytes)
            return Fetched(body, response.headers.get("Content-Type", ""))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _as_scrape_error(error) from error


def _check_head(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        raise ScrapeError(
            f"answered {response.status}",
            reason=EdgeReason.STATUS,
            retryable=response.status >= 500,
        )
    kind = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if kind and kind not in _READABLE:
        raise ScrapeError(f"answered with {kind}, not metrics", reason=EdgeReason.BODY)


async def _body_of(response: aiohttp.ClientResponse, max_body_bytes: int) -> bytes:
    """Read the body in pieces: a small compressed answer can be a huge page."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > max_body_bytes:
            message = f"the page is larger than {max_body_bytes} bytes"
            raise ScrapeError(message, reason=EdgeReason.TOO_LARGE)
    return bytes(body)


def _as_scrape_error(error: Exception) -> ScrapeError:
    text = str(error) or type(error).__name__
    for kinds, reason in _REASONS:
        if isinstance(error, kinds):
            text = "no answer in time" if reason is EdgeReason.TIMEOUT else text
            return ScrapeError(text, reason=reason, retryable=reason is not EdgeReason.OTHER)
    return ScrapeError(text, reason=EdgeReason.OTHER)


_REASONS: tuple[tuple[tuple[type[Exception], ...], EdgeReason], ...] = (
    ((TimeoutError,), EdgeReason.TIMEOUT),
    ((aiohttp.InvalidURL,), EdgeReason.OTHER),
    ((aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError), EdgeReason.CONNECT),
    ((aiohttp.ServerDisconnectedError, ConnectionError), EdgeReason.GONE),
    ((aiohttp.ClientOSError,), EdgeReason.GONE),
    ((aiohttp.ClientPayloadError, aiohttp.ClientResponseError), EdgeReason.BODY),
)
"""First match wins: aiohttp's time-outs are connection errors too."""
