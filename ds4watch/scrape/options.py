"""How the targets of one group are fetched, and what of their pages is accepted."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is sent in Authorization. A file is read anew when it changes; no secret is logged.

    Either `username` with `password` or `password_file` (basic), or `token` or `token_file`
    (under `scheme`, Bearer unless said otherwise), or none of them.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    scheme: str = "Bearer"
    token: str = field(default="", repr=False)
    token_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """Options of a target group. Limits: a page over one has failed as a whole; 0 is no limit.

    series_limit: samples on a page. label_limit: labels of a series. label_value_bytes: length of
    a label's value. tls: the machine's own CAs if not given. compressed: ask for gzip, which
    spares a network and costs CPU at both ends.
    """

    interval_seconds: float = 1.0
    timeout_seconds: float = 5.0
    max_body_bytes: int = 16 << 20
    series_limit: int = 100_000
    label_limit: int = 64
    label_value_bytes: int = 4096
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None
    compressed: bool = False
