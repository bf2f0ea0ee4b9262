"""Lists of targets on web servers. A module of its own: aiohttp takes a while to load."""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.scrape.groups import WebPlan
from ds4watch.scrape.listing import MAX_LIST_BYTES, read_json
from ds4watch.scrape.options import Credentials
from ds4watch.scrape.sources import Fault, Found, too_large

MAX_WEB_SECONDS = 30.0
_CHUNK_BYTES = 1 << 16
_JSON = re.compile(r'application/json(;\s*charset=("utf-8"|utf-8))?', re.IGNORECASE)


class WebSource:
    """A web server of one http_sd entry, asked anew each time. Redirects are not followed."""

    def __init__(self, plan: WebPlan) -> None:
        self.refresh_seconds = plan.refresh_seconds
        self._plan = plan
        self._last = Found(is_whole=False)

    async def read(self) -> Found:
        """Return what the server lists now, else what it listed last."""
        try:
            body = await self._fetch()
            meta = {"__meta_url": self._plan.url}
            listings = await asyncio.to_thread(read_json, body, meta)
        except ScrapeError as error:
            fault = Fault(self._place(), error.reason, str(error))
            return replace(self._last, faults=(fault,))
        self._last = Found(listings)
        return self._last

    async def _fetch(self) -> bytes:
        """Return the answer's body. Raises ScrapeError, without what may be secret."""
        timeout = aiohttp.ClientTimeout(total=min(self.refresh_seconds, MAX_WEB_SECONDS))
        headers = {
            "Accept": "application/json",
            "X-Prometheus-Refresh-Interval-Seconds": f"{self.refresh_seconds:g}",
        }
        if self._plan.credentials is not None:
            secret = await asyncio.to_thread(_authorization, self._plan.credentials)
            headers["Authorization"] = secret
        try:
            async with (
                _session() as session,
                session.get(
                    self._plan.url,
                    headers=headers,
                    ssl=self._plan.tls or True,
                    timeout=timeout,
                    allow_redirects=False,
                ) as response,
            ):
                _check_head(response)
                return await _body_of(response)
        except TimeoutError as error:
            raise ScrapeError("no answer in time", reason=EdgeReason.TIMEOUT) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The library's message may hold the address, and that a secret.
            message = f"cannot be reached ({type(error).__name__})"
            raise ScrapeError(message, reason=EdgeReason.CONNECT) from error

    def _place(self) -> str:
        parts = urlsplit(self._plan.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _session() -> aiohttp.ClientSession:
    jar = aiohttp.DummyCookieJar()
    return aiohttp.ClientSession(
        cookie_jar=jar, headers={"User-Agent": "ds4watch"}, trust_env=False
    )


def _check_head(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        raise ScrapeError(f"answered {response.status}", reason=EdgeReason.STATUS)
    kind = response.headers.get("Content-Type", "")
    if not _JSON.fullmatch(kind.strip()):
        message = f"answered with {kind[:60] or 'no Content-Type'}, not with application/json"
        raise ScrapeError(message, reason=EdgeReason.BODY)


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_LIST_BYTES:
            raise too_large()
    return bytes(body)


def _authorization(credentials: Credentials) -> str:
    """Return the header; files are read each time. Raises ScrapeError if one cannot be."""
    if credentials.username:
        password = _secret(credentials.password, credentials.password_file)
        pair = base64.b64encode(f"{credentials.username}:{password}".encode())
        return f"Basic {pair.decode()}"
    return f"{credentials.scheme} {_secret(credentials.token, credentials.token_file)}"


def _secret(given: str, file: Path | None) -> str:
    if file is None:
        return given
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ScrapeError(f"{file} cannot be read", reason=EdgeReason.OTHER) from error
