"""What is sent in Authorization. Secrets are in no message, log or repr."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.scrape.options import Credentials

_MAX_SECRET_BYTES = 1 << 16


_Stamp: TypeAlias = tuple[int, int, int]
"""By what a file is told to have changed: time, size, and inode, as Kubernetes swaps a link."""


@dataclass(slots=True)
class Authorization:
    """The Authorization header of a target group; reads secret files anew when they change."""

    credentials: Credentials | None
    _header: bytes = field(default=b"", repr=False)
    _stamp: _Stamp | None = None

    def header(self) -> bytes:
        """Return the header line with its line end, empty without credentials.

        Raises ScrapeError(OTHER) if a file cannot be read or the secret cannot be sent.
        """
        credentials = self.credentials
        if credentials is None:
            return b""
        file = credentials.password_file if credentials.username else credentials.token_file
        stamp = _stamp_of(file) if file else None
        if not self._header or stamp != self._stamp:
            self._header = _header_of(credentials, _secret_in(file) if file else None)
            self._stamp = stamp
        return self._header


def _header_of(credentials: Credentials, from_file: str | None) -> bytes:
    if credentials.username:
        password = credentials.password if from_file is None else from_file
        pair = f"{credentials.username}:{password}".encode()
        return b"Authorization: Basic %b\r\n" % base64.b64encode(pair)
    token = credentials.token if from_file is None else from_file
    value = f"{credentials.scheme} {token}"
    if not value.isprintable():
        raise _refused("the token holds a line break or another control character: mend it")
    return b"Authorization: %b\r\n" % value.encode() if token else b""


def _stamp_of(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError as error:
        raise _refused(f"cannot read {file}: {error.strerror}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _secret_in(file: Path) -> str:
    """Return what a file holds, without the line end that editors leave."""
    try:
        with file.open("rb") as opened:
            held = opened.read(_MAX_SECRET_BYTES)
        secret = held.decode().strip()
    except OSError as error:
        raise _refused(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise _refused(f"{file} holds no text: write the secret into it as UTF-8") from None
    if not secret:
        raise _refused(f"{file} is empty: write the secret into it")
    return secret


def _refused(why: str) -> ScrapeError:
    return ScrapeError(why, reason=EdgeReason.OTHER)
