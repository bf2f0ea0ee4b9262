"""Signed requests: HMAC-SHA256 over method, path, time, nonce and body.

The secret never travels. Both sides make the signing key from it; the server keeps that alone.
What is signed, each on a line of its own:

    ds4-hmac-sha256
    POST
    /v1/chat/completions?x=1
    <x-ds4-timestamp: whole unix seconds>
    <x-ds4-nonce: up to 64 letters, digits, - or _; empty if not sent>
    <hex SHA-256 of the body>

A signature is good for the window on both sides of its timestamp, and once: a request that is
to be sent twice needs another nonce (or another second).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ds4watch.model.ports import UnixSeconds

KEY_HEADER: Final = "x-ds4-key"
TIMESTAMP_HEADER: Final = "x-ds4-timestamp"
NONCE_HEADER: Final = "x-ds4-nonce"
SIGNATURE_HEADER: Final = "x-ds4-signature"
WINDOW_SECONDS: Final = 300.0
_SCHEME: Final = "ds4-hmac-sha256"
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_NONCE = re.compile(r"[A-Za-z0-9_-]{0,64}")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signed request says of itself."""

    key: str
    timestamp: str
    nonce: str
    signature: str


def signing_key(secret: str) -> str:
    """Return what requests of a key are signed with, in hex; it does not tell the secret."""
    return hmac.new(secret.encode("utf-8"), _SCHEME.encode(), hashlib.sha256).hexdigest()


def signed_of(headers: Mapping[str, str]) -> Signed | None:
    """Return what the headers say; None if the request is not signed.

    A key's name without a signature and without a secret is a signature left out.
    """
    signature = headers.get(SIGNATURE_HEADER)
    if signature is None:
        if KEY_HEADER not in headers or "authorization" in headers:
            return None
        signature = ""
    return Signed(
        key=headers.get(KEY_HEADER, ""),
        timestamp=headers.get(TIMESTAMP_HEADER, ""),
        nonce=headers.get(NONCE_HEADER, ""),
        signature=signature,
    )


def signature_of(
    key: str, *, method: str, target: str, timestamp: str, nonce: str, body: bytes
) -> str:
    """Return the signature in hex. `target` is path and query as they are sent."""
    lines = (_SCHEME, method, target, timestamp, nonce, hashlib.sha256(body).hexdigest())
    text = "\n".join(lines).encode("utf-8", "surrogatepass")
    return hmac.new(key.encode("ascii"), text, hashlib.sha256).hexdigest()


def fault_of_form(signed: Signed, now: UnixSeconds, *, window_seconds: float) -> str | None:
    """Return what is wrong with the headers, before anything is computed; None if nothing."""
    if not _TIMESTAMP.fullmatch(signed.timestamp):
        return f"{TIMESTAMP_HEADER} must be whole unix seconds"
    if abs(now - int(signed.timestamp)) > window_seconds:
        return f"{TIMESTAMP_HEADER} is more than {window_seconds:g} s off"
    if not _NONCE.fullmatch(signed.nonce):
        return f"{NONCE_HEADER} must be at most 64 letters, digits, - or _"
    if not _SIGNATURE.fullmatch(signed.signature):
        return f"{SIGNATURE_HEADER} must be 64 hex digits"
    return None


def is_genuine(signed: Signed, key: str, *, method: str, target: str, body: bytes) -> bool:
    """Return whether the signature is that of this request; in constant time."""
    wanted = signature_of(
        key,
        method=method,
        target=target,
        timestamp=signed.timestamp,
        nonce=signed.nonce,
        body=body,
    )
    return hmac.compare_digest(wanted.encode(), signed.signature.encode("utf-8", "surrogatepass"))
