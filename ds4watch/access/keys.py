"""API keys: made from random bytes, kept as digests, found in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac

from ds4watch.model.service_policy import ApiKey

_PREFIX = "ds4-"
_MIN_RANDOM_BYTES = 16


def new_secret(random_bytes: bytes) -> str:
    """Return a printable secret made of `random_bytes`. Raises ValueError for fewer than 16."""
    if len(random_bytes) < _MIN_RANDOM_BYTES:
        message = f"a secret needs at least {_MIN_RANDOM_BYTES} random bytes"
        raise ValueError(message)
    return _PREFIX + base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode("ascii")


def digest(secret: str) -> str:
    """Return the hex SHA-256 of a secret: the only form that is stored."""
    # Headers reach us with undecodable bytes as lone surrogates; they must not raise here.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def find_key(keys: tuple[ApiKey, ...], secret: str) -> ApiKey | None:
    """Return the key whose secret this is; the time taken does not tell how near a guess was."""
    wanted = digest(secret).encode("ascii")
    found: ApiKey | None = None
    for key in keys:  # all of them, without leaving early
        if hmac.compare_digest(key.sha256.lower().encode("utf-8", "surrogatepass"), wanted):
            found = key
    return found


def bearer_token(header: str | None) -> str | None:
    """Return the token of an `Authorization: Bearer …` header, None if there is none."""
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token else None
