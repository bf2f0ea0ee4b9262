"""Where lists of targets come from: files, and web servers. Each keeps its last good list."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp

from ds4watch.config.files import matching_files
from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.scrape.groups import FilePlan, WebPlan
from ds4watch.scrape.listing import MAX_LIST_BYTES, Listing, read_json, read_yaml
from ds4watch.scrape.options import Credentials

MAX_WEB_SECONDS = 30.0
_CHUNK_BYTES = 1 << 16
_JSON = re.compile(r'application/json(;\s*charset=("utf-8"|utf-8))?', re.IGNORECASE)


class Fault(NamedTuple):
    """A list that could not be had: where, which kind of failure, what is wrong."""

    place: str
    kind: EdgeReason
    message: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a source lists now. is_whole: each of its lists was good, now or once before."""

    listings: tuple[Listing, ...] = ()
    faults: tuple[Fault, ...] = ()
    is_whole: bool = True


class _Known(NamedTuple):
    """A file's list, and by what to tell this state of the file from another."""

    stamp: tuple[int, ...]
    listings: tuple[Listing, ...]


class FileSource:
    """Files of one file_sd entry; read again when they change.

    A file that is broken, or was named and is gone, keeps its last list. One that a pattern no
    longer finds was removed, as Prometheus has it.
    """

    def __init__(self, plan: FilePlan) -> None:
        self.refresh_seconds = plan.refresh_seconds
        self._plan = plan
        self._known: dict[Path, _Known] = {}

    async def read(self) -> Found:
        """Return what the files list now; they are read in a thread."""
        return await asyncio.to_thread(self.look)

    def look(self) -> Found:
        """Return what the files list now."""
        paths = self._paths()
        faults: list[Fault] = []
        self._known = {path: known for path, known in self._known.items() if path in paths}
        for path in paths:
            try:
                self._known[path] = _read_file(path, self._known.get(path))
            except ScrapeError as error:
                faults.append(Fault(str(path), error.reason, str(error)))
        listings = tuple(
            listing for path in paths if path in self._known for listing in self._known[path][1]
        )
        return Found(listings, tuple(faults), is_whole=self._known.keys() >= paths.keys())

    def _paths(self) -> dict[Path, None]:
        """Return the files in order; a name without * stands for itself, there or not."""
        found: dict[Path, None] = {}
        for pattern in self._plan.patterns:
            matches = matching_files(self._plan.base, pattern)
            if not matches and not any(sign in pattern for sign in "*?["):
                matches = [self._plan.base / pattern]
            found |= dict.fromkeys(matches)
        return found


def _read_file(path: Path, known: _Known | None) -> _Known:
    """Return a file's list, read only if it changed. Raises ScrapeError."""
    try:
        with path.open("rb") as stream:
            stat = os.fstat(stream.fileno())
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if known is not None and known.stamp == stamp:
                return known
            body = stream.read(MAX_LIST_BYTES + 1)
    except FileNotFoundError as error:
        raise ScrapeError("there is no such file", reason=EdgeReason.GONE) from error
    except OSError as error:
        message = (error.strerror or str(error)).lower()
        raise ScrapeError(message, reason=EdgeReason.OTHER) from error
    if len(body) > MAX_LIST_BYTES:
        raise _too_large()
    read = read_json if path.suffix == ".json" else read_yaml
    name = os.fsencode(path).decode(errors="replace")
    return _Known(stamp, read(body, {"__meta_filepath": name}))


def _too_large() -> ScrapeError:
    message = f"larger than {MAX_LIST_BYTES >> 20} MiB"
    return ScrapeError(message, reason=EdgeReason.TOO_LARGE)


class WebSource:
    """A web server of one http_sd entry, asked anew each time. Redirects are not followed."""

    def __init__(self, plan: WebPlan, session: aiohttp.ClientSession) -> None:
        self.refresh_seconds = plan.refresh_seconds
        self._plan = plan
        self._session = session
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
            async with self._session.get(
                self._plan.url,
                headers=headers,
                ssl=self._plan.tls or True,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
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
            raise _too_large()
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
